/* SPDX-License-Identifier: MIT */
/*
 * base_int.h - reads the snapshot that an environment began with.
 *
 * Contract
 *   Ownership   pinned objects stay the base's; base_unpin each
 *   Threads     caller serialises
 *   Errors      -EFSCORRUPTED, -EFSBADCRC and those of reading: see base_bad
 */
#ifndef COWFS_ENV_BASE_INT_H
#define COWFS_ENV_BASE_INT_H

#include "base/buf.h"
#include "base/hmap.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"

struct store;

/* A tree, manifest or xattr set held decoded; one of a bounded LRU. */
struct object {
	struct hnode node;
	struct object *prev, *next; /* LRU list, most recent first */
	struct oid id;
	struct buf bytes;
	struct tree tree;
	struct manifest manifest;
	uint64_t holes; /* chunks of the manifest that are zeros */
	unsigned pins; /* never evicted while pinned */
};

struct dir_slot { /* where the tree of a base directory is */
	uint64_t ino;
	uint64_t parent;
	struct oid tree;
};

enum {
	BASE_DIR_SLOTS = 512,
	BASE_NODE_SLOTS = 512,
	BASE_CACHE_BYTES = 4 << 20,
	BASE_CACHE_KEEP = 2, /* most recent objects that always stay */
};

/* One inode of the base. */
struct base_node {
	uint64_t ino;
	uint64_t parent; /* directory that holds its (first) name */
	uint32_t mode, uid, gid, nlink;
	uint64_t rdev, size;
	struct timespec mtime;
	struct oid content, xattrs;
};

struct base {
	struct store *store;
	struct snap snap;
	bool owned; /* everything belongs to uid and gid */
	uint32_t uid, gid;
	uint64_t last_ino; /* of the snapshot */
	struct buf links_bytes;
	struct links links;
	struct hmap objects;
	struct object *lru_head, *lru_tail;
	size_t cached_bytes;
	struct dir_slot *slots;	 /* direct-mapped by ino; NULL until used */
	struct base_node *nodes; /* likewise, of what was listed last */
	struct oid chunk_id;	/* what chunk holds */
	uint8_t *chunk;		/* the blob read last; NULL until used */
	struct oid bad;		/* what could not be read last, or null */
};

_must_check_ int base_open(struct base *b, struct store *s,
			   const struct oid *snapshot);
void base_close(struct base *b);
/* Lets everything belong to one user, as if it had made it; before the first
 * look. */
void base_own(struct base *b, uint32_t uid, uint32_t gid);
/* Notes which object could not be read, for the log; returns the error, that it
 * is not there as damage. */
int base_bad(struct base *b, const struct oid *id, int err);
/* Finds an inode by number. -ENOENT; -EFSCORRUPTED and others: damage. */
_must_check_ int base_find(struct base *b, uint64_t ino,
			   struct base_node *ret_node);
/* Returns the tree of a base directory, pinned; base_unpin it. */
_must_check_ int base_dir(struct base *b, uint64_t ino,
			  struct object **ret_object);
_must_check_ int base_object(struct base *b, const struct oid *id,
			     struct object **ret_object);
void base_unpin(struct base *b, struct object *o);
/* Fills a node from entry i of the pinned tree of directory dir_ino. */
void base_entry_node(struct base *b, uint64_t dir_ino, const struct object *o,
		     uint32_t i, struct base_node *ret_node);
/* Looks a name up in a base directory. -ENOENT. ret_index may be NULL. */
_must_check_ int base_lookup(struct base *b, uint64_t dir_ino, const char *name,
			     size_t len, struct base_node *ret_node,
			     uint32_t *ret_index);
/* Appends the name of a base inode's position (1 + preorder). */
_must_check_ int base_name(struct base *b, uint64_t ino, struct buf *out);
_must_check_ int base_target(struct base *b, uint64_t ino, struct buf *out);
/* Reads bytes of a base file's content; beyond its size come zeros. */
_must_check_ int base_read(struct base *b, const struct oid *content,
			   uint64_t size, void *data, size_t n,
			   uint64_t offset);
/* Says how many bytes from offset on are all hole (or all data), at most up to
 * size. */
_must_check_ int base_run(struct base *b, const struct oid *content,
			  uint64_t size, uint64_t offset, bool *ret_hole,
			  uint64_t *ret_len);
/* Counts 512-byte blocks of a base file. */
uint64_t base_blocks(struct base *b, const struct oid *content, uint64_t size);

#endif
