/* SPDX-License-Identifier: MIT */
/*
 * headroom_int.h - blocks of the disk that a file has before it needs them.
 *
 * Contract
 *   Ownership   the descriptor stays the caller's
 *   Durability  none
 *   Threads     any
 *   Errors      where the disk gives no blocks, the file has none
 */
#ifndef COWFS_STORE_HEADROOM_INT_H
#define COWFS_STORE_HEADROOM_INT_H

#include <stdint.h>

enum {
	/* A small commit takes some ten pages of 4 KiB, and the second after
	 * it may have them again. */
	HEADROOM_INDEX = 1 << 20,
	HEADROOM_COPIES = 64 << 10, /* a name that goes takes some 100 bytes */
};

/* Sees to it that at least half of n bytes, and at most n, can be written
 * behind a file's end when the disk is full. Its size does not change. */
void headroom_keep(int fd, uint64_t n);
/* Returns what LMDB's error means: a write to the file that was cut short is
 * EIO for it, and on a full disk -ENOSPC. */
int headroom_explain(int fd, int err);

#endif
