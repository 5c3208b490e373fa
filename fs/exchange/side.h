/* SPDX-License-Identifier: MIT */
/*
 * side.h - one side of a comparison: a snapshot in the store, or a mounted
 * tree. Paths are looked up and contents are read in the same way on both.
 *
 * A path is relative to the root ("" is the root itself), without a '/' at its
 * ends. Symbolic links are never followed, and a path may be longer than what
 * the kernel takes at once. Asking for paths in the order of their bytes is
 * cheap: the directory that was used last stays open.
 *
 * Contract
 *   Ownership   side_close; a store stays the caller's, and open until then
 *   Threads     one
 *   Errors      -ENOENT: nothing stands there; -ESTALE: it changed since it
 *               was looked up; others of the file system or the store
 */
#ifndef COWFS_EXCHANGE_SIDE_H
#define COWFS_EXCHANGE_SIDE_H

#include "base/buf.h"
#include "exchange/content.h"
#include "object/oid.h"

#include <sys/types.h>

struct side;
struct store;

struct side_node {
	uint32_t mode; /* as st_mode */
	uint32_t uid;
	uint32_t gid;
	uint64_t rdev;
	uint64_t size; /* of files and links; else 0 */
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	struct oid content; /* of a snapshot; else null */
	struct oid xattrs;
};

_must_check_ int side_open_snapshot(struct store *store, const struct oid *id,
				    struct side **ret_side);
_must_check_ int side_open_mount(const char *path, struct side **ret_side);
void side_close(struct side *s);

static inline void side_closep(struct side **s)
{
	side_close(*s);
}
#define _cleanup_side_ _cleanup_(side_closep)

_must_check_ int side_look(struct side *s, const char *path,
			   struct side_node *ret_node);
/* Says whether a directory has no entries: 1 or 0. */
_must_check_ int side_is_empty(struct side *s, const char *path);

/* Hands the content of a file, or the target of a link, on in pieces. A piece
 * is at most FORMAT_CHUNK_BYTES long. A negative result of fn ends it. */
_must_check_ int side_read(struct side *s, const char *path,
			   const struct side_node *node, content_bytes_fn fn,
			   void *ctx);
/* A file or link on a side. */
struct side_file {
	struct side *side;
	const char *path;
	const struct side_node *node;
};
/* Compares contents, reading no further than to the first difference: 1 when
 * they are the same, else 0. */
_must_check_ int side_is_same(const struct side_file *a,
			      const struct side_file *b);
/* Appends the extended attributes in the form of xset.h; none: nothing. */
_must_check_ int side_xattrs(struct side *s, const char *path,
			     const struct side_node *node, struct buf *out);

#endif
