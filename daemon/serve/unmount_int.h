/* SPDX-License-Identifier: MIT */
/*
 * unmount_int.h - unmounting, without waiting for the kernel to forget every
 * inode.
 *
 * Contract
 *   Threads     one; may leave a thread or a fusermount3 behind, so only in a
 *               process that ends soon: a child of the keeper
 *   Errors      of umount2(2); -EBUSY: somebody uses it. reply->text has the
 *               words of fusermount3
 */
#ifndef COWFS_SERVE_UNMOUNT_INT_H
#define COWFS_SERVE_UNMOUNT_INT_H

#include "serve/keeper_int.h"

/* Returns as soon as the path is no mount any more. */
_must_check_ int unmount_path(const char *path, bool detach,
			      struct keeper_reply *reply);

#endif
