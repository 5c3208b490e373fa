/* SPDX-License-Identifier: MIT */
#include "gc_case.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "object/format.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"
#include "object/xset.h"

enum { SMALL_MAX = 6000 };

/* --- making -------------------------------------------------------------- */

static void fill(uint8_t *data, size_t len, unsigned seed, bool plain)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245 + 12345;
		data[i] = plain ? (uint8_t)("line\n"[i % 5] + (seed >> 31))
				: (uint8_t)(seed >> 16);
	}
}

static struct oid put(struct batch *b, enum oid_kind kind, const void *data,
		      size_t len)
{
	struct oid id = {0};

	assert_ok(batch_put(b, kind, data, len, &id));
	return id;
}

static struct oid put_large(struct batch *b, unsigned seed, bool plain,
			    uint64_t *ret_size)
{
	_cleanup_free_ uint8_t *data = malloc(FORMAT_CHUNK_BYTES);
	_cleanup_buf_ struct buf m = {0};

	*ret_size = (uint64_t)GC_CASE_CHUNKS * FORMAT_CHUNK_BYTES;
	manifest_begin(&m, *ret_size);
	for (unsigned i = 0; i < GC_CASE_CHUNKS; i++) {
		struct oid chunk;

		fill(data, FORMAT_CHUNK_BYTES, seed * 100 + i, plain);
		chunk = put(b, OID_BLOB, data, FORMAT_CHUNK_BYTES);
		manifest_add(&m, &chunk);
	}
	return put(b, OID_MANIFEST, m.data, m.len);
}

static struct oid put_xset(struct batch *b)
{
	struct xset_pair pair = {"user.a", 6, (const uint8_t *)"b", 1};
	_cleanup_buf_ struct buf x = {0};

	assert_ok(xset_encode(&pair, 1, &x));
	return put(b, OID_XSET, x.data, x.len);
}

static void add_file(struct tree_builder *t, const char *name, uint64_t size,
		     const struct oid *content, const struct oid *xattrs)
{
	assert_ok(tree_builder_add(
		t, &(struct tree_entry){.name = name,
					.name_len = (uint16_t)strlen(name),
					.mode = S_IFREG | 0644,
					.size = size,
					.content = *content,
					.xattrs = *xattrs}));
}

static struct oid put_tree(struct batch *b, struct tree_builder *t)
{
	_cleanup_buf_ struct buf out = {0};

	assert_ok(tree_builder_finish(t, &out));
	return put(b, OID_TREE, out.data, out.len);
}

static struct oid put_inner(struct batch *b, const struct gc_case *c,
			    uint64_t *ret_below)
{
	struct tree_builder t = {.count = 0};
	const struct oid none = {{0}};
	const struct oid xattrs = put_xset(b);
	uint8_t data[SMALL_MAX];
	struct oid id;

	for (unsigned i = 0; i < c->files; i++) {
		const unsigned seed = c->seed * 1000 + i;
		const size_t len = 1 + seed * 7919 % (SMALL_MAX - 1);
		char name[32];

		fill(data, len, seed, c->plain);
		id = put(b, OID_BLOB, data, len);
		(void)snprintf(name, sizeof name, "f%06u", i);
		add_file(&t, name, len, &id, i % 2 ? &xattrs : &none);
	}
	*ret_below = c->files;
	id = put_tree(b, &t);
	tree_builder_fini(&t);
	return id;
}

static struct oid put_root(struct batch *b, const struct gc_case *c,
			   uint64_t *ret_total)
{
	struct tree_builder t = {.count = 0};
	const struct oid none = {{0}};
	struct tree_entry dir = {
		.name = "dir", .name_len = 3, .mode = S_IFDIR | 0755};
	struct oid id;

	dir.content = put_inner(b, c, &dir.below);
	assert_ok(tree_builder_add(&t, &dir));
	*ret_total = dir.below + 1;
	if (c->large) {
		uint64_t size;

		id = put_large(b, c->large, c->plain, &size);
		add_file(&t, "large", size, &id, &none);
		++*ret_total;
	}
	id = put_tree(b, &t);
	tree_builder_fini(&t);
	return id;
}

