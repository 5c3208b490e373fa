/* SPDX-License-Identifier: MIT */
/*
 * How: the snapshot is put together with the builders of fs/object, so that
 * the tests of env link nothing above it.
 */
#include "env_case.h"

#include <sys/stat.h>

#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"
#include "object/xset.h"

uint8_t env_case_big(size_t i)
{
	if (i >= FORMAT_CHUNK_BYTES && i < 2 * FORMAT_CHUNK_BYTES)
		return 0;
	return (uint8_t)(i * 31 + i / 4096 + 1);
}

static struct oid put(struct batch *b, enum oid_kind kind, const void *data,
		      size_t len)
{
	struct oid id;

	assert_ok(batch_put(b, kind, data, len, &id));
	return id;
}

static struct oid put_big(struct batch *b)
{
	_cleanup_free_ uint8_t *data = malloc(CASE_BIG);
	_cleanup_buf_ struct buf m = {0};

	for (size_t i = 0; i < CASE_BIG; i++)
		data[i] = env_case_big(i);
	manifest_begin(&m, CASE_BIG);
	for (size_t at = 0; at < CASE_BIG; at += FORMAT_CHUNK_BYTES) {
		size_t n = MIN(FORMAT_CHUNK_BYTES, CASE_BIG - at);
		struct oid id = {0};

		if (!manifest_is_zero(data + at, n))
			id = put(b, OID_BLOB, data + at, n);
		manifest_add(&m, &id);
	}
	return put(b, OID_MANIFEST, m.data, m.len);
}

static struct tree_entry file(struct batch *b, const char *name,
			      const char *text)
{
	struct tree_entry t = {
		.name = name,
		.name_len = (uint16_t)strlen(name),
		.mode = S_IFREG | 0644,
		.mtime_sec = 1000,
		.mtime_nsec = 5,
		.size = strlen(text),
	};

	t.content = put(b, OID_BLOB, text, t.size);
	return t;
}

static struct tree_entry dir(const char *name, struct oid tree, uint64_t below,
			     uint64_t subdirs)
{
	return (struct tree_entry){
		.name = name,
		.name_len = (uint16_t)strlen(name),
		.mode = S_IFDIR | 0755,
		.mtime_sec = 2000,
		.size = subdirs,
		.content = tree,
		.below = below,
	};
}

static struct oid put_tree(struct batch *b, const struct tree_entry *t,
			   size_t n)
{
	struct tree_builder tb = {0};
	_cleanup_buf_ struct buf out = {0};
	struct oid id;

	for (size_t i = 0; i < n; i++)
		assert_ok(tree_builder_add(&tb, &t[i]));
	assert_ok(tree_builder_finish(&tb, &out));
	tree_builder_fini(&tb);
	id = put(b, OID_TREE, out.data, out.len);
	return id;
}

static struct oid put_links(struct batch *b)
{
	static const struct links_entry l[] = {{4, 4, 2}, {8, 4, 2}};
	_cleanup_buf_ struct buf out = {0};

	links_begin(&out, 2);
	links_add(&out, &l[0]);
	links_add(&out, &l[1]);
	return put(b, OID_LINKS, out.data, out.len);
}

static void build(struct env_case *c)
{
	struct xset_pair pair = {"user.k", 6, (const uint8_t *)"v", 1};
	_cleanup_buf_ struct buf xs = {0}, out = {0};
	struct tree_entry t[8], y;
	struct snap s = {.mode = S_IFDIR | 0755, .subdirs = 1, .total = 9};
	struct batch *b;

	assert_ok(batch_begin(c->store, &b));
	y = file(b, "y", "yy");
	t[0] = file(b, "big", "");
	t[0].size = CASE_BIG;
	t[0].content = put_big(b);
	t[1] = file(b, "hl1", "linked");
	t[2] = dir("sub", put_tree(b, &y, 1), 1, 0);
	t[3] = file(b, "x", "xx");
	assert_ok(xset_encode(&pair, 1, &xs));
	t[3].xattrs = put(b, OID_XSET, xs.data, xs.len);
	t[1] = (struct tree_entry)dir("d", put_tree(b, t, 4), 5, 1);
	t[0] = file(b, "a.txt", "hello\n");
	t[2] = file(b, "hl2", "linked");
	t[3] = (struct tree_entry){
		.name = "link",
		.name_len = 4,
		.mode = S_IFLNK | 0777,
		.target = "a.txt",
		.target_len = 5,
		.size = 5,
	};
	s.tree = put_tree(b, t, 4);
	s.links = put_links(b);
	snap_encode(&s, &out);
	c->snapshot = put(b, OID_SNAP, out.data, out.len);
	assert_ok(batch_commit(b, NULL, NULL));
}

int env_case_setup(void **state)
{
	struct env_case *c = calloc(1, sizeof *c);
	struct env_info info = {.created_sec = 1};
	char path[512];

	if (!c || test_scratch_setup(&c->scratch) < 0)
		return -1;
	(void)snprintf(path, sizeof path, "%s/store",
		       ((struct test_scratch *)c->scratch)->path);
	assert_ok(store_open(path, STORE_CREATE, NULL, &c->store));
	build(c);
	info.snapshot = c->snapshot;
	assert_ok(env_create(c->store, "e", &info));
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	*state = c;
	return 0;
}

int env_case_teardown(void **state)
{
	struct env_case *c = *state;
	int r;

	env_close(c->e);
	store_close(c->store);
	r = test_scratch_teardown(&c->scratch);
	free(c);
	return r;
}

