/* SPDX-License-Identifier: MIT */
/*
 * rescues.h - the records of rescues: what is kept of environments that are
 * gone.
 *
 * A rescue is a snapshot that has no name and no other record; its record here
 * keeps it from gc, and the snapshot that the environment stood on with it.
 *
 * Contract
 *   Ownership   what a callback gets is lent for its duration
 *   Durability  store_rescue_put, _delete: on stable storage when they return
 *   Threads     any
 *   Errors      -ENOENT: no such rescue; -E2BIG: too much for a record;
 *               -EFSCORRUPTED: a row makes no sense
 */
#ifndef COWFS_STORE_RESCUES_H
#define COWFS_STORE_RESCUES_H

#include "base/bytes.h"
#include "store/store.h"

enum {
	RESCUE_LEFT_MAX = 56 << 10, /* bytes of the list of what was left out */
	RESCUE_TEXT_MAX = 4096,	    /* of each string */
};

/* Why something is not in a rescue. */
enum rescue_why {
	RESCUE_LARGE = 1,  /* ignored by git, and over a limit */
	RESCUE_CACHE = 2,  /* ignored by git, dependencies or a cache */
	RESCUE_ASKED = 3,  /* ignored by git, and nothing such was wanted */
	RESCUE_SOCKET = 4, /* has no place in a snapshot */
	RESCUE_WHY_END
};

struct rescue_left {
	enum rescue_why why;
	const char *path; /* not NUL-terminated; a directory ends in '/' */
	size_t path_len;
	uint64_t files; /* changed ones */
	uint64_t bytes; /* of them */
};

struct rescue {
	const char *name; /* a label: the last part of the ref in the origin */
	const char *env;
	const char *ref;	/* what the environment was mounted from */
	const char *source;	/* the origin's path, or "" */
	const char *git_dir;	/* the origin's repository, or "" */
	const char *git_ref;	/* that the rescue has there, or "" */
	const char *git_commit; /* where it is, hex; "": not known */
	int64_t time_sec;
	struct oid snapshot;   /* what is kept */
	struct oid base;       /* what the environment stood on */
	uint64_t salt, frames; /* the environment's state (env.h) */
	uint64_t files;	       /* paths that had changed */
	uint64_t bytes;	       /* that the freeze has added to the store */
	const uint8_t *left;   /* made by rescue_left_put */
	size_t left_len;
};

/* Appends to a list, reads the next of one: false at its end. */
void rescue_left_put(struct buf *list, const struct rescue_left *one);
_must_check_ bool rescue_left_next(struct bytes *list,
				   struct rescue_left *ret_one);

typedef int (*store_rescue_fn)(void *ctx, const struct rescue *r);
/* Calls back for each, by name; a non-zero result ends the walk. */
_must_check_ int store_rescues(struct store *s, store_rescue_fn fn, void *ctx);
/* Calls back for the one of that name. */
_must_check_ int store_rescue(struct store *s, const char *name,
			      store_rescue_fn fn, void *ctx);
/* Sets a record. -ENOENT: its snapshot, or the base, is not in the store.
 * add: -EEXIST when there is one of that name. */
_must_check_ int store_rescue_put(struct store *s, const struct rescue *r,
				  bool add);
_must_check_ int store_rescue_delete(struct store *s, const char *name);

#endif
