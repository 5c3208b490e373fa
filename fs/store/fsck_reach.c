/* SPDX-License-Identifier: MIT */
/*
 * How: two walks. The first goes once through every object that snapshots
 * reach, children first, and notes for each whether it or something below it
 * is lost; what several trees share is looked at once. It also compares what
 * an entry says of a directory with the directory. The second is made only
 * where something is lost: from each such snapshot down into the trees that
 * are concerned, with the path at hand.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"

enum {
	DEPTH_MAX = 12000, /* of the walks: a stack of 8 MiB holds it */
	PATHS_MAX = 1000,  /* of one snapshot; the others are counted */
};

/* Reads an object that is whole, as far as a check knows. */
static int read_object(const struct fsck *f, const struct fsck_object *o,
		       struct buf *out)
{
	int r;

	buf_clear(out);
	r = buf_reserve(out, oid_length(&o->id) + 1);
	if (r == 0)
		r = segment_read(f->store->segments, &o->place, &o->id,
				 out->data);
	out->len = r < 0 ? 0 : oid_length(&o->id);
	return r;
}

/* --- the first walk ------------------------------------------------------ */

static int visit(struct fsck *f, const struct oid *id, unsigned depth,
		 bool *ret_tainted);

static int visit_child(struct fsck *f, const struct oid *id, unsigned depth,
		       bool *tainted)
{
	bool child = false;
	int r = oid_is_null(id) ? 0 : visit(f, id, depth + 1, &child);

	*tainted |= child;
	return r;
}

static int visit_manifest(struct fsck *f, const struct fsck_object *o,
			  const struct buf *b, bool *tainted)
{
	struct manifest m = {0};
	int r = manifest_open(b->data, b->len, &m);

	for (uint64_t i = 0; r == 0 && i < m.count; i++) {
		const struct oid id = manifest_chunk(&m, i);
		const struct fsck_object *chunk;
		char what[FSCK_TEXT_BYTES];

		r = visit_child(f, &id, 0, tainted);
		chunk = oid_is_null(&id) ? NULL : fsck_find(f, &id);
		if (!chunk || !(chunk->state & OBJECT_ZERO))
			continue;
		fsck_describe(&o->id, what);
		fsck_damaged(f, "O5", what, &o->id,
			     "chunk %llu is zeros and not a hole",
			     (unsigned long long)i);
	}
	return r;
}

/* What an entry says of the directory that it stands for. */
static int check_facts(struct fsck *f, const struct fsck_object *o,
		       const struct oid *tree, uint64_t subdirs, uint64_t total)
{
	const struct fsck_object *t = fsck_find(f, tree);
	_cleanup_buf_ struct buf b = {0};
	char what[FSCK_TEXT_BYTES];
	struct tree child = {0};
	int r;

	if (!t || fsck_is_lost(t))
		return 0;
	r = read_object(f, t, &b);
	if (r == 0)
		r = tree_open(b.data, b.len, &child);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || (child.subdirs == subdirs && child.total == total))
		return 0;
	fsck_describe(&o->id, what);
	fsck_damaged(f, oid_kind(&o->id) == OID_SNAP ? "O13" : "O3", what,
		     &o->id, "it has other counts of a directory than that");
	return 0;
}

static int visit_tree(struct fsck *f, const struct fsck_object *o,
		      const struct buf *b, unsigned depth, bool *tainted)
{
	struct tree t = {0};
	int r = tree_open(b->data, b->len, &t);

	for (uint32_t i = 0; r == 0 && i < t.count; i++) {
		struct tree_entry e;

		tree_entry_at(&t, i, &e);
		r = visit_child(f, &e.content, depth, tainted);
		if (r == 0)
			r = visit_child(f, &e.xattrs, depth, tainted);
		if (r == 0 && S_ISDIR(e.mode))
			r = check_facts(f, o, &e.content, e.size, e.below);
	}
	return r;
}

static int check_links(struct fsck *f, const struct fsck_object *o,
		       const struct snap *s);

static int visit_snap(struct fsck *f, const struct fsck_object *o,
		      const struct buf *b, bool *tainted)
{
	struct snap s = {0};
	int r = snap_decode(b->data, b->len, &s);

	if (r == 0)
		r = visit_child(f, &s.tree, 0, tainted);
	if (r == 0)
		r = visit_child(f, &s.xattrs, 0, tainted);
	if (r == 0)
		r = visit_child(f, &s.links, 0, tainted);
	if (r == 0)
		r = check_facts(f, o, &s.tree, s.subdirs, s.total);
	if (r == 0 && !*tainted && !oid_is_null(&s.links))
		r = check_links(f, o, &s);
	return r;
}

