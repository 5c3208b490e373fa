/* SPDX-License-Identifier: MIT */
/*
 * work.h - an environment whose work is taken to its origin: what save and
 * rescue both have to know.
 *
 * Contract
 *   Ownership   everything is lent
 *   Threads     one; in the command's process, never in the server: it reads
 *               through the mount
 */
#ifndef COWFS_GIT_WORK_H
#define COWFS_GIT_WORK_H

#include "git/changes.h"
#include "object/oid.h"

enum { GIT_HEX_BYTES = 41 }; /* a commit's name as text, with its NUL */

struct store;

struct gitwork {
	const char *origin; /* git directory, as recorded with the snapshot */
	const char *view;   /* where the environment is mounted */
	const char *env;    /* its name */
	struct store *store;
	struct oid snapshot; /* its base; null: what it had is not known */
	struct gitchanges *changes; /* since that snapshot */
};

#endif
