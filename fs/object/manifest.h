/* SPDX-License-Identifier: MIT */
/*
 * manifest.h - a big file as a list of chunks.
 *
 * Chunks are cut at multiples of FORMAT_CHUNK_BYTES (docs/adr has the reason);
 * a chunk of zeros is the null name, a hole, whatever the source's allocation.
 * The last chunk has the rest of the size. So the name of a big file depends
 * on its bytes alone.
 *
 * Contract
 *   Ownership   a struct manifest borrows the encoded bytes
 *   Threads     any
 *   Errors      -EFSCORRUPTED from manifest_open
 */
#ifndef COWFS_OBJECT_MANIFEST_H
#define COWFS_OBJECT_MANIFEST_H

#include "base/buf.h"
#include "object/oid.h"

struct manifest {
	const uint8_t *data;
	uint64_t size; /* bytes of the file */
	uint64_t count;
};

_must_check_ int manifest_open(const void *data, size_t len,
			       struct manifest *ret_manifest);
/* Returns the name of chunk i < count; null: a hole. */
struct oid manifest_chunk(const struct manifest *m, uint64_t i);
/* Encodes: begin, add each chunk in order. */
void manifest_begin(struct buf *out, uint64_t size);
void manifest_add(struct buf *out, const struct oid *chunk);

/* Says whether all bytes are zero. */
bool manifest_is_zero(const void *data, size_t len);

#endif
