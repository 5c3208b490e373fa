/* SPDX-License-Identifier: MIT */
/*
 * ignore.h - what git ignores in a work tree.
 *
 * The rules of gitignore(5): .gitignore in each directory, info/exclude,
 * core.excludesFile. A tracked path (one in the index) is never ignored.
 *
 * Contract
 *   Ownership   gitignore_open/gitignore_close
 *   Threads     one; in the command's process, reads through the mount
 *   Errors      -ENOENT: no repository there; others as in lib_int.h. diag
 *               says it
 */
#ifndef COWFS_GIT_IGNORE_H
#define COWFS_GIT_IGNORE_H

#include "base/diag.h"
#include "git/changes.h"

struct gitignore;

/* Opens the rules of the work tree at path. An index that cannot be read
 * tracks nothing. */
_must_check_ int gitignore_open(const char *path, struct diag *diag,
				struct gitignore **ret_ignore);
void gitignore_close(struct gitignore *g);

static inline void gitignore_closep(struct gitignore **g)
{
	gitignore_close(*g);
}
#define _cleanup_gitignore_ _cleanup_(gitignore_closep)

/* Whether an untracked path, or a directory above it, is ignored: 1 or 0.
 * Cheap when paths come in order. .git itself is not. */
_must_check_ int gitignore_check(struct gitignore *g, const char *path,
				 bool is_dir);
/* Sets `ignored` of each row whose path is there now. */
_must_check_ int gitignore_mark(struct gitignore *g,
				struct gitchanges *changes);

#endif
