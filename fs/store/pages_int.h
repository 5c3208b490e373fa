/* SPDX-License-Identifier: MIT */
/*
 * pages_int.h - is the index's file what LMDB would have written?
 *
 * LMDB trusts its pages: a flipped bit may crash whoever reads them, show old
 * rows, or let a later commit overwrite pages in use. So they are checked here
 * before LMDB sees them, with every offset bounded: nothing in the file can
 * make this fail in another way than by saying so.
 *
 * Contract
 *   Ownership   texts are lent for the duration of the callback
 *   Threads     any
 *   Errors      -EAGAIN: writers did not leave the file alone long enough;
 *               others: the file cannot be read
 */
#ifndef COWFS_STORE_PAGES_INT_H
#define COWFS_STORE_PAGES_INT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* Told of each finding: a rule of docs/format.md and what is wrong where. */
typedef void (*pages_fn)(void *ctx, const char *rule, const char *text);

/* Checks data.mdb in the directory dirfd. Returns 0: sound; 1: damaged, fn
 * was called. fn may be NULL. */
_must_check_ int pages_check(int dirfd, pages_fn fn, void *ctx);

#endif
