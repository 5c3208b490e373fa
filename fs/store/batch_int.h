/* SPDX-License-Identifier: MIT */
/*
 * batch_int.h - a group of puts, as batch.c and commit.c share it.
 *
 * Contract
 *   Ownership   batch_begin makes it; batch_commit or batch_abort free it
 *   Threads     caller serialises
 */
#ifndef COWFS_STORE_BATCH_INT_H
#define COWFS_STORE_BATCH_INT_H

#include "base/hmap.h"
#include "store/space_int.h"
#include "store/store_int.h"
#include "store/writer_int.h"

enum { BATCH_BLOCK_ENTRIES = 512 };

/* An object that was put and is not in the index yet. */
struct batch_entry {
	struct hnode node; /* in batch.pending, by oid_hash */
	struct oid id;
	struct segment_place place;
	bool heal; /* takes the place of a damaged record */
};

/* Entries are allocated by the block and freed together. */
struct batch_block {
	struct batch_block *next;
	size_t used;
	struct batch_entry entries[BATCH_BLOCK_ENTRIES];
};

struct batch {
	struct store *store;
	struct writer writer;
	int lock_fd; /* STORE/lock, shared: keeps gc away */
	int err;     /* the first failure: nothing is committed after it */
	struct hmap pending;
	struct batch_block *blocks;
	uint64_t written;    /* bytes appended */
	struct room room;    /* what may be appended unasked */
	struct buf scratch;  /* for comparing */
	struct buf scratch2; /* ours, while theirs is in scratch */
};

/* What unit tests replace, and nothing else may. Nobody can make two inputs
 * with one XXH3-128 on demand in a test, and 256 MiB segments and 256k objects
 * are slow to fill; so the naming function and the two limits are variables. */
struct batch_seam_int {
	struct oid (*name)(enum oid_kind kind, const void *data, size_t len);
	uint64_t segment_bytes; /* a segment of this size takes no more */
	size_t pending;		/* a batch commits by itself beyond these */
};
extern struct batch_seam_int batch_seam_int;

/* Commits the objects put so far and, when they are not NULL, the snapshot's
 * record and a normalized ref (commit.c). */
_must_check_ int batch_flush_int(struct batch *b,
				 const struct snapshot_info *info,
				 const char *ref);
/* Forgets the entries. */
void batch_forget_int(struct batch *b);
/* Reads a record of this batch, written or not, into raw. */
_must_check_ int batch_read_int(struct batch *b, const struct batch_entry *e,
				void *raw);
/* Compares a committed record with bytes: 1 equal, 0 different. The errors for
 * which batch_is_damage_int is true say that it cannot be read. */
_must_check_ int batch_same_int(struct batch *b,
				const struct segment_place *place,
				const struct oid *id, const void *data);
bool batch_is_damage_int(int err);

#endif
