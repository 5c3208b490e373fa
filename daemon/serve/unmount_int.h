/* SPDX-License-Identifier: MIT */
/*
 * unmount_int.h - unmounting as root, without waiting for the kernel to forget
 * every inode.
 *
 * Contract
 *   Threads     one; may leave a thread behind, so only in a process that
 *               ends soon: a child of the keeper
 *   Errors      of umount2(2); -EBUSY: somebody uses it
 */
#ifndef COWFS_SERVE_UNMOUNT_INT_H
#define COWFS_SERVE_UNMOUNT_INT_H

#include "base/attr.h"

#include <stdbool.h>

/* Returns as soon as the path is no mount any more. */
_must_check_ int unmount_as_root(const char *path, bool detach);

#endif
