/* SPDX-License-Identifier: MIT */
/*
 * index_int.h - the store index: small checked tables in LMDB.
 *
 * index.c knows LMDB: transactions and rows as bytes, each value with a
 * checksum over table, key and value. index_rows.c knows what the rows of each
 * table mean. Nothing here hands out LMDB's memory.
 *
 * Contract
 *   Ownership   index_open/index_close; outputs are copies. A transaction is
 *               the caller's storage; end it by index_txn_end, always
 *   Durability  index_txn_commit: on stable storage when it returns
 *   Threads     any thread; one transaction, one thread
 *   Errors      -ENOENT: no such row; -EFSBADCRC: a value does not fit its
 *               checksum; -EFSCORRUPTED: a page or row makes no sense;
 *               -ENOSPC: the disk or the map is full
 */
#ifndef COWFS_STORE_INDEX_INT_H
#define COWFS_STORE_INDEX_INT_H

#include "store/segment_int.h"
#include "store/store.h"

/* The numbers are part of the checksums: never change one. */
enum index_table {
	INDEX_OBJECTS = 0,
	INDEX_SNAPSHOTS = 1,
	INDEX_REFS = 2,
	INDEX_SEGMENTS = 3,
	INDEX_META = 4,
	INDEX_RESCUES = 5,
	INDEX_LEASES = 6,
	INDEX_TABLES
};
/* The tables that every store has; later ones are made when missing. */
enum { INDEX_TABLES_FIRST = 5 };

enum {
	INDEX_MAX_SOURCE = 4096,
	INDEX_MAX_HOST = 256,
	INDEX_MAX_MESSAGE = 1 << 16,
	INDEX_MAX_VALUE = 128 << 10, /* above any row's */
};

struct index;
struct index_txn {
	struct index *index;
	void *txn; /* LMDB's; NULL: ended */
	bool write;
	bool was_marked;    /* mark_int.h: the mark fitted before */
	int guard;	    /* guard_int.h: a descriptor and 1; 0: none */
	struct buf changes; /* of snapshots and refs, for copies_int.h */
};
struct index_key {
	const void *data;
	size_t len;
};

#define _cleanup_index_txn_ _cleanup_(index_txn_end)

enum index_open_flags {
	INDEX_MAKE = 1, /* make file and tables when missing */
	INDEX_LOOK = 2, /* for reading only */
};

/* Says whether LMDB may open what is in dir: -EFSCORRUPTED. Not while this
 * process has it open. */
_must_check_ int index_check_files(const char *dir);
/* Opens the index in the directory dir. Once per process. Without the right to
 * write, or on a read-only file system, it opens for reading. */
_must_check_ int index_open(const char *dir, unsigned flags,
			    struct index **ret_index);
/* From now on commits keep the second copies of snapshots and refs, and the
 * mark, in that store's directory. The descriptor is lent. Guarded ones keep
 * repairs out and fail with -ESTALE after one has put another index there;
 * repair's own are not. */
_must_check_ int index_attach(struct index *x, int store_fd, bool guarded);
/* -ESTALE: as above. */
_must_check_ int index_check_current(const struct index *x);
int index_store_fd(const struct index *x); /* -1: none */
void index_close(struct index *x);
bool index_is_read_only(const struct index *x);
/* Says how many bytes of the index are in use. */
uint64_t index_bytes(struct index *x);

/* Begins a transaction; a writing one waits for other writers. */
_must_check_ int index_txn_begin(struct index *x, bool write,
				 struct index_txn *ret_txn);
/* Commits a writing transaction, which is ended in every case. */
_must_check_ int index_txn_commit(struct index_txn *t);
/* Says which commit the last reading transaction has seen: another number,
 * another state. */
uint64_t index_seen(const struct index *x);
/* Ends it without effect. No-op on an ended (or zeroed) one. */
void index_txn_end(struct index_txn *t);

/* --- rows as bytes ------------------------------------------------------ */

/* Copies a value of at most cap bytes out; returns its length. */
_must_check_ int index_get(struct index_txn *t, enum index_table table,
			   struct index_key key, void *ret, size_t cap);
/* Sets a row. With add, -EEXIST when there is one already. */
_must_check_ int index_put(struct index_txn *t, enum index_table table,
			   struct index_key key, struct index_key value,
			   bool add);
