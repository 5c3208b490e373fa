/* SPDX-License-Identifier: MIT */
/*
 * sha1_int.h - SHA-1, as git names things by it.
 *
 * For names that git gives, never for safety: what it says to be equal is
 * shown to git as unchanged, as git itself would.
 *
 * Contract
 *   Ownership   plain values
 *   Threads     any
 * Source: FIPS 180-4.
 */
#ifndef COWFS_GIT_SHA1_INT_H
#define COWFS_GIT_SHA1_INT_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20, SHA1_BLOCK = 64 };

struct sha1 {
	uint32_t h[5];
	uint64_t total;
	uint8_t block[SHA1_BLOCK];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *data, size_t len);
void sha1_end(struct sha1 *s, uint8_t ret[SHA1_BYTES]);

#endif
