/* SPDX-License-Identifier: MIT */
/*
 * hooks_int.h - the origin's hooks around a commit, when they were asked for.
 *
 * Contract
 *   Ownership   everything is the caller's
 *   Threads     one
 *   Errors      -ECANCELED: a hook has refused; diag says which
 */
#ifndef COWFS_GIT_HOOKS_INT_H
#define COWFS_GIT_HOOKS_INT_H

#include "git/tip_int.h"

/* Runs pre-commit, with an index that has what will be committed, and
 * commit-msg, which may change the message. */
_must_check_ int githooks_before(struct gittip *t, const git_oid *tree,
				 struct buf *message);
/* Runs post-commit; what it ends with does not matter. */
void githooks_after(struct gittip *t);

#endif
