/* SPDX-License-Identifier: MIT */
/*
 * fusermount_int.h - mounting without privilege, through fusermount3.
 *
 * Contract
 *   Ownership   the caller closes the descriptor
 *   Threads     one; only in children of the keeper
 *   Errors      reply->text says what is missing, or what fusermount3 said
 */
#ifndef COWFS_SERVE_FUSERMOUNT_INT_H
#define COWFS_SERVE_FUSERMOUNT_INT_H

#include "serve/keeper_int.h"

/* flags: of the request. */
_must_check_ int fusermount_mount(const char *path, uint32_t flags,
				  struct keeper_reply *reply, int *ret_fd);
/* -EBUSY: somebody uses it. */
_must_check_ int fusermount_unmount(const char *path, bool detach,
				    struct keeper_reply *reply);

#endif
