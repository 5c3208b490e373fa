/* SPDX-License-Identifier: MIT */
/*
 * How: a header of magic, chunk shift and size, then one name per chunk. The
 * count follows from the size, so it is not stored and cannot disagree.
 *
 * Chunk names hold their lengths, so a manifest is checked without reading a
 * chunk: each must be exactly as long as its place in the file.
 */
#include "object/manifest.h"

#include "base/bytes.h"
#include "base/err.h"
#include "object/form_int.h"

enum {
	AT_SHIFT = 4,
	AT_SIZE = 8,
};

static bool chunk_fits(const struct manifest *m, uint64_t i)
{
	struct oid id = manifest_chunk(m, i);
	uint64_t left = m->size - (i << FORMAT_CHUNK_SHIFT);

	return oid_is_null(&id) ||
	       (form_is_kind(&id, OID_BLOB) &&
		oid_length(&id) == MIN(left, (uint64_t)FORMAT_CHUNK_BYTES));
}

int manifest_open(const void *data, size_t len, struct manifest *ret_manifest)
{
	struct manifest m = {.data = data};

	if (len < FORM_MANIFEST_HEADER ||
	    bytes_load_u32(m.data) != FORMAT_MANIFEST_MAGIC ||
	    bytes_load_u32(m.data + AT_SHIFT) != FORMAT_CHUNK_SHIFT)
		return -EFSCORRUPTED;
	m.size = bytes_load_u64(m.data + AT_SIZE);
	if (m.size <= FORMAT_CHUNK_BYTES || m.size > FORMAT_MAX_FILE)
		return -EFSCORRUPTED;
	m.count = form_chunks(m.size);
	if (len != FORM_MANIFEST_HEADER + m.count * OID_BYTES)
		return -EFSCORRUPTED;
	for (uint64_t i = 0; i < m.count; i++) {
		if (!chunk_fits(&m, i))
			return -EFSCORRUPTED;
	}
	*ret_manifest = m;
	return 0;
}

struct oid manifest_chunk(const struct manifest *m, uint64_t i)
{
	struct oid id;

	memcpy(id.b, m->data + FORM_MANIFEST_HEADER + i * OID_BYTES, OID_BYTES);
	return id;
}

void manifest_begin(struct buf *out, uint64_t size)
{
	buf_put_u32(out, FORMAT_MANIFEST_MAGIC);
	buf_put_u32(out, FORMAT_CHUNK_SHIFT);
	buf_put_u64(out, size);
}

void manifest_add(struct buf *out, const struct oid *chunk)
{
	buf_put(out, chunk->b, OID_BYTES);
}

/* When the first 16 bytes are zero and every byte equals the one 16 places
 * before it, all are zero: the second test is one memcmp at its full speed. */
bool manifest_is_zero(const void *data, size_t len)
{
	static const uint8_t zeros[16];
	const uint8_t *p = data;
	size_t head = MIN(len, sizeof zeros);

	if (len == 0)
		return true;
	return memcmp(p, zeros, head) == 0 &&
	       memcmp(p, p + head, len - head) == 0;
}
