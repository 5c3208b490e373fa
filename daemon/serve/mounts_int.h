/* SPDX-License-Identifier: MIT */
/*
 * mounts_int.h - the kernel's list of mounts, read as text.
 *
 * Reading /proc/P/mountinfo touches no mount, so it is safe when one is
 * wedged.
 *
 * Contract
 *   Ownership   entries are lent for the duration of the callback
 *   Threads     any
 *   Errors      a callback's non-zero result ends the walk and is returned
 */
#ifndef COWFS_SERVE_MOUNTS_INT_H
#define COWFS_SERVE_MOUNTS_INT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mounts_entry {
	unsigned id, parent; /* in its name space */
	uint32_t major;
	uint32_t minor;
	const char *path; /* unescaped */
	const char *type;
	unsigned shared; /* peer group, 0: none */
	unsigned master; /* peer group that this one follows, 0: none */
	const char *options; /* of its file system, as they stand there */
};

typedef int (*mounts_fn)(void *ctx, const struct mounts_entry *e);
/* Walks the mounts that process pid sees (0: this one), oldest first. */
_must_check_ int mounts_walk(pid_t pid, mounts_fn fn, void *ctx);

/* Finds the topmost mount exactly at a path. -ENOENT. */
struct mounts_found {
	uint32_t major;
	uint32_t minor;
	unsigned parent;
	bool is_ours; /* of type fuse.cowfs */
};
_must_check_ int mounts_find(const char *path, struct mounts_found *ret_found);
/* Returns the peer group of a mount of this name space; 0: none. */
unsigned mounts_group(unsigned id);
/* Whether it is an overlay with layers at or below a path. */
bool mounts_is_over(const struct mounts_entry *e, const char *path);

/* Identifies a process's mount name space; 0 when it may not be asked. */
uint64_t mounts_namespace(pid_t pid);

#endif
