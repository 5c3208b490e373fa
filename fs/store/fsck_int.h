/* SPDX-License-Identifier: MIT */
/*
 * fsck_int.h - what the parts of a check share.
 *
 * fsck.c drives; fsck_kinds.c looks at names, fsck_walk.c at the index in a
 * child, fsck_rows.c at its rows, fsck_scan.c at segments, fsck_form.c at the
 * form of objects, fsck_reach.c at what snapshots need; repair*.c mends.
 *
 * Contract
 *   Ownership   struct fsck owns everything
 *   Threads     one
 */
#ifndef COWFS_STORE_FSCK_INT_H
#define COWFS_STORE_FSCK_INT_H

#include "base/hmap.h"
#include "base/name.h"
#include "object/tree.h"
#include "store/copies_int.h"
#include "store/frames_int.h"
#include "store/fsck.h"
#include "store/store_int.h"

enum {
	FSCK_BLOCK_OBJECTS = 1024,
	FSCK_TEXT_BYTES = 512,
};

enum object_state {
	OBJECT_ROW = 1,	    /* the index has it */
	OBJECT_WHOLE = 2,   /* its record is where the index says */
	OBJECT_OTHER = 4,   /* another whole record is at `other` */
	OBJECT_BAD = 8,	    /* its bytes are not what its name or kind says */
	OBJECT_ZERO = 16,   /* a whole chunk of zeros */
	OBJECT_SUMMED = 32, /* sum is set */
	OBJECT_VISITED = 64,
	OBJECT_TAINTED = 128, /* it, or something below it, is lost */
};

struct fsck_object {
	struct hnode node;
	struct oid id;
	struct segment_place place;
	struct segment_place other;
	uint64_t sum; /* of its bytes */
	unsigned state;
};

struct fsck_block {
	struct fsck_block *next;
	size_t used;
	struct fsck_object objects[FSCK_BLOCK_OBJECTS];
};

/* A segment that has a row, or only a file. */
struct fsck_segment {
	uint32_t number;
	bool has_row;
	bool has_file;
	bool damaged;
	uint64_t end;  /* committed */
	uint64_t size; /* of the file */
};

struct fsck_snapshot {
	struct oid id;
	bool lost; /* the object itself cannot be read */
};

struct fsck_ref {
	char name[STORE_REF_MAX];
	struct oid id;
};

struct fsck_rescue {
	char name[NAME_MAX_LABEL + 1];
	struct oid snapshot, base;
};

struct fsck {
	char *path; /* absolute */
	int fd;
	unsigned flags;
	fsck_fn fn;
	void *ctx;
	bool quiet; /* count only */
	size_t damage;
	bool format_bad;
	bool index_bad;
	bool copies_bad;
	bool settings_bad;
	bool segments_missing; /* the folder */
	struct store *store;   /* opened to be read; or NULL */
	struct hmap objects;
	struct fsck_block *blocks;
	struct buf segments;   /* of struct fsck_segment, by number */
	struct buf snapshots;  /* of struct fsck_snapshot */
	struct buf refs;       /* of struct fsck_ref */
	struct buf rescues;    /* of struct fsck_rescue */
	struct buf lease_keys; /* of rows that a repair deletes, as blocks */
	size_t lost;	       /* objects with a row and without a record */
	int server_lock, lock; /* of a repair */
	int gc;		       /* of a check: keeps gc out (gate.c) */
	int guards[2];	       /* of a repair: the old index's, the new one's */
	char quarantine[64];   /* below the store, made at first use */
};

static inline struct fsck_segment *fsck_segment_at(const struct fsck *f,
						   size_t i)
{
	return (struct fsck_segment *)(void *)f->segments.data + i;
}

static inline size_t fsck_segment_count(const struct fsck *f)
{
	return f->segments.len / sizeof(struct fsck_segment);
}

/* --- fsck.c -------------------------------------------------------------- */

/* Tells of damage (and counts it), of something else. */
void fsck_damaged(struct fsck *f, const char *rule, const char *where,
		  const struct oid *object, const char *fmt, ...)
	_printf_(5, 6);
void fsck_say(struct fsck *f, enum fsck_kind kind, const char *where,
	      const char *fmt, ...) _printf_(4, 5);
struct fsck_object *fsck_find(const struct fsck *f, const struct oid *id);
/* Finds the object or enters it with state 0. NULL: out of memory. */
struct fsck_object *fsck_need(struct fsck *f, const struct oid *id);
static inline bool fsck_is_lost(const struct fsck_object *o)
{
	return !(o->state & OBJECT_WHOLE) || o->state & OBJECT_BAD;
}
/* Describes an object: its kind and name. */
void fsck_describe(const struct oid *id, char ret[FSCK_TEXT_BYTES]);
/* Opens a segment's file; -errno. */
_must_check_ int fsck_open_segment(const struct fsck *f, uint32_t number);
/* Forgets what a check has collected, closes the store. */
void fsck_reset(struct fsck *f);

/* --- the parts ----------------------------------------------------------- */

/* Compares names in the store with what each has to be (fsck_kinds.c). */
void fsck_kinds_check(struct fsck *f);
/* Reads the rows of all tables. */
_must_check_ int fsck_rows_load(struct fsck *f);
/* Compares rows with each other, after the scan. */
_must_check_ int fsck_rows_check(struct fsck *f);
/* The same of rescues (fsck_rescues.c): rows, rows with others, what they need.
 */
_must_check_ int fsck_rescues_load(struct fsck *f, struct index_txn *t);
void fsck_rescues_check(struct fsck *f);
_must_check_ int fsck_rescues_reach(struct fsck *f);
/* Reads the rows of leases and compares them (fsck_leases.c). */
_must_check_ int fsck_leases_check(struct fsck *f);
/* Compares the copies with the rows; without an index, reads them alone. */
_must_check_ int fsck_copies_check(struct fsck *f);
/* Reads all segments. */
_must_check_ int fsck_scan_check(struct fsck *f);
/* Walks from the snapshots, and tells the paths that damage hits. */
_must_check_ int fsck_reach_check(struct fsck *f);
/* Finds the rule that an object's bytes break, or NULL. -ENOMEM. */
_must_check_ int fsck_form_rule(const struct oid *id, const void *data,
				size_t len, const char **ret_rule);
/* The bytes of a record's object: those stored, or inflated into scratch.
 * -EFSCORRUPTED. */
_must_check_ int fsck_raw_bytes(const struct frame *f, struct buf *scratch,
				const uint8_t **ret);

/* --- repair -------------------------------------------------------------- */

/* Takes the locks. */
_must_check_ int repair_lock(struct fsck *f);
void repair_unlock(struct fsck *f);
/* Opens the quarantine of this repair; makes it at the first call. */
_must_check_ int repair_open_quarantine(struct fsck *f);
/* Copies what a file has from a place on into the quarantine. */
_must_check_ int repair_keep(struct fsck *f, int fd, uint64_t from,
			     const char *name);
/* Moves aside what is of the wrong kind, makes what is missing. */
_must_check_ int repair_kinds(struct fsck *f);
/* Makes the index anew from segments and copies. */
_must_check_ int repair_index(struct fsck *f);
/* Drops records of rescues that are lost. */
_must_check_ int repair_rescues(struct fsck *f);
/* Frees leases that break a rule. */
_must_check_ int repair_leases(struct fsck *f);
/* Moves whole records out of damaged segments; rows follow. */
_must_check_ int repair_segments(struct fsck *f);

#endif
