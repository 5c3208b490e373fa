/* SPDX-License-Identifier: MIT */
/*
 * How: an INVAL_INODE with offset -1 drops cached attributes only. It takes no
 * page lock, waits for no writeback and needs no answer of ours, so it may be
 * sent from the thread that serves the connection. All other notifications
 * can wait for a request of our own and are left to children of the keeper.
 *
 * It doubles as a question: the kernel answers ENOENT when it holds no such
 * inode. A FORGET alone is no proof, for the kernel may drop one inode and
 * meet its number again (a listing raced with an eviction), and a count of
 * lookups per inode is what this server does without.
 */
#include "fuse/ops_int.h"

#include <errno.h>

bool notify_finds_nothing(struct session *s, uint64_t ino)
{
	return fuse_lowlevel_notify_inval_inode(s->se, ino, -1, 0) == -ENOENT;
}