/* Looks into an object that is whole. */
static int visit_inside(struct fsck *f, const struct fsck_object *o,
			unsigned depth, bool *tainted)
{
	const enum oid_kind kind = oid_kind(&o->id);
	_cleanup_buf_ struct buf b = {0};
	int r;

	if (kind != OID_TREE && kind != OID_MANIFEST && kind != OID_SNAP)
		return 0;
	if (depth > DEPTH_MAX)
		return -ELOOP;
	r = read_object(f, o, &b);
	if (r < 0)
		return r;
	if (kind == OID_MANIFEST)
		return visit_manifest(f, o, &b, tainted);
	return kind == OID_TREE ? visit_tree(f, o, &b, depth, tainted)
				: visit_snap(f, o, &b, tainted);
}

static int visit(struct fsck *f, const struct oid *id, unsigned depth,
		 bool *ret_tainted)
{
	struct fsck_object *o = fsck_need(f, id);
	char what[FSCK_TEXT_BYTES];
	bool tainted = false;
	int r = 0;

	if (!o)
		return -ENOMEM;
	if (o->state & OBJECT_VISITED) {
		*ret_tainted = o->state & OBJECT_TAINTED;
		return 0;
	}
	fsck_describe(id, what);
	if (!(o->state & OBJECT_ROW)) {
		fsck_damaged(f, "S16", what, id, "the index does not have it");
		tainted = true;
	} else if (fsck_is_lost(o)) {
		tainted = true;
	} else {
		r = visit_inside(f, o, depth, &tainted);
		if (r == -EFSCORRUPTED || r == -EFSBADCRC || r == -ELOOP) {
			fsck_damaged(f, "S6", what, id, "it cannot be read");
			o->state |= OBJECT_BAD;
			tainted = true;
			r = 0;
		}
	}
	o->state |= OBJECT_VISITED | (tainted ? OBJECT_TAINTED : 0);
	*ret_tainted = tainted;
	return r;
}

/* --- hard links ---------------------------------------------------------- */

struct located {
	struct buf tree; /* what entry points into */
	struct tree_entry entry;
};

/* Finds the entry at a position of the snapshot; -ENOENT. */
static int locate(const struct fsck *f, const struct snap *s, uint64_t position,
		  struct located *l)
{
	struct oid id = s->tree;

	for (;;) {
		const struct fsck_object *o = fsck_find(f, &id);
		struct tree t = {0};
		uint32_t i = 0;
		int r = o ? read_object(f, o, &l->tree) : -ENOENT;

		if (r == 0)
			r = tree_open(l->tree.data, l->tree.len, &t);
		if (r == 0)
			r = tree_find_start(&t, position, &i);
		if (r < 0)
			return r;
		tree_entry_at(&t, i, &l->entry);
		if (l->entry.start == position)
			return 0;
		if (!S_ISDIR(l->entry.mode))
			return -ENOENT;
		position -= l->entry.start;
		id = l->entry.content;
	}
}

static bool is_same(const struct tree_entry *a, const struct tree_entry *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->rdev == b->rdev && a->mtime_sec == b->mtime_sec &&
	       a->mtime_nsec == b->mtime_nsec && a->size == b->size &&
	       oid_equal(&a->content, &b->content) &&
	       oid_equal(&a->xattrs, &b->xattrs) &&
	       a->target_len == b->target_len &&
	       (a->target_len == 0 ||
		memcmp(a->target, b->target, a->target_len) == 0);
}

static int check_member(const struct fsck *f, const struct snap *s,
			const struct links_entry *e, bool *ret_same)
{
	struct located a = {0}, b = {0};
	int r = locate(f, s, e->position, &a);

	if (r == 0)
		r = locate(f, s, e->first, &b);
	*ret_same =
		r == 0 && is_same(&a.entry, &b.entry) && !S_ISDIR(a.entry.mode);
	buf_fini(&a.tree);
	buf_fini(&b.tree);
	return r == -ENOENT ? 0 : r;
}

static int check_links(struct fsck *f, const struct fsck_object *o,
		       const struct snap *s)
{
	const struct fsck_object *table = fsck_find(f, &s->links);
	_cleanup_buf_ struct buf b = {0};
	char what[FSCK_TEXT_BYTES];
	struct links l = {0};
	int r = table ? read_object(f, table, &b) : -EFSCORRUPTED;

	if (r == 0)
		r = links_open(b.data, b.len, &l);
	for (uint64_t i = 0; r == 0 && i < l.count; i++) {
		struct links_entry e;
		bool same = true;

		links_at(&l, i, &e);
		if (e.position != e.first)
			r = check_member(f, s, &e, &same);
		if (r < 0 || same)
			continue;
		fsck_describe(&o->id, what);
		fsck_damaged(f, "O12", what, &o->id,
			     "two names of one file differ: positions %llu "
			     "and %llu",
			     (unsigned long long)e.position,
			     (unsigned long long)e.first);
		break;
	}
	return r;
}

