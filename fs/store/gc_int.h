/* SPDX-License-Identifier: MIT */
/*
 * gc_int.h - what the parts of a collection share.
 *
 * Contract
 *   Ownership   caller's storage; mark_fini, roots_fini free what is in it
 *   Threads     caller serialises
 */
#ifndef COWFS_STORE_GC_INT_H
#define COWFS_STORE_GC_INT_H

#include "store/gc.h"
#include "store/store_int.h"
#include "store/writer_int.h"

/* Calls back with name and snapshot of each environment. */
_must_check_ int store_envs_int(struct store *s, store_ref_fn fn, void *ctx,
				struct diag *diag);

/* --- marking (gc_mark.c) ------------------------------------------------- */

enum {
	MARK_NONE = 0, /* nobody reaches it */
	MARK_SHARED = UINT32_MAX,
	MARK_PREFIXES = 1 << 16,
};

/* 48 bytes, so that a million of them are no burden. */
struct mark_object {
	struct oid id;
	uint32_t owner; /* the first who reached it, or one of the above */
	uint32_t segment;
	uint64_t offset;
	uint32_t stored_len;
	uint8_t encoding;
};

struct mark {
	struct store *store;
	struct diag *diag;
	bool sharing; /* tell apart what one owner reaches and what several */
	struct mark_object *objects; /* by name */
	size_t count;
	size_t room;
	uint32_t *first;  /* by the first 16 bits of a name */
	struct buf stack; /* of indexes (u32): reached, not looked into */
	struct buf bytes;
};

/* Reads the table of objects. */
_must_check_ int mark_load(struct mark *m, struct store *s, struct diag *diag);
void mark_fini(struct mark *m);
/* Marks what a snapshot reaches as owner's (1 or more). */
_must_check_ int mark_root(struct mark *m, const struct oid *root,
			   uint32_t owner);
static inline struct segment_place mark_place(const struct mark_object *o)
{
	return (struct segment_place){.segment = o->segment,
				      .stored_len = o->stored_len,
				      .offset = o->offset,
				      .encoding = o->encoding};
}

/* --- roots (gc_roots.c) -------------------------------------------------- */

enum { OWNER_ENV = 1, OWNER_REST = 2 };

struct roots {
	struct buf envs;    /* of struct oid, sorted */
	struct buf rescues; /* of struct oid */
	struct buf named;   /* likewise: what refs point to */
	struct buf rest;    /* likewise: has a record and is kept */
	struct buf expired; /* likewise: has a record, and nobody wants it */
};

void roots_fini(struct roots *r);
_must_check_ int roots_read(struct roots *r, struct store *s,
			    uint32_t grace_days, struct diag *diag);
bool roots_has(const struct buf *sorted, const struct oid *id);

/* --- sweeping ------------------------------------------------------------ */

struct gc_segment {
	uint32_t number;
	uint64_t end;  /* committed, when marking */
	uint64_t live; /* bytes of records that are kept */
	size_t first;  /* of its objects in gc.mark.objects */
	size_t count;
	bool chosen;
};

struct gc {
	struct store *store;
	const struct gc_options *options;
	struct diag *notes;
	struct diag *diag;
	struct gc_result *result;
	struct mark mark;    /* after gc_delete: the live ones, by place */
	struct buf segments; /* of struct gc_segment, by number */
	struct writer writer;
	bool writing;	   /* the writer is open */
	struct buf moves;  /* of struct gc_move: copied, not yet in the index */
	struct buf stored; /* a record's payload */
	struct buf packed; /* likewise, deflated */
	uint64_t appended; /* bytes of records written */
	int damage;	   /* the first that was left aside */
	bool removed;	   /* some segment's file is gone */
};

static inline struct gc_segment *gc_segments(const struct gc *g, size_t *ret_n)
{
	*ret_n = g->segments.len / sizeof(struct gc_segment);
	return (struct gc_segment *)(void *)g->segments.data;
}

/* gc_sweep.c: counts the live bytes of each segment. -EFSCORRUPTED: an object
 * is said to be where no segment is. */
_must_check_ int gc_count(struct gc *g);
/* Deletes the rows of what is not marked, and only keeps the others. */
_must_check_ int gc_delete(struct gc *g);
/* Removes files of segments that the index does not know, and cuts off what it
 * does not know of others. */
_must_check_ int gc_sweep_files(struct gc *g);
/* Chooses the segments that are worth it. */
void gc_choose(struct gc *g);
/* Lists segments and rows anew, all of which are kept then. */
_must_check_ int gc_reload(struct gc *g);
/* Says whether an error tells that the disk, or the user's part, is full. */
bool gc_is_full(int err);

/* gc_move.c: removes segments of which nothing is kept, which takes no room;
 * deflates records; rewrites the chosen segments and removes them. -ENOSPC: no
 * room for the copies. */
_must_check_ int gc_drop_empty(struct gc *g);
_must_check_ int gc_compress(struct gc *g);
_must_check_ int gc_rewrite(struct gc *g);
/* Locks a segment's file. -EBUSY, -ENOENT: somebody else has it. */
_must_check_ int gc_lock_segment(struct gc *g, uint32_t number, int flags);
/* Says whether the segment is as it was when its objects were counted. */
_must_check_ int gc_is_unchanged(struct gc *g, const struct gc_segment *s);

/* gc_punch.c: gives the disk what is dead in segments without moving anything.
 */
_must_check_ int gc_punch(struct gc *g);

#endif
