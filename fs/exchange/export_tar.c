/* SPDX-License-Identifier: MIT */
/*
 * export_tar.c - the trees of a snapshot, written as one archive.
 *
 * Depth first, names in the order of their bytes: a tree's own order. "./" is
 * the root, all other paths begin with a name. Of names that share an inode the
 * first in this order is the file and the others are links to it.
 *
 * Holes are the chunks that the manifest has no object for, which are those of
 * zeros: a matter of the file's bytes, not of how a disk once held them. The
 * content comes straight from the store, chunk by chunk; nothing is mounted.
 */
#include "exchange/export_tar.h"

#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/hmap.h"
#include "base/io.h"
#include "exchange/pax.h"
#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"

enum { OUT_BYTES = 1 << 20 };

/* The first name of a file with several. */
struct first {
	struct hnode node;
	uint64_t position;
	char path[];
};

struct exporter {
	struct store *store;
	int fd;
	struct diag *diag;
	struct export_result result;
	struct buf out;
	struct buf path;
	struct buf xattrs;
	struct buf manifest;
	struct buf chunk;
	struct pax_extent *extents;
	size_t extent_count;
	size_t extent_cap;
	struct buf link_table;
	struct links links;
	struct hmap firsts;
};

static void exporter_fini(struct exporter *x)
{
	struct hmap_cursor c = {.slot = 0};
	struct hnode *h;

	while ((h = hmap_each(&x->firsts, &c))) {
		hmap_remove(&x->firsts, h);
		free(container_of(h, struct first, node));
	}
	hmap_fini(&x->firsts);
	buf_fini(&x->out);
	buf_fini(&x->path);
	buf_fini(&x->xattrs);
	buf_fini(&x->manifest);
	buf_fini(&x->chunk);
	buf_fini(&x->link_table);
	free(x->extents);
}

/* --- writing ---------------------------------------------------------------
 */

static int flush(struct exporter *x)
{
	int r = buf_error(&x->out);

	if (r < 0)
		return r;
	r = io_write(x->fd, x->out.data, x->out.len);
	if (r < 0)
		return diag_fail(x->diag, r, "archive: %s", err_text(r));
	x->result.bytes += x->out.len;
	buf_clear(&x->out);
	return 0;
}

static int flush_full(struct exporter *x)
{
	return x->out.len < OUT_BYTES ? buf_error(&x->out) : flush(x);
}

/* Says which file an object is missing of. */
static int get(struct exporter *x, const struct oid *id, struct buf *out)
{
	int r;

	buf_clear(out);
	r = store_get(x->store, id, out);
	if (r < 0) {
		const char *path = buf_str(&x->path);

		return diag_fail(x->diag, r, "%s: %s",
				 path && *path ? path : ".", err_text(r));
	}
	return 0;
}

/* --- content ---------------------------------------------------------------
 */

static uint64_t chunk_len(const struct manifest *m, uint64_t i)
{
	return MIN(m->size - (i << FORMAT_CHUNK_SHIFT),
		   (uint64_t)FORMAT_CHUNK_BYTES);
}

/* Runs of chunks that are there; ret_holes: some are not. */
static int find_extents(struct exporter *x, const struct manifest *m,
			bool *ret_holes)
{
	struct pax_extent *last = NULL;

	x->extent_count = 0;
	for (uint64_t i = 0; i < m->count; i++) {
		const struct oid id = manifest_chunk(m, i);
		const uint64_t at = i << FORMAT_CHUNK_SHIFT;

		if (oid_is_null(&id)) {
			*ret_holes = true;
			continue;
		}
		if (!last || last->at + last->len != at) {
			if (GROW(x->extents, x->extent_count, x->extent_cap,
				 16) < 0)
				return -ENOMEM;
			last = &x->extents[x->extent_count++];
			*last = (struct pax_extent){.at = at};
		}
		last->len += chunk_len(m, i);
	}
	return 0;
}

