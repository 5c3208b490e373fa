/* SPDX-License-Identifier: MIT */
/*
 * branch.h - the branch of an environment, for `mount`.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Threads     one; the environment is mounted
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_BRANCH_H
#define COWFS_CLI_BRANCH_H

#include "cli/cmd.h"

/* Refuses what git does not allow as the name of a branch. */
_must_check_ int branch_check(const struct call *c, const char *branch);
/* Switches the repository at path to a branch, a new one at HEAD with make.
 * Files are touched only when the branch has others; git does that. */
_must_check_ int branch_switch(const struct call *c, const char *path,
			       const char *branch, bool make);

#endif
