/* SPDX-License-Identifier: MIT */
/*
 * fsck.h - the numbered rules of docs/format.md, checked; and repair.
 *
 * A check changes nothing and works beside a running server. A repair has the
 * store alone. It moves what cannot be read to STORE/quarantine/TIME, and never
 * deletes. Environments are fs/env's part: env/check.h.
 *
 * Contract
 *   Ownership   fsck_open/fsck_close; findings are lent to the callback
 *   Durability  fsck_repair: on stable storage when it returns
 *   Threads     one; forks, so no store may be open in the process before it
 *   Errors      -EBUSY: the store is in use and a repair needs it alone;
 *               others: cannot be checked. Damage is a finding, no error
 */
#ifndef COWFS_STORE_FSCK_H
#define COWFS_STORE_FSCK_H

#include "store/store.h"

struct fsck;

enum fsck_flags {
	FSCK_FAST = 1,	 /* do not read the content of files */
	FSCK_REPAIR = 2, /* take the store alone */
};

enum fsck_kind {
	FSCK_DAMAGE,
	FSCK_HIT,  /* a path of a snapshot that damage has reached */
	FSCK_NOTE, /* what could not be looked at, and is no damage */
	FSCK_DONE, /* repaired */
};

struct fsck_finding {
	enum fsck_kind kind;
	const char *rule;  /* of damage, as "S6"; else "" */
	const char *where; /* a file of the store, an object, an environment */
	const char *text;
	const struct oid *object;   /* or NULL */
	const struct oid *snapshot; /* of a hit */
	const char *path;	    /* of a hit: bytes */
	size_t path_len;
};

typedef void (*fsck_fn)(void *ctx, const struct fsck_finding *f);

/* Prepares a check. -ENOENT, -ENOTEMPTY, -EPROTONOSUPPORT as store_open. */
_must_check_ int fsck_open(const char *path, unsigned flags, fsck_fn fn,
			   void *ctx, struct diag *diag, struct fsck **ret);
void fsck_close(struct fsck *f);
static inline void fsck_closep(struct fsck **f)
{
	fsck_close(*f);
}
/* Checks format, index, segments, objects, snapshots, copies. */
_must_check_ int fsck_check(struct fsck *f);
/* Repairs what fsck_check found, and checks again, telling only of what is
 * left. */
_must_check_ int fsck_repair(struct fsck *f);
/* How many findings of damage there are; after a repair, are left. */
size_t fsck_damage(const struct fsck *f);
/* The store, to be read only (after a repair: whole); NULL when its index
 * cannot be read. Lent. */
struct store *fsck_store(struct fsck *f);
/* Moves STORE/name to the quarantine (FSCK_REPAIR). */
_must_check_ int fsck_set_aside(struct fsck *f, const char *name);
/* Copies the file STORE/name there. */
_must_check_ int fsck_keep_copy(struct fsck *f, const char *name);
/* Walks from a snapshot that somebody else than the index names, as its rows'
 * are walked; nothing without a readable index. Returns 1 when it or something
 * below it is lost, else 0. */
_must_check_ int fsck_check_root(struct fsck *f, const struct oid *id);
/* Tells a finding of the caller's own. */
void fsck_tell(struct fsck *f, const struct fsck_finding *finding);

/* Has a child walk the index: pages, then rows as LMDB reads them. Its crash
 * is a finding, too. Returns 0: sound; 1: damaged, told line by line.
 * -ETIMEDOUT. */
typedef void (*fsck_line_fn)(void *ctx, const char *rule, const char *text);
_must_check_ int fsck_walk_index(const char *path, unsigned limit_s,
				 fsck_line_fn fn, void *ctx);
/* What a server does before it opens the store: the same, unless the mark of
 * the last user fits. -EFSCORRUPTED: diag says what to do. */
_must_check_ int fsck_at_start(const char *path, unsigned limit_s,
			       struct diag *diag);

#endif
