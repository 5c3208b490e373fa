/* SPDX-License-Identifier: MIT */
/*
 * side_snap.c - a side that is a snapshot: trees and contents of the store.
 */
#include "exchange/side_int.h"

#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "object/format.h"
#include "store/store.h"

static int open_tree(struct side *s, const struct oid *id)
{
	int r;

	buf_clear(&s->bytes);
	r = store_get(s->store, id, &s->bytes);
	return r < 0 ? r : tree_open(s->bytes.data, s->bytes.len, &s->tree);
}

/* Looks a name up in the directory that is open. */
static int find(const struct side *s, const char *name, size_t n,
		struct tree_entry *ret_entry)
{
	uint32_t i;
	int r = tree_lookup(&s->tree, name, n, &i);

	if (r < 0)
		return r;
	tree_entry_at(&s->tree, i, ret_entry);
	return 0;
}

/* Opens the directory that is the first len bytes of a path. */
static int open_dir(struct side *s, const char *path, size_t len)
{
	struct tree_entry e;
	size_t at = 0;
	int r;

	if (side_is_open(s, path, len))
		return 0;
	s->has_dir = false;
	r = open_tree(s, &s->snap.tree);
	while (r == 0 && at < len) {
		const size_t n = strcspn(path + at, "/");

		r = find(s, path + at, n, &e);
		if (r == 0 && !S_ISDIR(e.mode))
			r = -ENOENT;
		if (r == 0) {
			const struct oid id = e.content;

			r = open_tree(s, &id);
		}
		at += n + 1;
	}
	return r < 0 ? r : side_opened(s, path, len);
}

static void root_node(const struct snap *snap, struct side_node *ret_node)
{
	*ret_node = (struct side_node){
		.mode = snap->mode,
		.uid = snap->uid,
		.gid = snap->gid,
		.mtime_sec = snap->mtime_sec,
		.mtime_nsec = snap->mtime_nsec,
		.content = snap->tree,
		.xattrs = snap->xattrs,
	};
}

int side_snap_look(struct side *s, const char *path, struct side_node *ret_node)
{
	const char *name;
	const size_t len = side_split(path, &name);
	struct tree_entry e;
	int r;

	if (!*path) {
		root_node(&s->snap, ret_node);
		return 0;
	}
	r = open_dir(s, path, len);
	if (r == 0)
		r = find(s, name, strlen(name), &e);
	if (r != 0)
		return r;
	*ret_node = (struct side_node){
		.mode = e.mode,
		.uid = e.uid,
		.gid = e.gid,
		.rdev = e.rdev,
		.size = S_ISDIR(e.mode) ? 0 : e.size,
		.mtime_sec = e.mtime_sec,
		.mtime_nsec = e.mtime_nsec,
		.content = e.content,
		.xattrs = e.xattrs,
	};
	return 0;
}

int side_snap_is_empty(struct side *s, const char *path)
{
	int r = open_dir(s, path, strlen(path));

	return r < 0 ? r : s->tree.count == 0;
}

static int read_target(struct side *s, const char *path, content_bytes_fn fn,
		       void *ctx)
{
	const char *name;
	const size_t len = side_split(path, &name);
	struct tree_entry e;
	int r = open_dir(s, path, len);

	if (r == 0)
		r = find(s, name, strlen(name), &e);
	return r != 0 ? r : fn(ctx, e.target, e.target_len);
}

static int get_object(void *from, const struct oid *id, struct buf *out)
{
	return store_get(from, id, out);
}

int side_snap_read(struct side *s, const struct side_node *node,
		   const char *path, content_bytes_fn fn, void *ctx)
{
	if (S_ISLNK(node->mode))
		return read_target(s, path, fn, ctx);
	return content_read(&node->content, get_object, s->store, fn, ctx);
}
