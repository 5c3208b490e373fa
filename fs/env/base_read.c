/* SPDX-License-Identifier: MIT */
/*
 * How: a file is one blob or a manifest of chunks. The kernel mostly asks for
 * whole small files or for aligned 128 KiB, which is a chunk: these go straight
 * into the caller's buffer. Anything else goes through the chunk read last, so
 * that a reader in small steps reads and checks each chunk once.
 */
#include "env/env_int.h"

#include "base/err.h"

#include <string.h>

static int chunk_load(struct base *b, const struct oid *id)
{
	int r;

	if (b->chunk && oid_equal(&b->chunk_id, id))
		return 0;
	if (!b->chunk) {
		b->chunk = malloc(FORMAT_CHUNK_BYTES);
		if (!b->chunk)
			return -ENOMEM;
	}
	memset(&b->chunk_id, 0, sizeof b->chunk_id);
	r = store_read(b->store, id, b->chunk);
	if (r < 0)
		return base_bad(b, id, r);
	b->chunk_id = *id;
	return 0;
}

/* Reads n bytes at offset of one blob of at most a chunk. */
static int blob_read(struct base *b, const struct oid *id, uint8_t *data,
		     size_t n, size_t offset)
{
	uint64_t len = oid_length(id);
	int r;

	if (len > FORMAT_CHUNK_BYTES || offset + n > len)
		return -EFSCORRUPTED;
	if (offset == 0 && n == len &&
	    !(b->chunk && oid_equal(&b->chunk_id, id))) {
		r = store_read(b->store, id, data);
		return r < 0 ? base_bad(b, id, r) : r;
	}
	r = chunk_load(b, id);
	if (r < 0)
		return r;
	memcpy(data, b->chunk + offset, n);
	return 0;
}

static int manifest_read(struct base *b, const struct object *o, uint8_t *data,
			 size_t n, uint64_t offset)
{
	while (n) {
		uint64_t i = offset >> FORMAT_CHUNK_SHIFT;
		size_t in = offset & (FORMAT_CHUNK_BYTES - 1);
		size_t part = MIN(n, FORMAT_CHUNK_BYTES - in);
		struct oid id = manifest_chunk(&o->manifest, i);
		int r = 0;

		if (oid_is_null(&id))
			memset(data, 0, part);
		else
			r = blob_read(b, &id, data, part, in);
		if (r < 0)
			return r;
		data += part;
		offset += part;
		n -= part;
	}
	return 0;
}

int base_read(struct base *b, const struct oid *content, uint64_t size,
	      void *data, size_t n, uint64_t offset)
{
	size_t have = offset >= size ? 0 : MIN(n, size - offset);
	struct object *o;
	int r;

	if (oid_is_null(content))
		have = 0;
	memset((uint8_t *)data + have, 0, n - have);
	if (!have)
		return 0;
	if (oid_kind(content) == OID_BLOB)
		return blob_read(b, content, data, have, offset);
	r = base_object(b, content, &o);
	if (r < 0)
		return r;
	if (o->manifest.size < size)
		r = -EFSCORRUPTED;
	else
		r = manifest_read(b, o, data, have, offset);
	base_unpin(b, o);
	return r;
}

int base_run(struct base *b, const struct oid *content, uint64_t size,
	     uint64_t offset, bool *ret_hole, uint64_t *ret_len)
{
	struct object *o;
	uint64_t i, first, last;
	bool hole = false;
	int r;

	*ret_hole = oid_is_null(content);
	*ret_len = size - offset;
	if (*ret_hole || oid_kind(content) != OID_MANIFEST)
		return 0;
	r = base_object(b, content, &o);
	if (r < 0)
		return r;
	first = offset >> FORMAT_CHUNK_SHIFT;
	last = (size - 1) >> FORMAT_CHUNK_SHIFT;
	for (i = first; i <= last; i++) {
		struct oid id = manifest_chunk(&o->manifest, i);

		if (i == first)
			hole = oid_is_null(&id);
		else if (oid_is_null(&id) != hole)
			break;
	}
	base_unpin(b, o);
	*ret_hole = hole;
	*ret_len = MIN(i << FORMAT_CHUNK_SHIFT, size) - offset;
	return 0;
}

uint64_t base_blocks(struct base *b, const struct oid *content, uint64_t size)
{
	uint64_t blocks = ALIGN_UP(size, ENV_BLOCK) / 512;
	struct object *o;
	uint64_t holes;

	if (oid_kind(content) != OID_MANIFEST ||
	    base_object(b, content, &o) < 0)
		return blocks;
	holes = o->holes * (FORMAT_CHUNK_BYTES / 512);
	base_unpin(b, o);
	return holes < blocks ? blocks - holes : 0;
}
