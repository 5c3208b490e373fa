/* SPDX-License-Identifier: MIT */
/*
 * keep_int.h - what a rescue keeps of an environment's repository beside its
 * files: tips, and small files of .git.
 *
 * Contract
 *   Ownership   gitkeep_fini frees all
 *   Threads     one
 *   Errors      those of odb_int.h
 */
#ifndef COWFS_GIT_KEEP_INT_H
#define COWFS_GIT_KEEP_INT_H

#include "git/tip_int.h"

enum { GITKEEP_PARENTS = 60 }; /* of one commit */

struct gitkeep {
	struct gittip *tip;
	git_oid head;
	bool has_head;
	git_oid *tips; /* commits, each once */
	size_t tip_count, tip_cap;
	struct buf refs; /* a line each */
	struct treeedit *edit;
	struct hmap seen;
};

void gitkeep_fini(struct gitkeep *k);
#define _cleanup_gitkeep_ _cleanup_(gitkeep_fini)

/* Collects tips, copies what they lead to, puts small files. A ref that cannot
 * be read is noted, and left out. */
_must_check_ int gitkeep_collect(struct gitkeep *k);
/* Makes the tree of all that, with the index's beside it. */
_must_check_ int gitkeep_tree(struct gitkeep *k, const git_oid *staged,
			      git_oid *ret_tree);

#endif
