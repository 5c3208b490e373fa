/* SPDX-License-Identifier: MIT */
/*
 * changes.h - the paths that changed in an environment, kept as a list.
 *
 * Made from the rows of delta_walk, in their order (sorted by path), whether
 * they came by a call or by the server's socket. No git2.h, no I/O.
 *
 * Contract
 *   Ownership   the list owns its rows and their paths; they move when one is
 *               added
 *   Threads     caller serialises
 *   Errors      -ENOMEM
 */
#ifndef COWFS_GIT_CHANGES_H
#define COWFS_GIT_CHANGES_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "env/delta.h"

struct gitchange {
	enum delta_kind kind;
	bool is_dir;
	bool ignored; /* by git; set by gitignore_mark */
	size_t path;  /* offsets into the list's text; see gitchange_path */
	size_t old_path;
	size_t path_len;
	size_t old_path_len; /* 0 unless it is a rename */
	uint32_t old_mode;
	uint32_t new_mode;
	uint64_t new_size;
};

/* A zeroed struct is an empty list. */
struct gitchanges {
	struct gitchange *rows;
	size_t count;
	size_t cap;
	struct buf text;	      /* paths, each ending in NUL */
	struct gitchange_name *names; /* made when they are asked for */
	struct hmap map;
};

#define _cleanup_gitchanges_ _cleanup_(gitchanges_fini)

void gitchanges_fini(struct gitchanges *c);
/* Appends a row; the root itself has the path ".". */
_must_check_ int gitchanges_add(struct gitchanges *c,
				const struct delta_row *row);
/* Whether a path is in the list, as a row's path or the old one of a rename: 1
 * or 0. */
_must_check_ int gitchanges_has(struct gitchanges *c, const char *path,
				size_t len);

/* A row's path (from the root, without a '/' at its end), NUL-terminated. */
static inline const char *gitchange_path(const struct gitchanges *c,
					 const struct gitchange *row)
{
	return (const char *)c->text.data + row->path;
}

/* What it was called before; "" unless it is a rename. */
static inline const char *gitchange_old_path(const struct gitchanges *c,
					     const struct gitchange *row)
{
	return (const char *)c->text.data + row->old_path;
}

#endif
