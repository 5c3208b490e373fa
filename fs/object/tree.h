/* SPDX-License-Identifier: MIT */
/*
 * tree.h - one directory of a snapshot, encoded.
 *
 * A tree is read in place: tree_open checks every byte once, then entries are
 * found by index, by name or by preorder position without decoding the rest.
 * Entries are sorted by name bytes (memcmp, shorter first), so that the index
 * of an entry is its readdir position.
 *
 * Positions: the directory itself has relative position 0, its first entry 1;
 * an entry's `start` is its own relative position, the entries below it follow.
 * The position of an inode in the whole snapshot (root = 0) is the sum of the
 * starts on its path. This gives inode numbers without a table.
 *
 * Contract
 *   Ownership   a struct tree borrows the encoded bytes; entries point into
 *               them and live as long as they do
 *   Threads     any (a tree is never changed)
 *   Errors      -EFSCORRUPTED from tree_open; nothing after it can fail
 */
#ifndef COWFS_OBJECT_TREE_H
#define COWFS_OBJECT_TREE_H

#include "base/buf.h"
#include "object/oid.h"

#include <sys/types.h>

/* What a name stands for. `size` of a directory is the number of its
 * subdirectories (for st_nlink), of a symlink the length of its target, of
 * other special files 0. `content` is a tree (directory), a blob or manifest
 * (regular file; null when the size is 0), else null. */
struct tree_entry {
	const char *name; /* not NUL-terminated */
	uint16_t name_len;
	uint32_t mode; /* type and permissions, as st_mode */
	uint32_t uid;
	uint32_t gid;
	uint64_t rdev; /* of devices: as st_rdev */
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint64_t size;
	struct oid content;
	struct oid xattrs;  /* null when there are none */
	const char *target; /* of a symlink; not NUL-terminated */
	uint16_t target_len;
	uint64_t start; /* relative preorder position; set by reader and builder */
	uint64_t below; /* inodes below it; 0 unless a directory */
};

struct tree {
	const uint8_t *data;
	size_t len;
	uint32_t count;	  /* entries */
	uint32_t subdirs; /* entries that are directories */
	uint64_t total;	  /* inodes below the directory */
};

_must_check_ int tree_open(const void *data, size_t len, struct tree *ret_tree);
/* Reads entry i < count. */
void tree_entry_at(const struct tree *t, uint32_t i,
		   struct tree_entry *ret_entry);
/* Finds the index of a name. -ENOENT. */
_must_check_ int tree_lookup(const struct tree *t, const void *name, size_t len,
			     uint32_t *ret_i);
/* Finds the index of the entry whose own or deeper position is `start`,
 * 1 <= start <= total. -ENOENT. */
_must_check_ int tree_find_start(const struct tree *t, uint64_t start,
				 uint32_t *ret_i);

/* Builds a tree: add entries in name order, then finish. */
struct tree_builder {
	struct buf offsets;
	struct buf entries;
	struct buf last_name;
	uint32_t count;
	uint32_t subdirs;
	uint64_t total;
};

void tree_builder_fini(struct tree_builder *b);
/* Adds an entry; `below` must be set, `start` is computed. -EINVAL: out of
 * order, bad name or inconsistent entry. -EOVERFLOW: the tree is too big. */
_must_check_ int tree_builder_add(struct tree_builder *b,
				  const struct tree_entry *e);
/* Appends the encoded tree to out; the builder is empty again. */
_must_check_ int tree_builder_finish(struct tree_builder *b, struct buf *out);

#endif