void env_case_reopen(struct env_case *c)
{
	env_close(c->e);
	c->e = NULL;
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
}

struct env_attr env_case_at(struct env_case *c, const char *path)
{
	struct env_attr a = {.ino = ENV_ROOT};

	while (*path) {
		char name[256];
		size_t len = strcspn(path, "/");

		memcpy(name, path, len);
		name[len] = '\0';
		assert_ok(env_lookup(c->e, a.ino, name, &a));
		path += len + (path[len] == '/');
	}
	return a;
}

/* --- dump -------------------------------------------------------------------- */

struct listing {
	struct buf *out;
	struct buf *dirs; /* struct env_attr and path length and path */
	const char *path;
};

static bool dump_entry(void *ctx, const char *name, size_t len,
		       const struct env_attr *a, uint64_t next)
{
	struct listing *l = ctx;
	char path[4096];
	int n = snprintf(path, sizeof path, "%s%s%.*s", l->path,
			 *l->path ? "/" : "", (int)len, name);

	buf_printf(l->out, "%s @%llu", path, (unsigned long long)next);
	buf_put_u8(l->out, '\n');
	buf_put_u64(l->dirs, a->ino);
	buf_put_u32(l->dirs, a->mode);
	buf_put_block(l->dirs, path, (size_t)n + 1);
	return true;
}

static void dump_inode(struct env_case *c, uint64_t ino, struct buf *out)
{
	_cleanup_buf_ struct buf target = {0};
	_cleanup_free_ uint8_t *data = NULL;
	struct env_attr a;
	char names[1024];
	ssize_t n;

	assert_ok(env_getattr(c->e, ino, &a));
	buf_printf(out, "ino %llu mode %o nlink %u %u:%u size %llu rdev %llu "
			"mtime %lld.%ld ctime %lld.%ld atime %lld",
		   (unsigned long long)a.ino, a.mode, a.nlink, a.uid, a.gid,
		   (unsigned long long)a.size, (unsigned long long)a.rdev,
		   (long long)a.mtime.tv_sec, a.mtime.tv_nsec,
		   (long long)a.ctime.tv_sec, a.ctime.tv_nsec,
		   (long long)a.atime.tv_sec);
	n = env_listxattr(c->e, ino, names, sizeof names);
	assert_true(n >= 0);
	buf_printf(out, " xattrs %zd", n);
	if (S_ISLNK(a.mode)) {
		assert_ok(env_readlink(c->e, ino, &target));
		buf_put(out, target.data, target.len);
	} else if (S_ISREG(a.mode)) {
		data = malloc(a.size + 1);
		n = env_read(c->e, ino, data, a.size + 1, 0);
		assert_int_equal(n, a.size);
		buf_printf(out, " bytes %llx",
			   (unsigned long long)oid_checksum(data, a.size, 0));
	}
	buf_put_u8(out, '\n');
}

static void dump_dir(struct env_case *c, uint64_t ino, const char *path,
		     struct buf *out)
{
	_cleanup_buf_ struct buf kids = {0};
	struct listing l = {out, &kids, path};
	size_t at = 0;

	assert_ok(env_readdir(c->e, ino, 0, dump_entry, &l));
	while (at < kids.len) {
		uint64_t kid;
		uint32_t mode, len;

		memcpy(&kid, kids.data + at, 8);
		memcpy(&mode, kids.data + at + 8, 4);
		memcpy(&len, kids.data + at + 12, 4);
		dump_inode(c, kid, out);
		if (S_ISDIR(mode))
			dump_dir(c, kid, (char *)kids.data + at + 16, out);
		at += 16 + len;
	}
}

void env_case_dump(struct env_case *c, struct buf *out)
{
	dump_inode(c, ENV_ROOT, out);
	dump_dir(c, ENV_ROOT, "", out);
	assert_ok(buf_error(out));
}

static int diff_row(void *ctx, const struct delta_row *row)
{
	struct buf *out = ctx;

	buf_printf(out, "%c ", row->kind);
	if (row->old_path)
		buf_printf(out, "%.*s ", (int)row->old_path_len, row->old_path);
	buf_printf(out, "%.*s%s\n", (int)row->path_len, row->path,
		   row->is_dir ? "/" : "");
	return 0;
}

void env_case_diff(struct env_case *c, unsigned flags, struct buf *out)
{
	assert_ok(delta_walk(c->e, flags, diff_row, out));
}

uint64_t env_case_make(struct env_case *c, uint64_t dir, const char *name,
		       uint32_t mode)
{
	struct env_attr a;

	if (S_ISDIR(mode))
		assert_ok(env_mkdir(c->e, dir, name, mode & 07777,
				    &env_case_root, &a));
	else
		assert_ok(env_mknod(c->e, dir, name, mode, 0x105,
				    &env_case_root, &a));
	return a.ino;
}

uint64_t env_case_file(struct env_case *c, const char *name)
{
	return env_case_make(c, ENV_ROOT, name, S_IFREG | 0666);
}

void env_case_write(struct env_case *c, uint64_t ino, const char *text,
		    uint64_t at)
{
	assert_ok(env_write(c->e, ino, text, strlen(text), at, false));
}

char *env_case_words(struct env_case *c)
{
	_cleanup_buf_ struct buf b = {0};

	env_case_dump(c, &b);
	return strdup(buf_str(&b));
}
