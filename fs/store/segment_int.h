/* SPDX-License-Identifier: MIT */
/*
 * segment_int.h - the append-only data files: frames, and reading them.
 *
 * A segment is a 16-byte header and framed records (docs/format.md, "Store").
 * Reading keeps a bounded table of open segments and checks every byte that it
 * hands out; writing is writer_int.h.
 *
 * Contract
 *   Ownership   segments_open/segments_close; outputs are copies
 *   Threads     any thread
 *   Errors      -EFSBADCRC: the bytes are not what the record's checksum, name
 *               or length says; -EFSCORRUPTED: no such file or encoding
 */
#ifndef COWFS_STORE_SEGMENT_INT_H
#define COWFS_STORE_SEGMENT_INT_H

#include "base/buf.h"
#include "object/oid.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SEGMENT_HEADER_BYTES = 16,
	SEGMENT_RECORD_BYTES = 48, /* before the payload */
	SEGMENT_ALIGN = 8,
	SEGMENT_NAME_BYTES = 16, /* "NNNNNNNNNN.seg" with NUL */
};

enum segment_encoding {
	SEGMENT_RAW = 0,
	SEGMENT_DEFLATE = 1,
};

/* Where an object's record begins, and what is needed to read it at once. */
struct segment_place {
	uint32_t segment;
	uint32_t stored_len;
	uint64_t offset; /* of the record's header */
	uint8_t encoding;
};

struct segments;

/* Opens store_fd/segments. */
_must_check_ int segments_open(int store_fd, struct segments **ret_segments);
void segments_close(struct segments *g);
int segments_fd(const struct segments *g);

/* Lets go of open segments whose file was removed: their space comes back. */
void segments_drop_removed(struct segments *g);

/* Reads oid_length(id) checked bytes into raw; after an error raw is zeroed. */
_must_check_ int segment_read(struct segments *g, const struct segment_place *p,
			      const struct oid *id, void *raw);

/* Appends the payload of a record as it is stored, checked. */
_must_check_ int segment_read_stored(struct segments *g,
				     const struct segment_place *p,
				     const struct oid *id, struct buf *out);

void segment_name(uint32_t number, char ret_name[SEGMENT_NAME_BYTES]);
void segment_header_encode(uint32_t number, uint8_t ret[SEGMENT_HEADER_BYTES]);
/* Returns the bytes that a record takes with its padding. */
uint64_t segment_record_bytes(uint32_t stored_len);
/* Says whether a frame's checksum fits header and payload. */
bool segment_record_is_sound(const uint8_t *header, const void *payload,
			     uint32_t len);
/* Frames a payload of stored_len bytes in that encoding. */
void segment_record_encode(const struct oid *id, enum segment_encoding encoding,
			   const void *payload, uint32_t stored_len,
			   uint8_t ret[SEGMENT_RECORD_BYTES]);

#endif
