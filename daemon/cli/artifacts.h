/* SPDX-License-Identifier: MIT */
/*
 * artifacts.h - what of an environment is taken out before it goes.
 *
 * Contract
 *   Ownership   artifacts_close closes; paths are lent
 *   Threads     one
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_ARTIFACTS_H
#define COWFS_CLI_ARTIFACTS_H

#include "cli/cmd.h"

/* Checks the values of option number opt; says whether it was given. */
_must_check_ int artifacts_check(const struct call *c, size_t opt,
				 bool *ret_given);
/* Keeps them with an environment, in place of what it had. */
_must_check_ int artifacts_keep(const struct call *c, size_t opt,
				const char *env);

/* A directory of the host that gets them. */
struct artifacts {
	const char *path;
	int parent, dir; /* where it is, or -1; it; open if it was there */
	char *name;	 /* in its parent */
	bool made;
	uint64_t files, bytes; /* that were copied */
};

/* Opens an empty directory, or makes it. sub: a directory in it that is
 * meant, or NULL. */
_must_check_ int artifacts_open(const struct call *c, const char *path,
				const char *sub, struct artifacts *ret);
/* Copies the logs, and what the patterns mean, of an environment that is not
 * mounted; all or nothing. */
_must_check_ int artifacts_take(const struct call *c, const char *env,
				struct artifacts *a);
/* Removes a directory that was made and got nothing. */
void artifacts_close(struct artifacts *a);

#endif
