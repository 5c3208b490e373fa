/* SPDX-License-Identifier: MIT */
/*
 * outside_int.h - git's program, for what libgit2 cannot do: filters that are
 * programs, hooks, indexes in several files.
 *
 * It runs with the origin's config and the user's, never the environment's:
 * what an agent writes there must not run outside.
 *
 * Contract
 *   Ownership   everything is the caller's
 *   Threads     one
 *   Errors      -ENOENT: git is not installed; -ECANCELED: it failed
 */
#ifndef COWFS_GIT_OUTSIDE_INT_H
#define COWFS_GIT_OUTSIDE_INT_H

#include "base/buf.h"

#include <git2.h>

struct gitoutside {
	const char *const *argv; /* ends in NULL */
	const char *const *set;	 /* "NAME=value", ends in NULL; or NULL */
	int in;			 /* standard input, or -1: nothing */
	const char *dir;	 /* where it runs, or NULL: here */
};

/* Runs a program to its end; what it says on standard output is appended to
 * out, and on standard error to err (each may be NULL). Variables that say
 * where a repository is are not handed on. Returns what it ended with. */
_must_check_ int gitoutside_run(const struct gitoutside *p, struct buf *out,
				struct buf *err);
/* Converts a file of a work tree as `git add` would in the origin. */
_must_check_ int gitoutside_convert(git_repository *origin, const char *view,
				    const char *path, int fd, struct buf *out);

#endif
