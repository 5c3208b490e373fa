/* SPDX-License-Identifier: MIT */
/*
 * copies_int.h - second copies, outside LMDB, of what segments cannot give
 * back: the rows of snapshots and refs.
 *
 * STORE/copies/log is a journal of changes to these two tables, framed and
 * checksummed (docs/format.md, "Copies"). Every commit that changes them
 * appends to it first.
 *
 * Contract
 *   Ownership   changes belong to the transaction
 *   Durability  copies_commit: the log is on stable storage when it returns
 *   Threads     under LMDB's writer lock
 *   Errors      the log cannot be written: the commit must not be made
 */
#ifndef COWFS_STORE_COPIES_INT_H
#define COWFS_STORE_COPIES_INT_H

#include "store/index_int.h"

/* Says whether a table's rows have copies. */
bool copies_has(enum index_table table);
/* Notes a change of a row; a NULL value: it went. Tables without copies, and
 * an index without a store, are ignored. */
void copies_note(struct index_txn *t, enum index_table table,
		 struct index_key key, const struct index_key *value);
/* Writes what was noted; called by index_txn_commit. */
_must_check_ int copies_commit(struct index_txn *t);
/* Makes the log from the rows of the index when there is none that fits: a
 * store of an earlier revision has none. */
_must_check_ int copies_ensure(struct index *x);

/* Reads the log without an index. Rows come in the order of the changes; a
 * NULL value: it went. */
typedef int (*copies_fn)(void *ctx, enum index_table table,
			 struct index_key key, const struct index_key *value);
struct copies_state {
	bool missing; /* no file */
	bool damaged; /* a frame or the header is; what is whole was told */
	uint64_t generation;
	uint64_t end;  /* of the last whole frame */
	uint64_t size; /* of the file */
};
/* Reads up to end, or all that is whole when end is 0. */
_must_check_ int copies_read(int store_fd, uint64_t end, copies_fn fn,
			     void *ctx, struct copies_state *ret_state);
/* What the index knows of the log. -ENOENT. */
_must_check_ int copies_get_place(struct index_txn *t, uint64_t *ret_generation,
				  uint64_t *ret_end);

#endif
