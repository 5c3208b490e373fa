/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what every fuzz target includes.
 *
 * A target decodes arbitrary bytes. It must not crash, and what a decoder
 * accepts must hold: FUZZ_CHECK ends the process when it does not.
 *
 * Contract
 *   Threads     one
 */
#ifndef COWFS_TESTS_FUZZ_H
#define COWFS_TESTS_FUZZ_H

#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                       \
	do {                                                                   \
		if (!(cond)) {                                                 \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__,         \
				      __LINE__, #cond);                        \
			abort();                                               \
		}                                                              \
	} while (0)

/* An encoding that was accepted is the only one of what it says. */
static inline void fuzz_check_same(const struct buf *again, const uint8_t *data,
				   size_t size)
{
	FUZZ_CHECK(buf_error(again) == 0);
	FUZZ_CHECK(again->len == size);
	FUZZ_CHECK(size == 0 || memcmp(again->data, data, size) == 0);
}

#endif
