/* SPDX-License-Identifier: MIT */
/*
 * bytes.h - bounded little-endian reading of bytes from outside.
 *
 * A reader never reads past its end: a short read sets `bad`, returns zero and
 * stays bad, so that a decoder may check once at its end.
 *
 * Contract
 *   Ownership   the reader borrows its bytes
 *   Threads     caller serialises
 */
#ifndef COWFS_BASE_BYTES_H
#define COWFS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *pos;
	size_t left;
	bool bad;
};

/* Unaligned little-endian loads and stores at a place known to be valid. */
static inline uint16_t bytes_load_u16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint32_t bytes_load_u32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint64_t bytes_load_u64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline void bytes_store_u32(void *p, uint32_t v)
{
	memcpy(p, &v, sizeof v);
}

static inline void bytes_store_u64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "cowfs formats are little-endian; this machine needs byte swaps here"
#endif

static inline struct bytes bytes_of(const void *data, size_t len)
{
	return (struct bytes){.pos = data, .left = len};
}

/* Returns the next n bytes, or NULL (and bad) when there are fewer. */
static inline const uint8_t *bytes_take(struct bytes *r, size_t n)
{
	const uint8_t *p = r->pos;

	if (r->bad || r->left < n) {
		r->bad = true;
		return NULL;
	}
	r->pos += n;
	r->left -= n;
	return p;
}

static inline uint8_t bytes_u8(struct bytes *r)
{
	const uint8_t *p = bytes_take(r, 1);

	return p ? *p : 0;
}

static inline uint16_t bytes_u16(struct bytes *r)
{
	const uint8_t *p = bytes_take(r, 2);

	return p ? bytes_load_u16(p) : 0;
}

static inline uint32_t bytes_u32(struct bytes *r)
{
	const uint8_t *p = bytes_take(r, 4);

	return p ? bytes_load_u32(p) : 0;
}

static inline uint64_t bytes_u64(struct bytes *r)
{
	const uint8_t *p = bytes_take(r, 8);

	return p ? bytes_load_u64(p) : 0;
}

/* Takes a block written by buf_put_block; its length must be <= max. */
static inline const uint8_t *bytes_block(struct bytes *r, size_t max,
					 size_t *ret_len)
{
	uint32_t n = bytes_u32(r);

	*ret_len = 0;
	if (r->bad || n > max || n > r->left) {
		r->bad = true;
		return NULL;
	}
	*ret_len = n;
	return bytes_take(r, n);
}

#endif