struct oid gc_case_put(struct store *s, const struct gc_case *c,
		       const char *ref, int64_t time_sec)
{
	struct snapshot_info info = {.time_sec =
					     time_sec ? time_sec : time(NULL)};
	struct snap snap = {.mode = S_IFDIR | 0755, .subdirs = 1};
	_cleanup_buf_ struct buf out = {0};
	struct batch *b;

	assert_ok(batch_begin(s, &b));
	snap.tree = put_root(b, c, &snap.total);
	snap_encode(&snap, &out);
	info.id = put(b, OID_SNAP, out.data, out.len);
	info.inodes = snap.total + 1;
	assert_ok(batch_commit(b, &info, ref));
	return info.id;
}

/* --- checking ------------------------------------------------------------ */

static int check_object(struct store *s, const struct oid *id);

static int check_tree(struct store *s, const struct buf *b)
{
	struct tree_entry e;
	struct tree t;
	int r = tree_open(b->data, b->len, &t);

	for (uint32_t i = 0; r == 0 && i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		r = check_object(s, &e.content);
		if (r == 0)
			r = check_object(s, &e.xattrs);
	}
	return r;
}

static int check_object(struct store *s, const struct oid *id)
{
	_cleanup_buf_ struct buf b = {0};
	struct manifest m;
	struct snap snap;
	struct oid name;
	int r;

	if (oid_is_null(id))
		return 0;
	r = store_get(s, id, &b);
	if (r < 0)
		return r;
	name = oid_of(oid_kind(id), b.data, b.len);
	if (!oid_equal(&name, id))
		return -EFSBADCRC;
	switch (oid_kind(id)) {
	case OID_TREE:
		return check_tree(s, &b);
	case OID_MANIFEST:
		r = manifest_open(b.data, b.len, &m);
		for (uint64_t i = 0; r == 0 && i < m.count; i++) {
			const struct oid chunk = manifest_chunk(&m, i);

			r = check_object(s, &chunk);
		}
		return r;
	case OID_SNAP:
		r = snap_decode(b.data, b.len, &snap);
		return r < 0 ? r : check_object(s, &snap.tree);
	default:
		return 0;
	}
}

int gc_case_check(struct store *s, const struct oid *id)
{
	return check_object(s, id);
}

void gc_case_env(struct store *s, const char *name, const struct oid *id)
{
	_cleanup_buf_ struct buf b = {0};
	char path[128];

	(void)snprintf(path, sizeof path, "envs/%s", name);
	assert_ok(mkdirat(store_fd(s), path, 0700));
	buf_put_u32(&b, FORMAT_ENV_MAGIC);
	buf_put_u32(&b, FORMAT_VERSION);
	buf_put(&b, id->b, OID_BYTES);
	buf_put_u64(&b, 1);
	buf_put_u32(&b, 0);
	for (int i = 0; i < 3; i++)
		buf_put_block(&b, "", 0);
	buf_put_u64(&b, oid_checksum(b.data, b.len, 0));
	(void)snprintf(path, sizeof path, "envs/%s/env", name);
	assert_ok(io_write_file(store_fd(s), path, b.data, b.len, false));
}

uint64_t gc_case_objects(struct store *s)
{
	struct store_stat st;

	assert_ok(store_stat(s, &st));
	return st.objects;
}

uint64_t gc_case_bytes(struct store *s, unsigned *ret_files)
{
	const int fd = openat(store_fd(s), "segments", O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	const struct dirent *e;
	uint64_t sum = 0;
	struct stat st;

	assert_non_null(d);
	*ret_files = 0;
	while ((e = readdir(d))) {
		assert_ok(fstatat(fd, e->d_name, &st, 0));
		if (!S_ISREG(st.st_mode))
			continue;
		sum += (uint64_t)st.st_size;
		++*ret_files;
	}
	(void)closedir(d);
	return sum;
}
