/* SPDX-License-Identifier: MIT */
/*
 * ignore_int.h - the rules of a repository that is open already.
 *
 * Contract
 *   As ignore.h; it tracks nothing.
 */
#ifndef COWFS_GIT_IGNORE_INT_H
#define COWFS_GIT_IGNORE_INT_H

#include "git/entries_int.h"
#include "git/ignore.h"
#include "git/view_int.h"

#include <git2.h>

_must_check_ int gitignore_make(git_repository *repo, const char *path,
				struct gitignore **ret_ignore);

#endif
