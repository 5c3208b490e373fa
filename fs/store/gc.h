/* SPDX-License-Identifier: MIT */
/*
 * gc.h - freeing what nobody needs, and telling who needs what.
 *
 * A snapshot is kept while it has a name, while an environment stands on it,
 * or when it was imported not long ago. What no kept snapshot reaches goes.
 * Nothing is deleted unless everything that is kept could be read.
 *
 * Contract
 *   Ownership   outputs are copies; usage_fini frees a struct usage
 *   Durability  killed at any point, nothing that is kept is lost
 *   Threads     any; several gcs, imports and readers at once are fine
 *   Errors      -EFSBADCRC, -EFSCORRUPTED: damage; diag says where
 */
#ifndef COWFS_STORE_GC_H
#define COWFS_STORE_GC_H

#include "store/store.h"

struct gc_options {
	bool dry_run;	/* only say what would be done */
	bool compress;	/* deflate what no environment uses */
	bool trash;	/* empty STORE/trash: no server runs that would */
	int grace_days; /* of snapshots without a name; below 0: as set */
	void (*waiting)(void *ctx); /* NULL or: others are at work */
	void *ctx;
};

struct gc_result {
	uint64_t snapshots;  /* forgotten */
	uint64_t objects;    /* deleted */
	uint64_t segments;   /* removed */
	uint64_t freed;	     /* bytes on disk, what was written deducted */
	uint64_t compressed; /* objects */
	uint64_t live_objects;
	uint64_t live_bytes;
	uint64_t leases; /* freed, of environments that are gone */
};

/* Collects. notes gets a line for what was left aside (NULL is allowed); that
 * is an error too, but one after which all else was done. */
_must_check_ int store_gc(struct store *s, const struct gc_options *options,
			  struct diag *notes, struct diag *diag,
			  struct gc_result *ret_result);

/* --- who needs what ------------------------------------------------------ */

/* One that has a record, or that only environments stand on any more. */
struct usage_snapshot {
	struct oid id;
	int64_t time_sec; /* of the import */
	uint64_t bytes;	  /* apparent */
	uint64_t own;	  /* stored bytes that no other one shares */
	bool forgotten;	  /* has no record any more */
};

struct usage {
	struct usage_snapshot *snapshots; /* the newest first */
	size_t count;
	uint64_t bytes;	 /* apparent, of all */
	uint64_t stored; /* bytes of records that some snapshot needs */
	uint64_t shared; /* of them, needed by several */
	uint64_t waste;	 /* bytes of segments that nobody needs */
};

_must_check_ int store_usage(struct store *s, struct diag *diag,
			     struct usage *ret_usage);
void usage_fini(struct usage *u);

#endif
