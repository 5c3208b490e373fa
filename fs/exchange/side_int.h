/* SPDX-License-Identifier: MIT */
/*
 * side_int.h - the two kinds of a side; side.c chooses between them.
 *
 * Both keep the directory that was used last: a path is split into that and a
 * name, and walked from the root only when the directory is another one.
 *
 * Contract
 *   Ownership   a side owns descriptors and buffers
 *   Threads     one
 *   Errors      as in side.h
 */
#ifndef COWFS_EXCHANGE_SIDE_INT_H
#define COWFS_EXCHANGE_SIDE_INT_H

#include "exchange/side.h"
#include "object/snap.h"
#include "object/tree.h"

struct side {
	struct store *store; /* NULL: a mount */
	struct snap snap;
	struct buf bytes; /* the tree of the directory */
	struct tree tree;
	int root; /* a mount's */
	int dir;
	struct buf dir_path; /* of the directory that is open */
	bool has_dir;
};

/* Splits "dir/name"; returns the length of "dir", and the name. */
size_t side_split(const char *path, const char **ret_name);
/* Says whether the directory of a path is the one that is open. */
bool side_is_open(const struct side *s, const char *path, size_t dir_len);
/* Remembers which directory is open now. */
_must_check_ int side_opened(struct side *s, const char *path, size_t dir_len);

_must_check_ int side_snap_look(struct side *s, const char *path,
				struct side_node *ret_node);
_must_check_ int side_snap_is_empty(struct side *s, const char *path);
_must_check_ int side_snap_read(struct side *s, const struct side_node *node,
				const char *path, content_bytes_fn fn, void *ctx);

_must_check_ int side_mount_look(struct side *s, const char *path,
				 struct side_node *ret_node);
_must_check_ int side_mount_is_empty(struct side *s, const char *path);
_must_check_ int side_mount_read(struct side *s, const struct side_node *node,
				 const char *path, content_bytes_fn fn, void *ctx);
/* Opens a regular file for reading. */
_must_check_ int side_mount_open(struct side *s, const char *path, int *ret_fd);
_must_check_ int side_mount_xattrs(struct side *s, const char *path,
				   struct buf *out);

#endif
