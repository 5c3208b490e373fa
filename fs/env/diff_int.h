/* SPDX-License-Identifier: MIT */
/*
 * diff_int.h - the set of paths that may differ between base and environment.
 *
 * Contract
 *   Ownership   the set owns its paths
 *   Threads     needs the environment's lock
 */
#ifndef COWFS_ENV_DIFF_INT_H
#define COWFS_ENV_DIFF_INT_H

#include "env/env_int.h"

/* What stands at a path before and now. */
struct diff_path {
	struct hnode node;
	char *path; /* NUL-terminated; "" is the root */
	size_t len;
	bool loaded; /* what follows is known */
	bool in_base, is_now;
	bool renamed_away; /* a rename row tells of it */
	struct base_node old;
	struct iattr now;
};

struct diff_set {
	struct hmap map;
	struct diff_path **paths;
	size_t count, cap;
};

/* Fills the set in time proportional to the changes (and to what lies below
 * moved and deleted directories). */
_must_check_ int diff_collect(struct env *e, struct diff_set *set);
void diff_free(struct diff_set *set);
struct diff_path *diff_find(const struct diff_set *set, const char *path,
			    size_t len);
/* Appends the path of a base inode's (first) name. */
_must_check_ int diff_base_path(struct env *e, uint64_t ino, struct buf *out);

#endif
