/* SPDX-License-Identifier: MIT */
/*
 * delta.h - delta_walk: what changed in an environment since its snapshot.
 *
 * Everything above a view (diff, and later commit, save, rescue, export) works
 * on this one list. It costs time in proportion to the changes; a change that
 * was undone does not show.
 *
 * Rows come sorted by path bytes, a rename by its new path. Files, symlinks and
 * special files only; a directory appears when it is new and empty, gone, or
 * its own attributes changed.
 *
 * Contract
 *   Ownership   paths are lent for the duration of the callback
 *   Threads     any; takes the environment's lock
 *   Errors      the callback's non-zero result ends the walk and is returned
 */
#ifndef COWFS_ENV_DELTA_H
#define COWFS_ENV_DELTA_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct env;

enum delta_kind {
	DELTA_ADDED = 'A',
	DELTA_MODIFIED = 'M',
	DELTA_DELETED = 'D',
	DELTA_TYPE = 'T',    /* change of kind */
	DELTA_RENAMED = 'R', /* pure: content and attributes are the same */
	DELTA_TIMES = 't',   /* only mtime differs; only when asked for */
};

struct delta_row {
	enum delta_kind kind;
	bool is_dir;
	const char *path; /* relative to the root; bytes, not NUL-terminated */
	size_t path_len;
	const char *old_path; /* of a rename */
	size_t old_path_len;
	uint64_t ino;	   /* now; 0 when deleted */
	uint64_t old_size; /* bytes before and now; 0 when not there */
	uint64_t new_size;
	uint32_t old_mode;
	uint32_t new_mode;
	bool content_changed; /* else attributes or xattrs only */
};

enum delta_flags {
	DELTA_WITH_TIMES = 1,
};

typedef int (*delta_fn)(void *ctx, const struct delta_row *row);
_must_check_ int delta_walk(struct env *e, unsigned flags, delta_fn fn,
			    void *ctx);

#endif