/* --- the second walk ----------------------------------------------------- */

struct hits {
	struct fsck *f;
	const struct oid *snapshot;
	struct buf path;
	size_t told, more;
};

static void tell_hit(struct hits *h, const char *text, const struct oid *object)
{
	if (h->told >= PATHS_MAX) {
		h->more++;
		return;
	}
	h->told++;
	fsck_tell(h->f,
		  &(struct fsck_finding){.kind = FSCK_HIT,
					 .rule = "",
					 .where = "",
					 .text = text,
					 .object = object,
					 .snapshot = h->snapshot,
					 .path = (const char *)h->path.data,
					 .path_len = h->path.len});
}

static bool is_tainted(const struct fsck *f, const struct oid *id)
{
	const struct fsck_object *o = oid_is_null(id) ? NULL : fsck_find(f, id);

	return o && o->state & OBJECT_TAINTED;
}

static int hit_tree(struct hits *h, const struct oid *id, unsigned depth);

static int hit_entry(struct hits *h, const struct tree_entry *e, unsigned depth)
{
	const size_t before = h->path.len;
	int r;

	if (before > 0)
		buf_put_u8(&h->path, '/');
	buf_put(&h->path, e->name, e->name_len);
	r = buf_error(&h->path);
	if (r == 0 && is_tainted(h->f, &e->xattrs))
		tell_hit(h, "its attributes are lost", &e->xattrs);
	if (r == 0 && is_tainted(h->f, &e->content)) {
		if (S_ISDIR(e->mode))
			r = hit_tree(h, &e->content, depth + 1);
		else
			tell_hit(h, "content is lost", &e->content);
	}
	h->path.len = before;
	return r;
}

static int hit_tree(struct hits *h, const struct oid *id, unsigned depth)
{
	const struct fsck_object *o = fsck_find(h->f, id);
	_cleanup_buf_ struct buf b = {0};
	struct tree t = {0};
	int r;

	if (!o || fsck_is_lost(o) || depth > DEPTH_MAX) {
		tell_hit(h, "the directory is lost", id);
		return 0;
	}
	r = read_object(h->f, o, &b);
	if (r == 0)
		r = tree_open(b.data, b.len, &t);
	for (uint32_t i = 0; r == 0 && i < t.count; i++) {
		struct tree_entry e;

		tree_entry_at(&t, i, &e);
		if (is_tainted(h->f, &e.content) || is_tainted(h->f, &e.xattrs))
			r = hit_entry(h, &e, depth);
	}
	return r;
}

static int hit_snapshot(struct fsck *f, const struct oid *id)
{
	const struct fsck_object *o = fsck_find(f, id);
	struct hits h = {.f = f, .snapshot = id};
	_cleanup_buf_ struct buf b = {0};
	struct snap s = {0};
	char hex[OID_HEX + 1];
	int r = 0;

	if (!o || fsck_is_lost(o)) {
		tell_hit(&h, "the snapshot itself is lost", id);
		return 0;
	}
	r = read_object(f, o, &b);
	if (r == 0)
		r = snap_decode(b.data, b.len, &s);
	if (r == 0 && is_tainted(f, &s.xattrs))
		tell_hit(&h, "the root's attributes are lost", &s.xattrs);
	if (r == 0 && is_tainted(f, &s.links))
		tell_hit(&h, "the table of hard links is lost", &s.links);
	if (r == 0 && is_tainted(f, &s.tree))
		r = hit_tree(&h, &s.tree, 0);
	oid_to_hex(id, hex);
	if (h.more > 0)
		fsck_say(f, FSCK_NOTE, hex, "and %zu more paths", h.more);
	buf_fini(&h.path);
	return r;
}

int fsck_check_root(struct fsck *f, const struct oid *id)
{
	const struct fsck_object *o = f->store ? fsck_find(f, id) : NULL;
	const bool known = o && o->state & OBJECT_VISITED;
	bool tainted = false;
	int r;

	/* Imported since the rows were read: not part of this check. */
	if (!f->store || (!o && store_has(f->store, id) > 0))
		return 0;
	r = visit(f, id, 0, &tainted);

	/* Told already, when it is a snapshot with a row. */
	if (r == 0 && tainted && !known)
		r = hit_snapshot(f, id);
	return r < 0 ? r : tainted;
}

int fsck_reach_check(struct fsck *f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->snapshots.len;
	     i += sizeof(struct fsck_snapshot)) {
		struct fsck_snapshot s;

		memcpy(&s, f->snapshots.data + i, sizeof s);
		r = fsck_check_root(f, &s.id);
		r = MIN(r, 0);
	}
	return r < 0 ? r : fsck_rescues_reach(f);
}
