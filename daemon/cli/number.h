/* SPDX-License-Identifier: MIT */
/*
 * number.h - numbers and sizes that users type.
 *
 * Contract
 *   Threads     any
 *   Errors      -EINVAL: not one
 */
#ifndef COWFS_CLI_NUMBER_H
#define COWFS_CLI_NUMBER_H

#include "base/attr.h"

#include <stdint.h>

/* Reads a decimal number of at most max, all of the text. */
_must_check_ int number_read(const char *text, uint64_t max, uint64_t *ret_n);
/* Likewise a span of time in seconds; s, m, h or d may stand behind it. */
_must_check_ int number_read_span(const char *text, uint64_t max,
				  uint64_t *ret_seconds);
/* Likewise a size: bytes, or with K, M, G, T times 1024 each. */
_must_check_ int number_read_size(const char *text, uint64_t *ret_bytes);

#endif
