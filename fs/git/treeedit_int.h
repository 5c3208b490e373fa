/* SPDX-License-Identifier: MIT */
/*
 * treeedit_int.h - a tree of git that is changed here and there.
 *
 * Only directories on the way to a change are read and written.
 *
 * Contract
 *   Ownership   treeedit_free frees all
 *   Threads     one
 *   Errors      -EFSCORRUPTED: a tree cannot be read; those of odb_int.h
 */
#ifndef COWFS_GIT_TREEEDIT_INT_H
#define COWFS_GIT_TREEEDIT_INT_H

#include "git/odb_int.h"

struct treeedit;

/* Begins with a tree, or with an empty one (NULL). The object database must
 * outlive it. */
_must_check_ int treeedit_new(struct gitodb *o, const git_oid *tree,
			      struct treeedit **ret_edit);
void treeedit_free(struct treeedit *t);

static inline void treeedit_freep(struct treeedit **t)
{
	treeedit_free(*t);
}
#define _cleanup_treeedit_ _cleanup_(treeedit_freep)

/* Sets what a path is; directories appear, and files on its way vanish. A mode
 * of a tree makes all below it what that tree has. */
_must_check_ int treeedit_set(struct treeedit *t, const char *path,
			      uint32_t mode, const git_oid *id);
/* Takes a path away, unless it is a directory. */
_must_check_ int treeedit_remove(struct treeedit *t, const char *path);
/* Finds what a path is. -ENOENT. */
_must_check_ int treeedit_find(struct treeedit *t, const char *path,
			       uint32_t *ret_mode, git_oid *ret_id);
/* Puts the changed trees, and copies what they lead to; empty directories are
 * left out. */
_must_check_ int treeedit_write(struct treeedit *t, git_oid *ret_id);

#endif