_must_check_ int index_delete(struct index_txn *t, enum index_table table,
			      struct index_key key);
/* Appends (block key, block value) of all rows, in key order, whose key begins
 * with prefix; blocks as buf_put_block writes them. */
_must_check_ int index_list(struct index_txn *t, enum index_table table,
			    struct index_key prefix, struct buf *out);
/* Calls back for each row in key order; key and value are lent for the call. A
 * result other than 0 ends the walk and is returned. */
typedef int (*index_row_fn)(void *ctx, struct index_key key,
			    struct index_key value);
_must_check_ int index_each(struct index_txn *t, enum index_table table,
			    index_row_fn fn, void *ctx);
_must_check_ int index_count(struct index_txn *t, enum index_table table,
			     uint64_t *ret_count);

/* --- what pages_int.h needs to know ------------------------------------- */

/* Returns the table's number or -1. */
int index_table_by_name(const char *name);
/* Checks the checksum that a value ends in. */
bool index_row_is_sound(enum index_table table, struct index_key key,
			struct index_key value);
/* Says whether a map of that size is one that index_open makes. */
bool index_map_is_possible(uint64_t bytes);

/* --- rows with a meaning (index_rows.c) --------------------------------- */

_must_check_ int index_get_object(struct index_txn *t, const struct oid *id,
				  struct segment_place *ret_place);
_must_check_ int index_decode_object(const void *row, size_t len,
				     struct segment_place *ret_place);
_must_check_ int index_put_object(struct index_txn *t, const struct oid *id,
				  const struct segment_place *place, bool add);
_must_check_ int index_delete_object(struct index_txn *t, const struct oid *id);
/* Looks an object up in a transaction of its own: the hot path. */
_must_check_ int index_lookup(struct index *x, const struct oid *id,
			      struct segment_place *ret_place);
/* Calls back for each object, by name. */
typedef int (*index_object_fn)(void *ctx, const struct oid *id,
			       const struct segment_place *place);
_must_check_ int index_each_object(struct index_txn *t, index_object_fn fn,
				   void *ctx);

/* The committed end of a segment. */
_must_check_ int index_get_segment(struct index_txn *t, uint32_t number,
				   uint64_t *ret_end);
_must_check_ int index_put_segment(struct index_txn *t, uint32_t number,
				   uint64_t end);
_must_check_ int index_delete_segment(struct index_txn *t, uint32_t number);
struct index_segment {
	uint32_t number;
	uint64_t end;
};
/* Appends a struct index_segment for each, by number. */
_must_check_ int index_list_segments(struct index_txn *t, struct buf *out);


/* What gc leaves behind: how often it has removed segments, and the least
 * number that no segment has had. Zeros where it never has. */
struct index_gc {
	uint64_t generation;
	uint32_t next_segment;
};
_must_check_ int index_get_gc(struct index_txn *t, struct index_gc *ret_gc);
_must_check_ int index_put_gc(struct index_txn *t, const struct index_gc *gc);

/* Encodes the row of a snapshot. -E2BIG: a string beyond its bound. */
_must_check_ int index_encode_snapshot(const struct snapshot_info *info,
				       struct buf *out);
/* Reads a row made by it; the strings lie in strings (cleared first). */
_must_check_ int index_decode_snapshot(const struct oid *id, const void *data,
				       size_t len, struct buf *strings,
				       struct snapshot_info *ret_info);
_must_check_ int index_has_snapshot(struct index_txn *t, const struct oid *id);

_must_check_ int index_get_ref(struct index_txn *t, const char *ref,
			       struct oid *ret_id);
_must_check_ int index_put_ref(struct index_txn *t, const char *ref,
			       const struct oid *id);
_must_check_ int index_delete_ref(struct index_txn *t, const char *ref);

/* The epoch (store.h). Who deletes a row of INDEX_OBJECTS must end the epoch
 * in the same transaction; no epoch is no error then. */
_must_check_ int index_get_epoch(struct index_txn *t, uint64_t *ret_epoch);
_must_check_ int index_put_epoch(struct index_txn *t, uint64_t epoch);
_must_check_ int index_end_epoch(struct index_txn *t);

static inline struct index_key index_key_of(const void *data, size_t len)
{
	return (struct index_key){data, len};
}

#endif
