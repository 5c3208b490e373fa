/* SPDX-License-Identifier: MIT */
/*
 * quote.h - names of any bytes as text: UTF-8, hex, plain lines.
 *
 * Contract
 *   Ownership   the buffer stays the caller's
 *   Threads     any
 *   Errors      a failed allocation shows in buf_error()
 */
#ifndef COWFS_CLI_QUOTE_H
#define COWFS_CLI_QUOTE_H

#include "base/buf.h"

/* Appends the name as UTF-8, each wrong byte as U+FFFD; says whether all was
 * right. */
bool quote_utf8(struct buf *out, const char *s, size_t n);
/* Appends the bytes as lower-case hex digits. */
void quote_hex(struct buf *out, const char *s, size_t n);
/* Appends the text with '?' for each control byte, so that a line stays one. */
void quote_line(struct buf *out, const char *s, size_t n);

#endif
