/* SPDX-License-Identifier: MIT */
/*
 * import_graft.c - a file in trees that are stored already gets other bytes.
 *
 * Some content depends on the place of everything else, and is made when the
 * walk is over. The trees on the way from the root are then stored anew; as
 * no inode comes or goes, all positions stay. What they replace is named by
 * nothing and goes with the next gc.
 */
#include "exchange/import_int.h"

#include <string.h>

#include "base/err.h"
#include "object/manifest.h"

/* --- content ------------------------------------------------------------ */

static int get_object(void *from, const struct oid *id, struct buf *out)
{
	return batch_get(from, id, out);
}

int import_content(struct importer *imp, const struct tree_entry *e,
		   content_bytes_fn fn, void *ctx)
{
	return content_read(&e->content, get_object, imp->batch, fn, ctx);
}

static int append(void *ctx, const void *data, size_t len)
{
	buf_put(ctx, data, len);
	return buf_error(ctx);
}

int import_content_get(struct importer *imp, const struct tree_entry *e,
		       size_t max, struct buf *out)
{
	if (e->size > max)
		return -EFBIG;
	return import_content(imp, e, append, out);
}

static int put_chunks(struct importer *imp, const uint8_t *data, size_t len,
		      struct oid *ret_id)
{
	_cleanup_buf_ struct buf chunks = {0};
	int r = 0;

	manifest_begin(&chunks, len);
	for (size_t at = 0; at < len && r == 0; at += FORMAT_CHUNK_BYTES) {
		size_t n = MIN(len - at, (size_t)FORMAT_CHUNK_BYTES);
		struct oid id = {.b = {0}};

		if (!manifest_is_zero(data + at, n))
			r = import_put(imp, OID_BLOB, data + at, n, &id);
		manifest_add(&chunks, &id);
	}
	if (r == 0)
		r = buf_error(&chunks);
	if (r < 0)
		return r;
	return import_put(imp, OID_MANIFEST, chunks.data, chunks.len, ret_id);
}

int import_content_put(struct importer *imp, const void *data, size_t len,
		       struct tree_entry *e)
{
	e->size = len;
	e->content = (struct oid){.b = {0}};
	if (!len)
		return 0;
	if (len > FORMAT_CHUNK_BYTES)
		return put_chunks(imp, data, len, &e->content);
	return import_put(imp, OID_BLOB, data, len, &e->content);
}

/* --- looking ------------------------------------------------------------ */

int import_tree_get(struct importer *imp, const struct oid *id,
		    struct import_tree *ret_tree)
{
	int r;

	buf_clear(&ret_tree->bytes);
	r = batch_get(imp->batch, id, &ret_tree->bytes);
	if (r < 0)
		return r;
	return tree_open(ret_tree->bytes.data, ret_tree->bytes.len,
			 &ret_tree->tree);
}

int import_graft_find(struct importer *imp, const struct oid *root,
		      const char *path, struct import_tree *tree,
		      struct tree_entry *ret_entry)
{
	struct oid id = *root;
	uint64_t position = 0;
	uint32_t i = 0;
	int r;

	for (;;) {
		const size_t n = strcspn(path, "/");

		r = import_tree_get(imp, &id, tree);
		if (r == 0)
			r = tree_lookup(&tree->tree, path, n, &i);
		if (r < 0)
			return r;
		tree_entry_at(&tree->tree, i, ret_entry);
		position += ret_entry->start;
		ret_entry->start = position;
		if (!path[n])
			return 0;
		if (!S_ISDIR(ret_entry->mode))
			return -ENOENT;
		id = ret_entry->content;
		path += n + 1;
	}
}

/* --- changing ----------------------------------------------------------- */

int import_graft(struct importer *imp, struct oid *root, const char *path,
		 const struct tree_entry *file)
{
	_cleanup_(tree_builder_fini) struct tree_builder b = {.count = 0};
	_cleanup_buf_ struct buf bytes = {0}, made = {0};
	const size_t n = strcspn(path, "/");
	struct tree_entry e;
	struct tree t;
	uint32_t at = 0;
	int r;

	r = batch_get(imp->batch, root, &bytes);
	if (r == 0)
		r = tree_open(bytes.data, bytes.len, &t);
	if (r == 0)
		r = tree_lookup(&t, path, n, &at);
	for (uint32_t i = 0; r == 0 && i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		if (i == at && path[n]) {
			r = import_graft(imp, &e.content, path + n + 1, file);
		} else if (i == at) {
			e.content = file->content;
			e.size = file->size;
			e.mtime_sec = file->mtime_sec;
			e.mtime_nsec = file->mtime_nsec;
		}
		if (r == 0)
			r = tree_builder_add(&b, &e);
	}
	if (r == 0)
		r = tree_builder_finish(&b, &made);
	if (r < 0)
		return r;
	return import_put(imp, OID_TREE, made.data, made.len, root);
}
