/* SPDX-License-Identifier: MIT */
/*
 * quote.h - names of any bytes as git shows them.
 *
 * Contract
 *   Ownership   the buffer stays the caller's
 *   Threads     any
 *   Errors      a failed allocation shows in buf_error()
 */
#ifndef COWFS_BASE_QUOTE_H
#define COWFS_BASE_QUOTE_H

#include "base/buf.h"

/* Appends a name as git does with core.quotePath: as it is, or in double
 * quotes with C escapes when it has a control byte, a quote, a backslash or a
 * byte above 0x7e. */
void quote_git(struct buf *out, const char *s, size_t n);

#endif
