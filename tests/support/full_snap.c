/* SPDX-License-Identifier: MIT */
/*
 * How: by the calls that answer the kernel alone, depth first.
 */
#include "full_snap.h"

#include "test.h"

#include <sys/stat.h>

#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"
#include "object/xset.h"

enum { MOST_LINKS = 8192, MOST_XATTRS = 64, LIST_BYTES = 1 << 16 };

struct full {
	struct env *e;
	struct batch *b;
	uint64_t positions[MOST_LINKS], inos[MOST_LINKS];
	size_t links;
};

struct name {
	char name[256];
	struct env_attr a;
};

struct list {
	struct name *v;
	size_t n;
};

static struct oid put(struct full *f, enum oid_kind kind, const void *data,
		      size_t len)
{
	struct oid id;

	assert_ok(batch_put(f->b, kind, data, len, &id));
	return id;
}

static struct oid content(struct full *f, const struct env_attr *a)
{
	_cleanup_free_ uint8_t *data = malloc(a->size + 1);
	_cleanup_buf_ struct buf m = {0};
	struct oid id = {0};

	assert_int_equal(env_read(f->e, a->ino, data, a->size + 1, 0), a->size);
	if (!a->size)
		return id;
	if (a->size <= FORMAT_CHUNK_BYTES)
		return put(f, OID_BLOB, data, a->size);
	manifest_begin(&m, a->size);
	for (uint64_t at = 0; at < a->size; at += FORMAT_CHUNK_BYTES) {
		size_t n = MIN((uint64_t)FORMAT_CHUNK_BYTES, a->size - at);

		id = (struct oid){0};
		if (!manifest_is_zero(data + at, n))
			id = put(f, OID_BLOB, data + at, n);
		manifest_add(&m, &id);
	}
	return put(f, OID_MANIFEST, m.data, m.len);
}

static struct oid xattrs(struct full *f, uint64_t ino)
{
	_cleanup_free_ char *list = malloc(LIST_BYTES);
	struct xset_pair pairs[MOST_XATTRS];
	_cleanup_buf_ struct buf out = {0};
	ssize_t n = env_listxattr(f->e, ino, list, LIST_BYTES);
	struct oid id = {0};
	uint32_t count = 0;

	assert_true(n >= 0);
	for (char *p = list; p < list + n; p += strlen(p) + 1) {
		ssize_t len = env_getxattr(f->e, ino, p, NULL, 0);
		uint8_t *value = malloc((size_t)len + 1);

		assert_int_equal(
			env_getxattr(f->e, ino, p, value, (size_t)len + 1),
			len);
		assert_true(count < MOST_XATTRS);
		pairs[count++] =
			(struct xset_pair){p, strlen(p), value, (size_t)len};
	}
	if (!count)
		return id;
	assert_ok(xset_encode(pairs, count, &out));
	for (uint32_t i = 0; i < count; i++)
		free((void *)(uintptr_t)pairs[i].value);
	return put(f, OID_XSET, out.data, out.len);
}

static bool add_name(void *ctx, const char *name, size_t len,
		     const struct env_attr *a, uint64_t next)
{
	struct list *l = ctx;

	l->v = realloc(l->v, (l->n + 1) * sizeof *l->v);
	memset(&l->v[l->n], 0, sizeof l->v[l->n]);
	memcpy(l->v[l->n].name, name, len);
	l->v[l->n++].a = *a;
	return true;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->name,
		      ((const struct name *)b)->name);
}

static void fill(struct full *f, uint64_t ino, uint64_t position,
		 struct tree_entry *t, struct buf *target);

static void fill_dir(struct full *f, uint64_t ino, uint64_t position,
		     struct tree_entry *t)
{
	struct tree_builder b = {0};
	_cleanup_buf_ struct buf out = {0};
	struct list l = {0};

	assert_ok(env_readdir(f->e, ino, 0, add_name, &l));
	if (l.n)
		qsort(l.v, l.n, sizeof *l.v, compare);
	for (size_t i = 0; i < l.n; i++) {
		_cleanup_buf_ struct buf target = {0};
		struct tree_entry e;

		if (S_ISSOCK(l.v[i].a.mode))
			continue;
		fill(f, l.v[i].a.ino, position + b.total + 1, &e, &target);
		e.name = l.v[i].name;
		e.name_len = (uint16_t)strlen(e.name);
		assert_ok(tree_builder_add(&b, &e));
	}
	t->size = b.subdirs;
	t->below = b.total;
	assert_ok(tree_builder_finish(&b, &out));
	tree_builder_fini(&b);
	free(l.v);
	t->content = put(f, OID_TREE, out.data, out.len);
}

static void fill(struct full *f, uint64_t ino, uint64_t position,
		 struct tree_entry *t, struct buf *target)
{
	struct env_attr a;

	assert_ok(env_getattr(f->e, ino, &a));
	*t = (struct tree_entry){
		.mode = a.mode,
		.uid = a.uid,
		.gid = a.gid,
		.mtime_sec = a.mtime.tv_sec,
		.mtime_nsec = (uint32_t)a.mtime.tv_nsec,
		.xattrs = xattrs(f, ino),
	};
	if (S_ISDIR(a.mode)) {
		fill_dir(f, ino, position, t);
		return;
	}
	if (S_ISREG(a.mode)) {
		t->size = a.size;
		t->content = content(f, &a);
	} else if (S_ISLNK(a.mode)) {
		assert_ok(env_readlink(f->e, ino, target));
		t->target = (const char *)target->data;
		t->target_len = (uint16_t)target->len;
		t->size = target->len;
	} else if (S_ISCHR(a.mode) || S_ISBLK(a.mode)) {
		t->rdev = a.rdev;
	}
	if (a.nlink < 2)
		return;
	assert_true(f->links < MOST_LINKS);
	f->positions[f->links] = position;
	f->inos[f->links++] = ino;
}

static struct oid put_links(struct full *f)
{
	_cleanup_buf_ struct buf rows = {0}, out = {0};
	struct oid id = {0};
	uint64_t shared = 0;

	for (size_t i = 0; i < f->links; i++) {
		struct links_entry e = {.position = f->positions[i]};

		for (size_t k = f->links; k-- > 0;)
			if (f->inos[k] == f->inos[i]) {
				e.first = f->positions[k];
				e.count++;
			}
		if (e.count < 2)
			continue;
		shared++;
		links_add(&rows, &e);
	}
	if (!shared)
		return id;
	links_begin(&out, shared);
	buf_put(&out, rows.data, rows.len);
	return put(f, OID_LINKS, out.data, out.len);
}

struct oid full_snapshot(struct store *s, struct env *e)
{
	struct full *f = calloc(1, sizeof *f);
	_cleanup_buf_ struct buf target = {0}, out = {0};
	struct tree_entry t;
	struct snap snap;
	struct oid id;

	f->e = e;
	assert_ok(batch_begin(s, &f->b));
	fill(f, ENV_ROOT, 0, &t, &target);
	snap = (struct snap){.mode = t.mode,
			     .uid = t.uid,
			     .gid = t.gid,
			     .mtime_sec = t.mtime_sec,
			     .mtime_nsec = t.mtime_nsec,
			     .subdirs = (uint32_t)t.size,
			     .total = t.below,
			     .tree = t.content,
			     .xattrs = t.xattrs,
			     .links = put_links(f)};
	snap_encode(&snap, &out);
	id = put(f, OID_SNAP, out.data, out.len);
	assert_ok(batch_commit(f->b, NULL, NULL));
	free(f);
	return id;
}
