/* SPDX-License-Identifier: MIT */
/*
 * snapdiff.c - two trees are merged by name, and entered where both are
 * directories with other trees, or where there is one on one side alone.
 *
 * Positions (`start`) are no part of what an entry is: they move when
 * something comes before it.
 */
#include "exchange/snapdiff.h"

#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "object/format.h"
#include "object/snap.h"
#include "object/tree.h"

struct walk {
	struct store *store;
	snapdiff_fn fn;
	void *ctx;
	struct buf path;
	unsigned depth;
};

struct opened {
	struct buf bytes;
	struct tree tree;
};

static void opened_fini(struct opened *o)
{
	buf_fini(&o->bytes);
}

/* A null name is an empty directory. */
static int open_tree(struct walk *w, const struct oid *id, struct opened *o)
{
	int r;

	if (oid_is_null(id))
		return 0;
	r = store_get(w->store, id, &o->bytes);
	return r < 0 ? r : tree_open(o->bytes.data, o->bytes.len, &o->tree);
}

static int name_compare(const struct tree_entry *a, const struct tree_entry *b)
{
	const int c = memcmp(a->name, b->name, MIN(a->name_len, b->name_len));

	return c ? c : (int)a->name_len - (int)b->name_len;
}

/* Whether both are the same but for what is below a directory. */
static bool is_same(const struct tree_entry *a, const struct tree_entry *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->rdev == b->rdev && a->mtime_sec == b->mtime_sec &&
	       a->mtime_nsec == b->mtime_nsec &&
	       oid_equal(&a->xattrs, &b->xattrs) &&
	       a->target_len == b->target_len &&
	       (!a->target_len ||
		!memcmp(a->target, b->target, a->target_len)) &&
	       (S_ISDIR(a->mode) ||
		(a->size == b->size && oid_equal(&a->content, &b->content)));
}

static int walk_trees(struct walk *w, const struct oid *old,
		      const struct oid *now);

/* One name: either side may be missing. */
static int walk_name(struct walk *w, const struct tree_entry *old,
		     const struct tree_entry *now)
{
	static const struct oid none;
	const struct tree_entry *e = old ? old : now;
	const struct oid *a = old && S_ISDIR(old->mode) ? &old->content : &none;
	const struct oid *b = now && S_ISDIR(now->mode) ? &now->content : &none;
	const size_t len = w->path.len;
	int r = 0;

	if (len)
		buf_put_u8(&w->path, '/');
	buf_put(&w->path, e->name, e->name_len);
	r = buf_str(&w->path) ? 0 : -ENOMEM;
	if (r == 0 && (!old || !now || !is_same(old, now)))
		r = w->fn(w->ctx, buf_str(&w->path), w->path.len);
	if (r >= 0 && !oid_equal(a, b))
		r = walk_trees(w, a, b);
	w->path.len = len;
	return r < 0 ? r : 0;
}

static int walk_trees(struct walk *w, const struct oid *old,
		      const struct oid *now)
{
	_cleanup_(opened_fini) struct opened a = {0}, b = {0};
	uint32_t i = 0, j = 0;
	int r = w->depth < FORMAT_MAX_DEPTH ? 0 : -EFSCORRUPTED;

	w->depth++;
	if (r == 0)
		r = open_tree(w, old, &a);
	if (r == 0)
		r = open_tree(w, now, &b);
	while (r == 0 && (i < a.tree.count || j < b.tree.count)) {
		struct tree_entry x, y;
		int c = i < a.tree.count ? -1 : 1;

		if (i < a.tree.count)
			tree_entry_at(&a.tree, i, &x);
		if (j < b.tree.count)
			tree_entry_at(&b.tree, j, &y);
		if (i < a.tree.count && j < b.tree.count)
			c = name_compare(&x, &y);
		i += c <= 0;
		j += c >= 0;
		r = walk_name(w, c <= 0 ? &x : NULL, c >= 0 ? &y : NULL);
	}
	w->depth--;
	return r;
}

int snapdiff_walk(struct store *s, const struct oid *old, const struct oid *now,
		  snapdiff_fn fn, void *ctx)
{
	struct walk w = {.store = s, .fn = fn, .ctx = ctx};
	struct snap a, b;
	int r = 0;

	if (oid_equal(old, now))
		return 0;
	r = store_get_snap(s, old, &a);
	if (r == 0)
		r = store_get_snap(s, now, &b);
	if (r != 0)
		return r;
	if (a.mode != b.mode || a.uid != b.uid || a.gid != b.gid ||
	    a.mtime_sec != b.mtime_sec || a.mtime_nsec != b.mtime_nsec ||
	    !oid_equal(&a.xattrs, &b.xattrs))
		r = fn(ctx, "", 0);
	if (r >= 0 && !oid_equal(&a.tree, &b.tree))
		r = walk_trees(&w, &a.tree, &b.tree);
	buf_fini(&w.path);
	return r < 0 ? r : 0;
}
