/* SPDX-License-Identifier: MIT */
/*
 * buf.h - a growable byte buffer, and little-endian writing into it.
 *
 * A zeroed struct is an empty buffer. After a failed put the buffer is in the
 * error state: later puts fail too, so an encoder may check once at its end
 * with buf_error().
 *
 * Contract
 *   Ownership   the buffer owns data; buf_fini frees it
 *   Threads     caller serialises
 *   Errors      -ENOMEM
 */
#ifndef COWFS_BASE_BUF_H
#define COWFS_BASE_BUF_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	bool failed;
};

#define _cleanup_buf_ _cleanup_(buf_fini)

/* Frees the memory; the buffer is empty and usable again. */
void buf_fini(struct buf *b);
/* Forgets the content, keeps the memory, ends the error state. */
void buf_clear(struct buf *b);
/* Makes room for n more bytes. */
_must_check_ int buf_reserve(struct buf *b, size_t n);
/* Sets the length to n; new bytes are zero. */
_must_check_ int buf_resize(struct buf *b, size_t n);
/* Returns 0, or -ENOMEM when any earlier put failed. */
_must_check_ int buf_error(const struct buf *b);

void buf_put(struct buf *b, const void *data, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
/* Puts a 32-bit length and the bytes. */
void buf_put_block(struct buf *b, const void *data, size_t n);
/* Appends formatted text without a terminating NUL. */
void buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
/* Returns the content as a NUL-terminated string (NUL not counted in len), or
 * NULL when out of memory. Valid until the next change. */
const char *buf_str(struct buf *b);
/* Whether one of the strings, each ending in NUL, is this one. */
bool buf_has(const struct buf *list, const char *s);

#endif
