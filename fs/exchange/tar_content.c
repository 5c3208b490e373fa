/* SPDX-License-Identifier: MIT */
/*
 * tar_content.c - the content of a file of an archive.
 *
 * It comes in pieces that say where they belong; between them, and after the
 * last one, are the holes of a sparse file. A file of one chunk is a blob, of
 * a bigger one each chunk is put when it is full, and one of zeros is a hole,
 * written so in the archive or not: the same as in import_file.c.
 *
 * What the header says of the size was checked against the limit before, so
 * a list of holes is as long as that limit allows.
 */
#include "exchange/tar_int.h"

#include <string.h>

#include "base/err.h"
#include "object/manifest.h"

struct filling {
	struct importer *imp;
	uint64_t size;
	uint64_t at; /* bytes that were taken */
	struct buf chunks;
	struct oid content;
};

static size_t chunk_size(const struct filling *f, uint64_t start)
{
	return (size_t)MIN(f->size - start, (uint64_t)FORMAT_CHUNK_BYTES);
}

/* The chunk that ends at f->at is full. */
static int put_chunk(struct filling *f, size_t n)
{
	struct oid id = {.b = {0}};
	int r = 0;

	if (f->size <= FORMAT_CHUNK_BYTES)
		return import_put(f->imp, OID_BLOB, f->imp->chunk, n,
				  &f->content);
	if (!manifest_is_zero(f->imp->chunk, n))
		r = import_put(f->imp, OID_BLOB, f->imp->chunk, n, &id);
	manifest_add(&f->chunks, &id);
	return r;
}

/* Adds n bytes; data NULL: zeros. */
static int add(struct filling *f, const uint8_t *data, uint64_t n)
{
	const struct oid hole = {.b = {0}};
	int r = 0;

	while (n && r == 0) {
		const size_t used = (size_t)(f->at % FORMAT_CHUNK_BYTES);
		const size_t whole = chunk_size(f, f->at - used);
		const size_t part = (size_t)MIN(whole - used, n);

		f->at += part;
		n -= part;
		if (!data && part == whole && f->size > FORMAT_CHUNK_BYTES) {
			manifest_add(&f->chunks, &hole);
			continue;
		}
		if (data)
			memcpy(f->imp->chunk + used, data, part);
		else
			memset(f->imp->chunk + used, 0, part);
		data += data ? part : 0;
		if (used + part == whole)
			r = put_chunk(f, whole);
	}
	return r;
}

static int take_pieces(struct filling *f, struct tar_stream *s)
{
	const void *data;
	la_int64_t at;
	size_t n;
	int r;

	for (;;) {
		r = archive_read_data_block(s->tar, &data, &n, &at);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return tar_stream_fail(s, f->imp->diag,
					       import_path(f->imp));
		if (!n)
			continue;
		if (at < 0 || (uint64_t)at < f->at || (uint64_t)at > f->size ||
		    n > f->size - (uint64_t)at)
			return import_fail(f->imp, -EFSCORRUPTED);
		r = add(f, NULL, (uint64_t)at - f->at);
		if (r == 0)
			r = add(f, data, n);
		if (r < 0)
			return r;
	}
}

int tar_content(struct importer *imp, struct tar_stream *s, uint64_t size,
		struct oid *ret_content)
{
	struct filling f = {.imp = imp, .size = size};
	int r;

	if (size > FORMAT_CHUNK_BYTES)
		manifest_begin(&f.chunks, size);
	r = take_pieces(&f, s);
	if (r == 0)
		r = add(&f, NULL, size - f.at);
	if (r == 0)
		r = buf_error(&f.chunks);
	if (r == 0 && size > FORMAT_CHUNK_BYTES)
		r = import_put(imp, OID_MANIFEST, f.chunks.data, f.chunks.len,
			       &f.content);
	buf_fini(&f.chunks);
	if (r == 0)
		*ret_content = f.content;
	return r;
}
