/* SPDX-License-Identifier: MIT */
/*
 * lib_int.h - libgit2 opened, and its errors as ours.
 *
 * libgit2 lives in the command's process only, never in the server: it follows
 * paths, and may crash. Whose repositories are trusted is asked here, by git's
 * rules (safe.h), not by libgit2, which does not look at the environment.
 *
 * Contract
 *   Ownership   the caller frees what libgit2 gives
 *   Threads     one
 *   Errors      -EPERM: somebody else's; -EOPNOTSUPP: an extension that
 *               libgit2 cannot do (reftable, SHA-256); -ENOENT: no repository
 */
#ifndef COWFS_GIT_LIB_INT_H
#define COWFS_GIT_LIB_INT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/diag.h"

#include <git2.h>

/* Cleanup attributes for what libgit2 gives; all its destructors take NULL. */
#define GIT_LIB_CLEANUP(name)                                                  \
	static inline void name##_freep(name **p)                              \
	{                                                                      \
		name##_free(*p);                                               \
	}
GIT_LIB_CLEANUP(git_repository)
GIT_LIB_CLEANUP(git_reference)
GIT_LIB_CLEANUP(git_object)
GIT_LIB_CLEANUP(git_commit)
GIT_LIB_CLEANUP(git_tree)
#define _cleanup_git_repository_ _cleanup_(git_repository_freep)
#define _cleanup_git_reference_	 _cleanup_(git_reference_freep)
#define _cleanup_git_object_	 _cleanup_(git_object_freep)
#define _cleanup_git_commit_	 _cleanup_(git_commit_freep)
#define _cleanup_git_tree_	 _cleanup_(git_tree_freep)

/* Starts libgit2, the first time; for functions that need no repository. */
_must_check_ int gitlib_start(struct diag *diag);
/* Opens the repository of a work tree (or a git directory), not one above;
 * starts libgit2. */
_must_check_ int gitlib_open(const char *path, struct diag *diag,
			     git_repository **ret_repo);
/* Adds "what: why" in libgit2's words, and returns its code as an errno. */
int gitlib_fail(struct diag *diag, int code, const char *what);

#endif
