/* SPDX-License-Identifier: MIT */
/*
 * How: one heap block that doubles. A put that finds no memory sets `failed`
 * and every later put does nothing, so that the bytes after a lost one can
 * never be taken for a whole encoding; buf_error at the encoder's end is the
 * only check needed.
 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BUF_FIRST_CAP = 64 };

/* Far above every object. A size beyond it is nonsense from outside or an
 * underflow, and does not go to the allocator. */
#define BUF_MAX_BYTES ((size_t)1 << 38)

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

int buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap;
	uint8_t *data;

	if (b->failed)
		return -ENOMEM;
	if (n <= cap - b->len)
		return 0;
	if (n > BUF_MAX_BYTES - b->len)
		return -ENOMEM;
	if (cap < BUF_FIRST_CAP)
		cap = BUF_FIRST_CAP;
	while (cap < b->len + n)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

int buf_resize(struct buf *b, size_t n)
{
	int r;

	if (b->failed)
		return -ENOMEM;
	if (n > b->len) {
		r = buf_reserve(b, n - b->len);
		if (r < 0)
			return r;
		memset(b->data + b->len, 0, n - b->len);
	}
	b->len = n;
	return 0;
}

int buf_error(const struct buf *b)
{
	return b->failed ? -ENOMEM : 0;
}

void buf_put(struct buf *b, const void *data, size_t n)
{
	if (buf_reserve(b, n) < 0) {
		b->failed = true;
		return;
	}
	if (n == 0) /* data may be NULL then */
		return;
	memcpy(b->data + b->len, data, n);
	b->len += n;
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	buf_put(b, &v, sizeof v);
}

/* base/bytes.h refuses big-endian machines: memory order is file order. */
void buf_put_u16(struct buf *b, uint16_t v)
{
	buf_put(b, &v, sizeof v);
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	buf_put(b, &v, sizeof v);
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	buf_put(b, &v, sizeof v);
}

void buf_put_block(struct buf *b, const void *data, size_t n)
{
	if (n > UINT32_MAX) {
		b->failed = true;
		return;
	}
	buf_put_u32(b, (uint32_t)n);
	buf_put(b, data, n);
}

/* Formats straight into the free room; a text that does not fit is formatted a
 * second time, since only the first try tells its length. */
void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (buf_reserve(b, 1) < 0) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	n = vsnprintf((char *)b->data + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < b->cap - b->len) {
		b->len += (size_t)n;
		return;
	}
	if (n < 0 || buf_reserve(b, (size_t)n + 1) < 0) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	n = vsnprintf((char *)b->data + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

const char *buf_str(struct buf *b)
{
	if (buf_reserve(b, 1) < 0)
		return NULL;
	b->data[b->len] = '\0';
	return (const char *)b->data;
}

bool buf_has(const struct buf *list, const char *s)
{
	for (size_t at = 0; at < list->len;) {
		const char *one = (const char *)list->data + at;

		if (!strcmp(one, s))
			return true;
		at += strlen(one) + 1;
	}
	return false;
}
