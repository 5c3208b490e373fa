/* SPDX-License-Identifier: MIT */
/*
 * head.h - which branch a work tree is on.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  as git's: written, not synced
 *   Threads     one; in the command's process, never in the server
 *   Errors      -ENOENT: no such branch, or no repository; -EEXIST: there is
 *               one of that name; -EINVAL: not a name for a branch; -EBUSY: a
 *               merge or the like is going on; others as in lib_int.h. diag
 *               says it
 */
#ifndef COWFS_GIT_HEAD_H
#define COWFS_GIT_HEAD_H

#include "base/diag.h"

#include <stdbool.h>

/* Says whether git allows the name for a branch. */
bool githead_is_branch(const char *branch);
/* Switches the work tree at path to a branch that has the same files as HEAD,
 * touching none. Returns 1, and changes nothing, when the files differ. */
_must_check_ int githead_switch(const char *path, const char *branch,
				struct diag *diag);
/* Makes a branch where HEAD is, and switches to it. */
_must_check_ int githead_create(const char *path, const char *branch,
				struct diag *diag);

#endif
