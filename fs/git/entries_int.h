/* SPDX-License-Identifier: MIT */
/*
 * entries_int.h - an index in memory: its entries by path, its cache tree.
 *
 * Contract
 *   Ownership   gitentries_fini frees all; what is lent lives until then
 *   Threads     one
 *   Errors      as gitindex_walk
 */
#ifndef COWFS_GIT_ENTRIES_INT_H
#define COWFS_GIT_ENTRIES_INT_H

#include "git/index.h"

enum {
	GITMODE_TREE = 0040000,
	GITMODE_FILE = 0100644,
	GITMODE_PROGRAM = 0100755,
	GITMODE_SYMLINK = 0120000,
	GITMODE_LINK = 0160000, /* a commit of another repository */
};

struct gitentry {
	uint32_t path; /* offset into the text */
	uint32_t path_len;
	uint32_t mode;
	uint8_t stage;
	bool assume_unchanged;
	bool skip_worktree;
	bool intent_to_add;
	const uint8_t *name; /* GITINDEX_NAME_BYTES */
	struct gitindex_stat st;
};

/* A directory whose tree is known, in preorder. */
struct gitcached {
	const char *name; /* NUL-terminated; of the root "" */
	int64_t count;	  /* entries below it; -1: its tree is not known */
	uint32_t subtrees;
	uint32_t end; /* index of the node after all below it */
	const uint8_t *tree;
};

struct gitentries {
	struct buf raw;
	struct buf text;
	struct gitentry *list; /* sorted as git does: path bytes, stage */
	size_t count;
	size_t cap;
	struct gitcached *cached;
	size_t cached_count;
};

void gitentries_fini(struct gitentries *g);
/* Forgets all but g->raw. */
void gitentries_forget(struct gitentries *g);
/* Reads g->raw. */
_must_check_ int gitentries_read(struct gitentries *g, struct diag *diag);

static inline const char *gitentry_path(const struct gitentries *g,
					const struct gitentry *e)
{
	return (const char *)g->text.data + e->path;
}

/* The first entry whose path is not before this one; count when there is none.
 */
size_t gitentries_seek(const struct gitentries *g, const char *path,
		       size_t len);
/* The entry of a path, its lowest stage; NULL. */
const struct gitentry *gitentries_find(const struct gitentries *g,
				       const char *path, size_t len);
/* Whether there are entries below a directory. */
bool gitentries_has_below(const struct gitentries *g, const char *dir,
			  size_t len);
/* The child of a node of the cache tree that has a name; NULL. */
const struct gitcached *gitcached_child(const struct gitentries *g,
					const struct gitcached *up,
					const char *name, size_t len);

#endif
