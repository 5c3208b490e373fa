/* SPDX-License-Identifier: MIT */
/*
 * ref_int.h - refs of the origin, moved only when they are where they were.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  gitref_set: synced
 *   Threads     one
 *   Errors      -EBUSY: it is somewhere else, in use, or locked; diag says it
 */
#ifndef COWFS_GIT_REF_INT_H
#define COWFS_GIT_REF_INT_H

#include "git/lib_int.h"

/* Finds where a ref is; 1: there is none. */
_must_check_ int gitref_find(git_repository *repo, const char *ref,
			     struct diag *diag, git_oid *ret_id);
/* Refuses a branch that is checked out, in the repository or a work tree of
 * it, or is being rebased or bisected; and one whose name cannot be, beside
 * others. */
_must_check_ int gitref_check(git_repository *repo, const char *ref,
			      struct diag *diag);

struct gitref_move {
	const char *ref;
	const git_oid *from; /* NULL: there must be none */
	const git_oid *to;   /* NULL: it goes */
	const git_signature *who;
	const char *why; /* for the reflog, which is begun if need be */
};
_must_check_ int gitref_set(git_repository *repo, const struct gitref_move *m,
			    struct diag *diag);
/* Whether the last move of a ref was noted with that text. */
bool gitref_was_moved_by(git_repository *repo, const char *ref,
			 const git_oid *to, const char *why);

#endif
