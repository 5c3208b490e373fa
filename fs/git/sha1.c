/* SPDX-License-Identifier: MIT */
/*
 * sha1.c - SHA-1 by the standard's own formulas.
 *
 * libgit2 hashes objects only, and the git index ends in the hash of itself;
 * a library for one function would cost every command its start. The schedule
 * is a ring of 16 words, and the rounds are unrolled by five, so that no
 * variable has to be moved.
 */
#include "git/sha1_int.h"

#include <string.h>

#include "base/attr.h"

/* Only with every round in one place, and all its numbers known, are the words
 * in registers: four times as fast. */
#define INLINED static inline __attribute__((always_inline))

INLINED uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

INLINED uint32_t word(uint32_t w[16], int t)
{
	if (t < 16)
		return w[t];
	return w[t & 15] = rotate(w[(t + 13) & 15] ^ w[(t + 8) & 15] ^
					  w[(t + 2) & 15] ^ w[t & 15],
				  1);
}

/* The function and constant of the rounds from 20 * part on. */
INLINED uint32_t mix(int part, uint32_t b, uint32_t c, uint32_t d)
{
	switch (part) {
	case 0:
		return ((b & c) | (~b & d)) + 0x5a827999;
	case 1:
		return (b ^ c ^ d) + 0x6ed9eba1;
	case 2:
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	default:
		return (b ^ c ^ d) + 0xca62c1d6;
	}
}

INLINED void step(uint32_t w[16], int t, uint32_t v[5], int at)
{
	uint32_t *a = &v[at % 5], *b = &v[(at + 1) % 5];
	uint32_t *c = &v[(at + 2) % 5], *d = &v[(at + 3) % 5];
	uint32_t *e = &v[(at + 4) % 5];

	*e += rotate(*a, 5) + mix(t / 20, *b, *c, *d) + word(w, t);
	*b = rotate(*b, 30);
}

/* Twenty rounds, which have one function. */
INLINED void twenty(uint32_t w[16], int from, uint32_t v[5])
{
#pragma GCC unroll 4
	for (int t = from; t < from + 20; t += 5) {
		step(w, t, v, 0);
		step(w, t + 1, v, 4);
		step(w, t + 2, v, 3);
		step(w, t + 3, v, 2);
		step(w, t + 4, v, 1);
	}
}

static void block_add(uint32_t h[5], const uint8_t *data)
{
	uint32_t w[16], v[5];

	for (int t = 0; t < 16; t++)
		w[t] = load_be32(data + 4 * (size_t)t);
	memcpy(v, h, sizeof v);
	twenty(w, 0, v);
	twenty(w, 20, v);
	twenty(w, 40, v);
	twenty(w, 60, v);
	for (int i = 0; i < 5; i++)
		h[i] += v[i];
}

void sha1_init(struct sha1 *s)
{
	*s = (struct sha1){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
				 0xc3d2e1f0}};
}

void sha1_add(struct sha1 *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t have = s->total % SHA1_BLOCK;

	s->total += len;
	if (have) {
		size_t n = MIN(len, SHA1_BLOCK - have);

		memcpy(s->block + have, p, n);
		p += n;
		len -= n;
		if (have + n < SHA1_BLOCK)
			return;
		block_add(s->h, s->block);
	}
	for (; len >= SHA1_BLOCK; p += SHA1_BLOCK, len -= SHA1_BLOCK)
		block_add(s->h, p);
	if (len)
		memcpy(s->block, p, len);
}

void sha1_end(struct sha1 *s, uint8_t ret[SHA1_BYTES])
{
	static const uint8_t pad[SHA1_BLOCK] = {0x80};
	const uint64_t bits = s->total * 8;
	const size_t have = s->total % SHA1_BLOCK;
	uint8_t tail[8];

	for (int i = 0; i < 8; i++)
		tail[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha1_add(s, pad, (have < 56 ? 56 : 56 + SHA1_BLOCK) - have);
	sha1_add(s, tail, sizeof tail);
	for (int i = 0; i < SHA1_BYTES; i++)
		ret[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}
