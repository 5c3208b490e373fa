/* SPDX-License-Identifier: MIT */
/*
 * umount.h - what was done to an environment that was unmounted, and whether
 * that is all of it.
 *
 * Contract
 *   Ownership   umounted_fini frees; the rescue's and artifacts' texts are lent
 *   Threads     one
 *   Errors      a failed allocation shows in the result's last step
 */
#ifndef COWFS_CLI_UMOUNT_H
#define COWFS_CLI_UMOUNT_H

#include "cli/artifacts.h"
#include "cli/remote.h"

struct umounted {
	const char *env;
	struct buf stopped;  /* pid, kind, command, each ending in NUL */
	uint64_t more;	     /* that were stopped, and are not named */
	struct buf freed;    /* "sandbox", "mount PATH", each ending in NUL */
	struct buf remained; /* likewise what should be gone */
};

void umounted_fini(struct umounted *u);
/* Takes what an answer of the server tells. */
void umounted_take(struct umounted *u, const struct msg *done);
/* Looks for what should be gone. kept: the environment should not. */
void umounted_check(struct umounted *u, const struct call *c, bool kept);

#endif