static int put_chunks(struct exporter *x, const struct manifest *m)
{
	uint64_t stored = 0;
	int r = 0;

	for (uint64_t i = 0; i < m->count && r == 0; i++) {
		const struct oid id = manifest_chunk(m, i);

		if (oid_is_null(&id))
			continue;
		r = get(x, &id, &x->chunk);
		if (r == 0 && x->chunk.len != chunk_len(m, i))
			r = -EFSCORRUPTED;
		if (r < 0)
			return r;
		buf_put(&x->out, x->chunk.data, x->chunk.len);
		stored += x->chunk.len;
		r = flush_full(x);
	}
	pax_fill(stored, &x->out);
	return r;
}

static int put_big(struct exporter *x, struct pax_entry *e,
		   const struct oid *content)
{
	/* an empty list is not NULL */
	static const struct pax_extent none;
	struct manifest m = {.count = 0};
	bool holes = false;
	int r = get(x, content, &x->manifest);

	if (r == 0)
		r = manifest_open(x->manifest.data, x->manifest.len, &m);
	if (r == 0)
		r = find_extents(x, &m, &holes);
	if (r < 0)
		return r;
	if (m.size != e->size)
		return -EFSCORRUPTED;
	if (holes) {
		e->extents = x->extent_count ? x->extents : &none;
		e->extent_count = x->extent_count;
	}
	pax_header(e, &x->out);
	return put_chunks(x, &m);
}

static int put_file(struct exporter *x, struct pax_entry *e,
		    const struct oid *content)
{
	int r = 0;

	if (!oid_is_null(content) && oid_kind(content) == OID_MANIFEST)
		return put_big(x, e, content);
	buf_clear(&x->chunk);
	if (!oid_is_null(content))
		r = get(x, content, &x->chunk);
	if (r == 0 && x->chunk.len != e->size)
		r = -EFSCORRUPTED;
	if (r < 0)
		return r;
	pax_header(e, &x->out);
	buf_put(&x->out, x->chunk.data, x->chunk.len);
	pax_fill(x->chunk.len, &x->out);
	return 0;
}

/* --- hard links ------------------------------------------------------------
 */

static int note_first(struct exporter *x, uint64_t position)
{
	struct first *f = malloc(sizeof *f + x->path.len + 1);
	int r;

	if (!f)
		return -ENOMEM;
	f->position = position;
	memcpy(f->path, x->path.data, x->path.len);
	f->path[x->path.len] = '\0';
	r = hmap_insert(&x->firsts, &f->node, hmap_hash_u64(position));
	if (r < 0)
		free(f);
	return r;
}

static const char *find_first(const struct exporter *x, uint64_t position)
{
	struct hnode *h = hmap_first(&x->firsts, hmap_hash_u64(position));

	for (; h; h = hmap_next(h)) {
		const struct first *f = container_of(h, struct first, node);

		if (f->position == position)
			return f->path;
	}
	return NULL;
}

/* Finds the first name of what has several; "": this is it, or the only one. */
static int look_for_first(struct exporter *x, uint64_t position,
			  const char **ret_path)
{
	struct links_entry l;

	*ret_path = "";
	if (!x->links.count || !links_find(&x->links, position, &l))
		return 0;
	if (l.first == position)
		return note_first(x, position);
	*ret_path = find_first(x, l.first);
	return *ret_path ? 0 : -EFSCORRUPTED;
}

/* --- entries ------------------------------------------------------------- */

static int put_dir(struct exporter *x, const struct oid *tree,
		   uint64_t position);

static int put_link(struct exporter *x, struct pax_entry *e,
		    const struct tree_entry *t)
{
	_cleanup_free_ char *target = strndup(t->target, t->target_len);

	if (!target)
		return -ENOMEM;
	e->link = target;
	pax_header(e, &x->out);
	return 0;
}

