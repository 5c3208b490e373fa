/* SPDX-License-Identifier: MIT */
/*
 * How: content is one blob, or a manifest of chunks, of which those that are
 * holes are no object.
 */
#include "exchange/content.h"

#include "base/err.h"
#include "object/format.h"
#include "object/manifest.h"

static int read_chunks(const struct oid *content, content_get_fn get,
		       void *from, content_bytes_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf object = {0}, chunk = {0};
	struct manifest m;
	int r = get(from, content, &object);

	if (r == 0)
		r = manifest_open(object.data, object.len, &m);
	for (uint64_t i = 0; r == 0 && i < m.count; i++) {
		const uint64_t at = i * FORMAT_CHUNK_BYTES;
		const size_t n =
			(size_t)MIN(m.size - at, (uint64_t)FORMAT_CHUNK_BYTES);
		const struct oid id = manifest_chunk(&m, i);

		buf_clear(&chunk);
		r = oid_is_null(&id) ? buf_resize(&chunk, n)
				     : get(from, &id, &chunk);
		if (r == 0 && chunk.len != n)
			r = -EFSCORRUPTED;
		if (r == 0)
			r = fn(ctx, chunk.data, n);
	}
	return r;
}

int content_read(const struct oid *content, content_get_fn get, void *from,
		 content_bytes_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf bytes = {0};
	int r;

	if (oid_is_null(content))
		return 0;
	if (oid_kind(content) == OID_MANIFEST)
		return read_chunks(content, get, from, fn, ctx);
	r = get(from, content, &bytes);
	return r < 0 ? r : fn(ctx, bytes.data, bytes.len);
}
