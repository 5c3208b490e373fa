/* SPDX-License-Identifier: MIT */
/*
 * fuzz_store.c - the store is made as an import would make it, by the layers
 * below. Files are written in place: a target does so thousands of times a
 * second.
 */
#include "fuzz_store.h"

#include "base/io.h"
#include "object/snap.h"
#include "object/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[256], path[300];
static struct store *store;
static struct oid snapshot;

static void cleanup(void)
{
	store_close(store);
	(void)!io_remove_tree(AT_FDCWD, scratch);
}

static struct oid put_tree(struct batch *b, const struct tree_entry *e)
{
	_cleanup_buf_ struct buf out = {0};
	struct tree_builder tb = {0};
	struct oid id;

	FUZZ_CHECK(tree_builder_add(&tb, e) == 0);
	FUZZ_CHECK(tree_builder_finish(&tb, &out) == 0);
	tree_builder_fini(&tb);
	FUZZ_CHECK(batch_put(b, OID_TREE, out.data, out.len, &id) == 0);
	return id;
}

static void put_snapshot(void)
{
	struct tree_entry file = {.name = "f", .name_len = 1, .size = 5};
	struct tree_entry dir = {.name = "d", .name_len = 1, .below = 1};
	struct snap s = {.mode = S_IFDIR | 0755, .subdirs = 1, .total = 2};
	struct snapshot_info info = {.time_sec = 1,
				     .inodes = 3,
				     .bytes = 5,
				     .source = "/s",
				     .host = "h",
				     .message = "m"};
	_cleanup_buf_ struct buf out = {0};
	struct batch *b;

	file.mode = S_IFREG | 0644;
	dir.mode = S_IFDIR | 0755;
	FUZZ_CHECK(batch_begin(store, &b) == 0);
	FUZZ_CHECK(batch_put(b, OID_BLOB, "hello", 5, &file.content) == 0);
	dir.content = put_tree(b, &file);
	s.tree = put_tree(b, &dir);
	snap_encode(&s, &out);
	FUZZ_CHECK(batch_put(b, OID_SNAP, out.data, out.len, &info.id) == 0);
	snapshot = info.id;
	FUZZ_CHECK(batch_commit(b, &info, "one:latest") == 0);
}

struct store *fuzz_store(void)
{
	const char *tmp = getenv("TMPDIR");

	if (store)
		return store;
	(void)snprintf(scratch, sizeof scratch, "%s/cowfs-fuzz-XXXXXX",
		       tmp ? tmp : "/tmp");
	FUZZ_CHECK(mkdtemp(scratch));
	(void)atexit(cleanup);
	(void)snprintf(path, sizeof path, "%s/store", scratch);
	FUZZ_CHECK(store_open(path, STORE_CREATE, NULL, &store) == 0);
	put_snapshot();
	return store;
}

const char *fuzz_store_path(void)
{
	(void)fuzz_store();
	return path;
}

struct oid fuzz_store_snapshot(void)
{
	(void)fuzz_store();
	return snapshot;
}

void fuzz_write(int dirfd, const char *name, const void *data, size_t len)
{
	const int fd =
		openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(io_pwrite(fd, data, len, 0) == 0);
	FUZZ_CHECK(ftruncate(fd, (off_t)len) == 0);
	FUZZ_CHECK(close(fd) == 0);
}
