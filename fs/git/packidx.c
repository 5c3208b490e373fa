/* SPDX-License-Identifier: MIT */
/*
 * packidx.c - tables one after the other: how many names begin with at most
 * each byte, names, checksums, offsets. An offset that needs more than 31 bits
 * is the number of one in a table of its own.
 */
#include "git/packidx_int.h"

#include <string.h>

enum { FANOUT = 256 };
#define LARGE UINT32_C(0x80000000)

static int compare(const void *a, const void *b)
{
	const struct packidx_entry *x = a, *y = b;

	return memcmp(x->name, y->name, sizeof x->name);
}

static void put_be32(struct buf *out, uint32_t v)
{
	buf_put_u32(out, __builtin_bswap32(v));
}

static void put_fanout(const struct packidx_entry *list, size_t count,
		       struct buf *out)
{
	size_t i = 0;

	for (unsigned first = 0; first < FANOUT; first++) {
		while (i < count && list[i].name[0] == first)
			i++;
		put_be32(out, (uint32_t)i);
	}
}

static void put_offsets(const struct packidx_entry *list, size_t count,
			struct buf *out)
{
	uint32_t large = 0;

	for (size_t i = 0; i < count; i++)
		put_be32(out, list[i].offset < LARGE ? (uint32_t)list[i].offset
						     : LARGE | large++);
	for (size_t i = 0; i < count; i++)
		if (list[i].offset >= LARGE)
			buf_put_u64(out, __builtin_bswap64(list[i].offset));
}

void packidx_make(struct packidx_entry *list, size_t count,
		  const uint8_t pack[SHA1_BYTES], struct buf *out)
{
	static const uint8_t magic[] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};
	uint8_t sum[SHA1_BYTES];
	struct sha1 s;

	qsort(list, count, sizeof *list, compare);
	buf_put(out, magic, sizeof magic);
	put_fanout(list, count, out);
	for (size_t i = 0; i < count; i++)
		buf_put(out, list[i].name, SHA1_BYTES);
	for (size_t i = 0; i < count; i++)
		put_be32(out, list[i].crc);
	put_offsets(list, count, out);
	buf_put(out, pack, SHA1_BYTES);
	if (out->failed)
		return;
	sha1_init(&s);
	sha1_add(&s, out->data, out->len);
	sha1_end(&s, sum);
	buf_put(out, sum, sizeof sum);
}
