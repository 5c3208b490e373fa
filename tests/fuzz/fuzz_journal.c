/* SPDX-License-Identifier: MIT */
/*
 * Replay of arbitrary items: an error or a state that can be read and closed,
 * in memory that follows from the input's size. The environment has a tiny
 * snapshot; its folder is made once, below TMPDIR.
 */
#include "fuzz.h"

#include "base/io.h"
#include "env/delta.h"
#include "env/env.h"
#include "object/format.h"
#include "object/snap.h"
#include "object/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[256];
static struct store *store;
static struct buf journal; /* its header, then one frame */
static int journal_fd;

static void cleanup(void)
{
	buf_fini(&journal);
	store_close(store);
	(void)io_remove_tree(AT_FDCWD, scratch);
}

static struct oid put_snapshot(struct batch *b)
{
	struct tree_entry file = {
		.name = "f",
		.name_len = 1,
		.mode = S_IFREG | 0644,
		.size = 5,
	};
	struct snap s = {.mode = S_IFDIR | 0755, .subdirs = 1, .total = 2};
	struct tree_entry dir = {
		.name = "d",
		.name_len = 1,
		.mode = S_IFDIR | 0755,
		.below = 1,
	};
	_cleanup_buf_ struct buf tree = {0}, top = {0}, out = {0};
	struct tree_builder tb = {0};
	struct oid id;

	FUZZ_CHECK(batch_put(b, OID_BLOB, "hello", 5, &file.content) == 0);
	FUZZ_CHECK(tree_builder_add(&tb, &file) == 0);
	FUZZ_CHECK(tree_builder_finish(&tb, &tree) == 0);
	tree_builder_fini(&tb);
	FUZZ_CHECK(batch_put(b, OID_TREE, tree.data, tree.len, &dir.content) ==
		   0);
	tb = (struct tree_builder){0};
	FUZZ_CHECK(tree_builder_add(&tb, &dir) == 0);
	FUZZ_CHECK(tree_builder_finish(&tb, &top) == 0);
	tree_builder_fini(&tb);
	FUZZ_CHECK(batch_put(b, OID_TREE, top.data, top.len, &s.tree) == 0);
	snap_encode(&s, &out);
	FUZZ_CHECK(batch_put(b, OID_SNAP, out.data, out.len, &id) == 0);
	return id;
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");
	struct env_info info = {.created_sec = 1};
	struct batch *b;
	char path[300];

	(void)snprintf(scratch, sizeof scratch, "%s/cowfs-fuzz-XXXXXX",
		       tmp ? tmp : "/tmp");
	FUZZ_CHECK(mkdtemp(scratch));
	(void)atexit(cleanup);
	(void)snprintf(path, sizeof path, "%s/store", scratch);
	FUZZ_CHECK(store_open(path, STORE_CREATE, NULL, &store) == 0);
	FUZZ_CHECK(batch_begin(store, &b) == 0);
	info.snapshot = put_snapshot(b);
	FUZZ_CHECK(batch_commit(b, NULL, NULL) == 0);
	FUZZ_CHECK(env_create(store, "e", &info) == 0);
	buf_put_u32(&journal, FORMAT_JOURNAL_MAGIC);
	buf_put_u32(&journal, FORMAT_VERSION);
	buf_put(&journal, info.snapshot.b, OID_BYTES);
	buf_put_u64(&journal, 0); /* salt */
	buf_put_u64(&journal, oid_checksum(journal.data, journal.len, 0));
	journal_fd = openat(store_fd(store), "envs/e/journal",
			    O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_CHECK(journal_fd >= 0);
}

/* Writes a journal of one frame, whole by its checksum. */
static void give(const uint8_t *items, size_t size)
{
	enum { HEADER = 48 };
	struct buf *b = &journal;

	FUZZ_CHECK(buf_resize(b, HEADER) == 0);
	buf_put_u32(b, FORMAT_JOURNAL_MAGIC);
	buf_put_u32(b, (uint32_t)size);
	buf_put_u64(b, 0);
	buf_put_u64(b, oid_checksum(items, size, size));
	buf_put(b, items, size);
	FUZZ_CHECK(buf_error(b) == 0);
	FUZZ_CHECK(io_pwrite(journal_fd, b->data, b->len, 0) == 0);
	FUZZ_CHECK(ftruncate(journal_fd, (off_t)b->len) == 0);
}

/* What a listing finds must have attributes, and its bytes be readable. */
static bool look(void *ctx, const char *name, size_t len,
		 const struct env_attr *attr, uint64_t next)
{
	uint64_t *last = ctx;

	FUZZ_CHECK(len > 0 && next > *last);
	*last = next;
	return true;
}

static void look_at(struct env *e, uint64_t ino)
{
	char data[64];
	uint64_t at = 0;
	struct env_attr a;

	if (env_getattr(e, ino, &a) < 0)
		return;
	FUZZ_CHECK(a.ino == ino);
	if (S_ISREG(a.mode)) {
		(void)!env_read(e, ino, data, sizeof data, 0);
		(void)!env_read(e, ino, data, sizeof data, a.size / 2);
		(void)!env_seek(e, ino, 0, SEEK_DATA, &at);
	}
	if (S_ISDIR(a.mode))
		(void)!env_readdir(e, ino, 0, look, &at);
	(void)!env_listxattr(e, ino, NULL, 0);
}

static int no_row(void *ctx, const struct delta_row *row)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct env *e;

	if (!store)
		setup();
	give(data, size);
	if (env_open(store, "e", ENV_READ_ONLY, NULL, &e) < 0)
		return 0;
	for (uint64_t ino = ENV_ROOT; ino < 12; ino++)
		look_at(e, ino);
	(void)!delta_walk(e, 0, no_row, NULL);
	env_close(e);
	return 0;
}
