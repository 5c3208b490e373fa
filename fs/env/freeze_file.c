/* SPDX-License-Identifier: MIT */
/*
 * How: a file that is the base's content to its last byte keeps that content's
 * name. A small one is read whole. Of a big one each chunk is either known (no
 * own block in it and the base's chunk shows to its end, or nothing but holes)
 * or read: so one byte that changed in a file of a gigabyte costs one chunk.
 */
#include "env/freeze_int.h"

#include "base/err.h"

enum { CHUNK_BLOCKS = FORMAT_CHUNK_BYTES / ENV_BLOCK };

static size_t chunk_size(uint64_t size, uint64_t i)
{
	return (size_t)MIN(size - (i << FORMAT_CHUNK_SHIFT),
			   (uint64_t)FORMAT_CHUNK_BYTES);
}

bool freeze_is_old_content(const struct inode *in)
{
	uint64_t blocks = (in->a.size >> ENV_BLOCK_SHIFT) + 1;
	struct run run;

	if (oid_is_null(&in->content) || in->base_size != in->a.size)
		return false;
	run = map_run(in, 0, blocks);
	return run.kind == RUN_BASE && run.count == blocks;
}

int freeze_known_chunk(const struct inode *in, const struct manifest *old,
		       uint64_t i, struct oid *ret_chunk)
{
	uint64_t at = i << FORMAT_CHUNK_SHIFT;
	size_t n = chunk_size(in->a.size, i);
	uint64_t blocks = (n + ENV_BLOCK - 1) >> ENV_BLOCK_SHIFT;
	struct run run = map_run(in, at >> ENV_BLOCK_SHIFT, blocks);

	if (run.count < blocks || run.kind == RUN_DATA)
		return 0;
	*ret_chunk = (struct oid){.b = {0}};
	if (run.kind == RUN_HOLE || in->base_size <= at)
		return 1;
	if (!old || in->base_size < at + n || old->size <= at ||
	    chunk_size(old->size, i) != n)
		return 0;
	*ret_chunk = manifest_chunk(old, i);
	return 1;
}

static int read_chunk(struct freeze *f, uint64_t ino, uint64_t at, size_t n)
{
	ssize_t got = file_read_locked(f->e, ino, f->chunk, n, at);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : -EIO;
}

static int put_chunk(struct freeze *f, const struct inode *in,
		     const struct manifest *old, uint64_t i,
		     struct oid *ret_chunk)
{
	size_t n = chunk_size(in->a.size, i);
	int r;

	if (freeze_known_chunk(in, old, i, ret_chunk))
		return 0;
	r = read_chunk(f, in->a.ino, i << FORMAT_CHUNK_SHIFT, n);
	if (r < 0 || manifest_is_zero(f->chunk, n)) {
		*ret_chunk = (struct oid){.b = {0}};
		return r;
	}
	return batch_put(f->batch, OID_BLOB, f->chunk, n, ret_chunk);
}

static int put_big(struct freeze *f, const struct inode *in,
		   struct oid *ret_content)
{
	uint64_t count =
		(in->a.size + FORMAT_CHUNK_BYTES - 1) >> FORMAT_CHUNK_SHIFT;
	_cleanup_buf_ struct buf out = {0};
	struct object *o = NULL;
	struct oid chunk;
	int r = 0;

	if (!oid_is_null(&in->content) &&
	    oid_kind(&in->content) == OID_MANIFEST)
		r = base_object(&f->e->base, &in->content, &o);
	manifest_begin(&out, in->a.size);
	for (uint64_t i = 0; i < count && r >= 0; i++) {
		r = put_chunk(f, in, o ? &o->manifest : NULL, i, &chunk);
		manifest_add(&out, &chunk);
	}
	base_unpin(&f->e->base, o);
	if (r >= 0)
		r = buf_error(&out);
	return r < 0 ? r
		     : batch_put(f->batch, OID_MANIFEST, out.data, out.len,
				 ret_content);
}

int freeze_content(struct freeze *f, const struct iattr *a,
		   struct oid *ret_content)
{
	const struct inode *in = itable_find(f->e, a->ino);
	struct base_node n;
	int r;

	*ret_content = (struct oid){.b = {0}};
	if (!a->size)
		return 0;
	if (!in || freeze_is_old_content(in)) {
		r = base_find(&f->e->base, a->ino, &n);
		if (r < 0)
			return r;
		if (n.size == a->size) {
			*ret_content = n.content;
			return 0;
		}
		if (!in)
			return -EFSCORRUPTED;
	}
	f->result->files++;
	if (a->size > FORMAT_MAX_FILE)
		return -EFBIG;
	if (a->size > FORMAT_CHUNK_BYTES)
		return put_big(f, in, ret_content);
	r = read_chunk(f, a->ino, 0, (size_t)a->size);
	return r < 0 ? r
		     : batch_put(f->batch, OID_BLOB, f->chunk, (size_t)a->size,
				 ret_content);
}
