/* SPDX-License-Identifier: MIT */
/*
 * writer_int.h - appending to a segment that no other writer has.
 *
 * A writer takes its segment at the first append, by an exclusive flock: one
 * that has room, else a new one. What a killed writer left behind the committed
 * end is cut off then.
 *
 * Contract
 *   Ownership   caller's storage; writer_open/writer_close
 *   Durability  writer_sync: all appended bytes are on stable storage
 *   Threads     caller serialises
 *   Errors      after one the writer must only be closed
 */
#ifndef COWFS_STORE_WRITER_INT_H
#define COWFS_STORE_WRITER_INT_H

#include "store/index_int.h"

enum {
	WRITER_BUFFER_BYTES = 1 << 20,
	WRITER_AHEAD_BYTES = 8 << 20, /* the disk is given at a time */
};

struct writer {
	struct segments *segments;
	struct index *index;
	int fd; /* -1: no segment yet */
	uint32_t number;
	uint64_t committed; /* end that the index knows */
	uint64_t flushed;   /* end of what the file has; the buffer follows */
	uint64_t started;   /* the disk was told to write up to here */
	bool dirty;	    /* the file was written to since then */
	bool keep_tail;	    /* a commit's outcome is unknown: cut nothing */
	bool fresh;	    /* takes new segments only (gc) */
	uint64_t limit;	    /* a segment of this size takes no more */
	uint8_t *buffer;
	size_t used;
};

_must_check_ int writer_open(struct segments *g, struct index *x,
			     uint64_t limit, struct writer *ret_writer);
/* Cuts what is not committed and lets the segment go. */
void writer_close(struct writer *w);
/* Appends one raw record. */
_must_check_ int writer_append(struct writer *w, const struct oid *id,
			       const void *data, size_t len,
			       struct segment_place *ret_place);
/* Appends one record in any encoding. */
_must_check_ int writer_append_stored(struct writer *w, const struct oid *id,
				      enum segment_encoding encoding,
				      const void *data, size_t len,
				      struct segment_place *ret_place);
/* Writes the buffer to the file. */
_must_check_ int writer_flush(struct writer *w);
/* Writes the buffer and syncs the file; no-op when nothing is new. */
_must_check_ int writer_sync(struct writer *w);
/* Tells the writer that the index now knows its end. */
void writer_committed(struct writer *w);
uint64_t writer_end(const struct writer *w);
/* Returns the payload of a record that is still in the buffer, or NULL. Lent
 * until the next append. */
const uint8_t *writer_peek(const struct writer *w,
			   const struct segment_place *p);

#endif
