/* SPDX-License-Identifier: MIT */
/*
 * convert_int.h - filters that are programs, which libgit2 cannot run.
 *
 * They run with the origin's config and the user's, never the environment's:
 * what an agent writes there must not run outside.
 *
 * Contract
 *   Ownership   everything is the caller's
 *   Threads     one
 *   Errors      -ENOENT: git is not installed; -ECANCELED: it failed
 */
#ifndef COWFS_GIT_CONVERT_INT_H
#define COWFS_GIT_CONVERT_INT_H

#include "base/buf.h"

#include <git2.h>

/* Converts a file of a work tree as `git add` would in the origin. */
_must_check_ int gitconvert(git_repository *origin, const char *view,
			    const char *path, int fd, struct buf *out);

#endif
