/* SPDX-License-Identifier: MIT */
/*
 * leave.h - which changed files a rescue leaves out.
 *
 * Only what git ignores is ever left out: directories of dependencies and
 * caches, which can be made again, and what is beyond the limits, the greatest
 * first. Where there is room for a few only in the list, which names them all,
 * the others are rescued.
 *
 * Contract
 *   Ownership   the list is the caller's
 *   Threads     any
 *   Errors      -ENOMEM, or what `ignored` returns
 */
#ifndef COWFS_CLI_LEAVE_H
#define COWFS_CLI_LEAVE_H

#include "git/changes.h"
#include "store/rescues.h"

struct leave_policy {
	bool all;	   /* leave out nothing */
	bool none;	   /* rescue nothing that git ignores */
	uint64_t each;	   /* bytes of one file */
	uint64_t together; /* bytes of all */
};

#define LEAVE_EACH (UINT64_C(10) << 20)
enum { LEAVE_MANY = 10 }; /* times that, of all */
#define LEAVE_TOGETHER (UINT64_C(100) << 20)

/* Whether git ignores a path: 1, 0 or a negative error number. */
typedef int (*leave_ignored_fn)(void *ctx, const char *path, bool is_dir);

/* Appends to a list (rescue_left_put) what is to be left out of rows, whose
 * field `ignored` is set. */
_must_check_ int leave_choose(const struct leave_policy *p,
			      const struct gitchanges *changes,
			      leave_ignored_fn ignored, void *ctx,
			      struct buf *list);

#endif