/* Everything of an entry that stands under its own name. */
static int put_body(struct exporter *x, struct pax_entry *e,
		    const struct tree_entry *t)
{
	int r;

	if (!oid_is_null(&t->xattrs)) {
		r = get(x, &t->xattrs, &x->xattrs);
		if (r < 0)
			return r;
		e->xattrs = x->xattrs.data;
		e->xattrs_len = x->xattrs.len;
	}
	if (S_ISREG(t->mode)) {
		e->size = t->size;
		return put_file(x, e, &t->content);
	}
	if (S_ISLNK(t->mode))
		return put_link(x, e, t);
	pax_header(e, &x->out);
	return 0;
}

static int put_entry(struct exporter *x, const struct tree_entry *t,
		     uint64_t position)
{
	struct pax_entry e = {.mode = t->mode,
			      .uid = t->uid,
			      .gid = t->gid,
			      .rdev = t->rdev,
			      .mtime_sec = t->mtime_sec,
			      .mtime_nsec = t->mtime_nsec};
	const char *first = "";
	int r = 0;

	if (S_ISDIR(t->mode))
		buf_put_u8(&x->path, '/');
	else
		r = look_for_first(x, position, &first);
	e.path = buf_str(&x->path);
	if (r < 0 || !e.path)
		return r < 0 ? r : -ENOMEM;
	if (*first) {
		e.is_hard_link = true;
		e.link = first;
		pax_header(&e, &x->out);
	} else {
		r = put_body(x, &e, t);
	}
	x->result.entries++;
	return r < 0 ? r : flush_full(x);
}

static int put_name(struct exporter *x, const struct tree_entry *t,
		    uint64_t position)
{
	const size_t before = x->path.len;
	int r;

	buf_put(&x->path, t->name, t->name_len);
	r = put_entry(x, t, position);
	if (r == 0 && S_ISDIR(t->mode))
		r = put_dir(x, &t->content, position);
	if (r == 0)
		x->path.len = before;
	return r;
}

static int put_dir(struct exporter *x, const struct oid *tree,
		   uint64_t position)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct tree_entry t;
	struct tree dir;
	int r = get(x, tree, &bytes);

	if (r == 0)
		r = tree_open(bytes.data, bytes.len, &dir);
	for (uint32_t i = 0; r == 0 && i < dir.count; i++) {
		tree_entry_at(&dir, i, &t);
		r = put_name(x, &t, position + t.start);
	}
	return r;
}

static int put_root(struct exporter *x, const struct snap *s)
{
	const struct tree_entry root = {.mode = s->mode,
					.uid = s->uid,
					.gid = s->gid,
					.mtime_sec = s->mtime_sec,
					.mtime_nsec = s->mtime_nsec,
					.xattrs = s->xattrs};
	int r;

	buf_put_u8(&x->path, '.');
	r = put_entry(x, &root, 0);
	buf_clear(&x->path);
	return r < 0 ? r : put_dir(x, &s->tree, 0);
}

static int put_all(struct exporter *x, const struct oid *snapshot)
{
	struct snap s;
	int r = store_get_snap(x->store, snapshot, &s);

	if (r == 0 && !oid_is_null(&s.links))
		r = get(x, &s.links, &x->link_table);
	if (r == 0 && !oid_is_null(&s.links))
		r = links_open(x->link_table.data, x->link_table.len,
			       &x->links);
	if (r == 0)
		r = put_root(x, &s);
	pax_end(&x->out);
	return r < 0 ? r : flush(x);
}

int export_tar(struct store *s, const struct oid *snapshot, int fd,
	       struct diag *diag, struct export_result *ret_result)
{
	_cleanup_(exporter_fini) struct exporter x = {
		.store = s, .fd = fd, .diag = diag};
	const size_t told = diag ? diag->count : 0;
	const char *path;
	int r = put_all(&x, snapshot);

	if (r == 0) {
		*ret_result = x.result;
		return 0;
	}
	path = buf_str(&x.path);
	if (diag && diag->count == told)
		diag_add(diag, "%s: %s", path && *path ? path : ".",
			 err_text(r));
	return r;
}
