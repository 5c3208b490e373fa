/* SPDX-License-Identifier: MIT */
/*
 * tip_int.h - an environment's work as trees of git: its index, its files.
 *
 * Contract
 *   Ownership   gittip_close frees all
 *   Durability  none: objects are gathered in tip->odb
 *   Threads     one
 *   Errors      those of odb_int.h and gitindex_walk; diag says it
 */
#ifndef COWFS_GIT_TIP_INT_H
#define COWFS_GIT_TIP_INT_H

#include "git/entries_int.h"
#include "git/ignore_int.h"
#include "git/odb_int.h"
#include "git/treeedit_int.h"
#include "git/view_int.h"
#include "git/work.h"

struct gittip {
	const struct gitwork *work;
	struct gitodb odb;
	struct gitview view;
	struct gitentries index;
	struct timespec index_time; /* when it was written */
	int index_error;	    /* why there is no index, or 0 */
	struct diag index_why;
	struct gitignore *ignore;
	struct treeedit *edit; /* from the index's tree to that of the files */
	struct diag *notes;    /* what git cannot hold */
	bool tracked;	       /* no untracked files */
	bool attributes;       /* some file may be converted on its way */
	bool no_file_mode;     /* the x bit says nothing */
	uint64_t hidden;       /* changed, but git is told not to look */
	uint64_t special;      /* no file, link or directory */
};

/* Opens the environment and its origin, reads the index. */
_must_check_ int gittip_open(struct gittip *t, const struct gitwork *work,
			     struct diag *diag, struct diag *notes);
void gittip_close(struct gittip *t);
#define _cleanup_gittip_ _cleanup_(gittip_close)

/* Makes a tree of the index: of a conflict our side, or the other when there
 * is none. Without an index: HEAD's, or an empty one. ret_tree may be NULL: it
 * is not put then. */
_must_check_ int gittip_index(struct gittip *t, git_oid *ret_tree);
/* Makes a tree of the files; after gittip_index. Notes what was left out. */
_must_check_ int gittip_files(struct gittip *t, git_oid *ret_tree);

/* --- parts of it ---------------------------------------------------------- */

/* A list of paths, each ending in NUL. */
struct gitpaths {
	struct buf text;
	size_t count;
};
void gitpaths_add(struct gitpaths *p, const char *path, size_t len);

/* standing.c: adds what was not committed when the snapshot was made. */
_must_check_ int gittip_standing(struct gittip *t, struct gitpaths *out);
/* intake.c: puts a file or a link as a blob. -ENOENT: it is gone, or is
 * something else now. */
_must_check_ int gittip_intake(struct gittip *t, const char *path,
			       uint32_t mode, git_oid *ret_id);
void gittip_look_for_attributes(struct gittip *t);

#endif
