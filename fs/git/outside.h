/* SPDX-License-Identifier: MIT */
/*
 * outside.h - programs beside us, git's first of all, for what libgit2 cannot
 * do: filters that are programs, hooks, the files of a branch.
 *
 * Contract
 *   Ownership   everything is the caller's
 *   Threads     one
 *   Errors      -ENOENT: it is not installed; -EINTR: a signal ended it
 */
#ifndef COWFS_GIT_OUTSIDE_H
#define COWFS_GIT_OUTSIDE_H

#include "base/buf.h"

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

#endif
