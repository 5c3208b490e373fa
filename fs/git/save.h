/* SPDX-License-Identifier: MIT */
/*
 * save.h - the work of an environment becomes a branch of its origin.
 *
 * The environment's own commits are copied, what is not committed becomes one
 * commit on top of them. The origin's work tree, index, HEAD, config and stash
 * are not touched.
 *
 * Contract
 *   Ownership   gitsave_result_fini frees what a result owns
 *   Durability  objects are synced before the branch moves, and the branch
 *               before gitsave returns
 *   Threads     one; in the command's process
 *   Errors      -EBUSY: the branch has moved, or is checked out; -ENOENT: no
 *               repository, here or there; others as in lib_int.h. diag says
 *               it. The origin is as before then, but for objects
 */
#ifndef COWFS_GIT_SAVE_H
#define COWFS_GIT_SAVE_H

#include "base/diag.h"
#include "git/work.h"

struct gitsave_options {
	const char *branch;  /* NULL: cowfs/ENV */
	const char *message; /* NULL: made up */
	const char *author;  /* "Name <mail>"; NULL: who git says */
	const char *stamp;   /* tells environments of one name apart */
	const char *base;    /* commit it was imported at, hex; or "" */
	bool tracked;	     /* no untracked files */
	bool hooks;	     /* run the origin's */
};

struct gitsave_result {
	char branch[256];
	char commit[GIT_HEX_BYTES]; /* "": there was nothing to save */
	bool is_new;		    /* the branch was made, or moved */
	bool made;		    /* a commit of what was not committed */
	uint64_t commits;	    /* of the environment that arrived */
	uint64_t files, insertions, deletions;
	struct diag notes; /* what git cannot hold, what is going on */
};

void gitsave_result_fini(struct gitsave_result *r);
_must_check_ int gitsave(const struct gitwork *work,
			 const struct gitsave_options *options,
			 struct diag *diag, struct gitsave_result *ret_result);

#endif
