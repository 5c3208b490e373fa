/* SPDX-License-Identifier: MIT */
/*
 * compose.c - several snapshots become one.
 *
 * How: the parts are sorted as trees are, component by component, so that
 * those below one directory stand side by side and a directory is made by one
 * pass over them. A part is an entry that names the tree it had. Only its hard
 * links have to be copied, as their table has positions in the whole snapshot:
 * each moves by the position that the part got.
 *
 * Directories get the newest time of what is in them: a time of their own would
 * make another snapshot each time.
 */
#include "exchange/compose.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/name.h"
#include "object/links.h"
#include "object/snap.h"
#include "object/tree.h"

struct composing {
	struct store *store;
	struct batch *batch;
	struct compose_part *parts;
	struct snap *snaps; /* of the parts */
	struct buf links;   /* struct links_entry each */
};

static int compare(const void *a, const void *b)
{
	return name_compare_paths(((const struct compose_part *)a)->path,
				  ((const struct compose_part *)b)->path);
}

/* --- hard links ---------------------------------------------------------- */

static int add_links(struct composing *c, const struct snap *snap,
		     uint64_t position)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct links_entry e;
	struct links links;
	int r;

	if (oid_is_null(&snap->links))
		return 0;
	r = store_get(c->store, &snap->links, &bytes);
	if (r == 0)
		r = links_open(bytes.data, bytes.len, &links);
	for (uint64_t i = 0; r == 0 && i < links.count; i++) {
		links_at(&links, i, &e);
		e.position += position;
		e.first += position;
		buf_put(&c->links, &e, sizeof e);
	}
	return r < 0 ? r : buf_error(&c->links);
}

/* Parts come in the order of their positions, so the table is sorted. */
static int put_links(struct composing *c, struct oid *ret_id)
{
	_cleanup_buf_ struct buf bytes = {0};
	const uint64_t count = c->links.len / sizeof(struct links_entry);
	struct links_entry e;

	*ret_id = (struct oid){.b = {0}};
	if (!count)
		return 0;
	links_begin(&bytes, count);
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&e, c->links.data + i * sizeof e, sizeof e);
		links_add(&bytes, &e);
	}
	if (buf_error(&bytes))
		return -ENOMEM;
	return batch_put(c->batch, OID_LINKS, bytes.data, bytes.len, ret_id);
}

/* --- directories --------------------------------------------------------- */

struct range {
	size_t from, to;   /* of parts, sorted */
	size_t skip;	   /* bytes of their paths that lead here */
	uint64_t position; /* of the directory, in the whole */
};

static int make_dir(struct composing *c, const struct range *g,
		    struct tree_entry *ret);

static void take_time(struct tree_entry *dir, const struct tree_entry *e)
{
	if (e->mtime_sec < dir->mtime_sec ||
	    (e->mtime_sec == dir->mtime_sec && e->mtime_nsec < dir->mtime_nsec))
		return;
	dir->mtime_sec = e->mtime_sec;
	dir->mtime_nsec = e->mtime_nsec;
}

static int take_part(struct composing *c, size_t i, uint64_t position,
		     struct tree_entry *e)
{
	const struct snap *s = &c->snaps[i];

	e->mode = s->mode;
	e->uid = s->uid;
	e->gid = s->gid;
	e->mtime_sec = s->mtime_sec;
	e->mtime_nsec = s->mtime_nsec;
	e->size = s->subdirs;
	e->below = s->total;
	e->content = s->tree;
	e->xattrs = s->xattrs;
	return add_links(c, s, position);
}

/* Adds the entry that the parts from g->from on share; moves g->from on. */
static int add_entry(struct composing *c, struct range *g,
		     struct tree_builder *b, struct tree_entry *dir)
{
	const char *name = c->parts[g->from].path + g->skip;
	const size_t n = strcspn(name, "/");
	struct tree_entry e = {.name = name, .name_len = (uint16_t)n};
	const uint64_t position = g->position + b->total + 1;
	size_t to = g->from + 1;
	int r;

	if (!name_is_component(name, n))
		return -EINVAL;
	while (to < g->to && !strncmp(c->parts[to].path + g->skip, name, n) &&
	       (!c->parts[to].path[g->skip + n] ||
		c->parts[to].path[g->skip + n] == '/'))
		to++;
	if (name[n])
		r = make_dir(
			c,
			&(struct range){g->from, to, g->skip + n + 1, position},
			&e);
	else if (to - g->from > 1)
		r = -EINVAL; /* one lies below another */
	else
		r = take_part(c, g->from, position, &e);
	if (r == 0)
		r = tree_builder_add(b, &e);
	if (r < 0)
		return r;
	take_time(dir, &e);
	g->from = to;
	return 0;
}

static int make_dir(struct composing *c, const struct range *g,
		    struct tree_entry *ret)
{
	_cleanup_(tree_builder_fini) struct tree_builder b = {.count = 0};
	_cleanup_buf_ struct buf bytes = {0};
	struct range left = *g;
	int r = 0;

	ret->mode = S_IFDIR | 0755;
	while (r == 0 && left.from < left.to)
		r = add_entry(c, &left, &b, ret);
	if (r < 0)
		return r;
	ret->size = b.subdirs;
	ret->below = b.total;
	r = tree_builder_finish(&b, &bytes);
	if (r < 0)
		return r;
	return batch_put(c->batch, OID_TREE, bytes.data, bytes.len,
			 &ret->content);
}

/* --- the whole ----------------------------------------------------------- */

static int make_snapshot(struct composing *c, size_t count, struct oid *ret_id)
{
	struct tree_entry root = {.mtime_sec = 0};
	_cleanup_buf_ struct buf bytes = {0};
	struct snap s = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = store_get_snap(c->store, &c->parts[i].id, &c->snaps[i]);
	if (r == 0)
		r = make_dir(c, &(struct range){.to = count}, &root);
	if (r < 0)
		return r;
	s = (struct snap){.mode = root.mode,
			  .mtime_sec = root.mtime_sec,
			  .mtime_nsec = root.mtime_nsec,
			  .subdirs = (uint32_t)root.size,
			  .total = root.below,
			  .tree = root.content};
	r = put_links(c, &s.links);
	if (r < 0)
		return r;
	snap_encode(&s, &bytes);
	if (buf_error(&bytes))
		return -ENOMEM;
	return batch_put(c->batch, OID_SNAP, bytes.data, bytes.len, ret_id);
}

int compose(struct store *s, struct compose_part *parts, size_t count,
	    struct oid *ret_id)
{
	struct composing c = {.store = s, .parts = parts};
	int r = batch_begin(s, &c.batch);

	if (r < 0)
		return r;
	qsort(parts, count, sizeof *parts, compare);
	c.snaps = calloc(count + 1, sizeof *c.snaps);
	r = c.snaps ? make_snapshot(&c, count, ret_id) : -ENOMEM;
	/* What is there already needs no commit, which would sync. */
	if (r == 0 && batch_bytes_written(c.batch))
		r = batch_commit(TAKE_PTR(c.batch), NULL, NULL);
	batch_abort(c.batch);
	buf_fini(&c.links);
	free(c.snaps);
	return r;
}
