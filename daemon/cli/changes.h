/* SPDX-License-Identifier: MIT */
/*
 * changes.h - what changed in an environment, asked of the server.
 *
 * Contract
 *   Ownership   gitchanges_fini frees the list
 *   Threads     one
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_CHANGES_H
#define COWFS_CLI_CHANGES_H

#include "cli/cmd.h"
#include "git/changes.h"

/* Appends the rows of the server's diff; fd is as for remote_call. */
_must_check_ int changes_fetch(const struct call *c, int *fd, const char *env,
			       struct gitchanges *changes);

#endif
