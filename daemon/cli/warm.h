/* SPDX-License-Identifier: MIT */
/*
 * warm.h - warm caches: snapshots of tools' caches, and the HOME that has them.
 *
 * Contract
 *   Ownership   strings of the caller's are lent
 *   Threads     one; importing opens and closes the store, so no fork beside it
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_WARM_H
#define COWFS_CLI_WARM_H

#include "box/box.h"
#include "cli/import.h"
#include "cli/remote.h"

/* Finds the cache that "NAME=PATH" names, and its path. */
_must_check_ int warm_parse(const struct call *c, const char *text,
			    const struct box_cache **ret_cache,
			    const char **ret_path);
/* Makes the snapshot of a cache, without credentials; ret_ref is its name. */
_must_check_ int warm_import(const struct call *c,
			     const struct box_cache *cache, const char *path,
			     struct import_options *options,
			     char ret_ref[STORE_REF_MAX],
			     struct import_result *ret_result);
/* The same for every cache that the caller has. What fails is left out, with a
 * message. */
void warm_import_own(const struct call *c, const char *home);

/* Where commands of an environment have their HOME. */
struct warm_home {
	char state[8];	 /* "view", "plain" or "none" */
	char path[4352]; /* of a view */
};
/* Asks for it; owner: makes a view if there are caches, and it belongs to that
 * command's user. NULL: does not. */
_must_check_ int warm_home(const struct call *c, int *fd, const char *env,
			   const struct box_command *owner,
			   struct warm_home *ret_home);

#endif
