/* SPDX-License-Identifier: MIT */
/*
 * env_int.h - the state of an environment and what its files share.
 *
 * base.c reads the snapshot; itable.c, dents.c and data.c hold what changed;
 * journal.c frames transactions; apply.c is the only place that changes state,
 * from the same bytes live and at replay; dir.c, rename.c, file.c, meta.c and
 * xattr.c are the operations: check, compose a transaction, commit it.
 *
 * Contract
 *   Ownership   everything belongs to struct env
 *   Threads     everything here needs the environment's lock
 */
#ifndef COWFS_ENV_ENV_INT_H
#define COWFS_ENV_ENV_INT_H

#include "base/hmap.h"
#include "base/mutex.h"
#include "env/env.h"
#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"
#include "object/xset.h"

enum {
	ENV_BLOCK_SHIFT = 12,
	ENV_BLOCK = 1 << ENV_BLOCK_SHIFT,
	ENV_LEAF_BLOCKS = 512, /* blocks that one leaf maps: 2 MiB */
};

/* --- the base snapshot (base.c) ---------------------------------------- */

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

/* --- changed inodes (itable.c) ----------------------------------------- */

enum iflag {
	IFLAG_CAPS = 1, /* may carry security.capability */
};

/* The attributes that a transaction sets at once. */
struct iattr {
	uint64_t ino;
	uint64_t parent; /* of a directory; else 0 */
	uint64_t rdev, size;
	uint32_t mode, uid, gid, nlink;
	struct timespec atime, mtime, ctime, btime;
};

struct xattr {
	struct xattr *next;
	char *name;
	uint8_t *value;
	size_t len;
};

struct leaf {
	uint64_t index; /* file block / ENV_LEAF_BLOCKS */
	uint64_t run;	/* not BLOCK_NONE: the blocks run on from this one (or
			   are all holes), and b is not there */
	uint32_t cap;	/* slots that are told of */
	uint64_t b[];	/* BLOCK_NONE, BLOCK_HOLE or a block of the data file */
};

enum { BLOCK_NONE = 0, BLOCK_HOLE = 1, BLOCK_FIRST = 2 };

struct dent;
struct names;

struct inode {
	struct hnode node;
	struct iattr a;
	struct oid content;   /* of the base; null when there is none left */
	uint64_t base_size;   /* bytes of content that still show */
	struct oid xset;      /* of the base, while xattrs_own is false */
	struct xattr *xattrs; /* when xattrs_own */
	bool xattrs_own;
	bool has_base; /* a base inode with this number exists */
	uint8_t flags;
	uint64_t private_blocks;
	struct leaf **leaves; /* by index */
	size_t leaf_count;
	char *target;	     /* of a new symlink */
	struct names *names; /* of a directory whose names changed */
	struct dent *dent;   /* of a directory that is new or was moved */
};

struct inode *itable_find(struct env *e, uint64_t ino);
/* Finds the entry, or makes that of a base inode. -ENOENT: no such number. */
_must_check_ int itable_need(struct env *e, uint64_t ino,
			     struct inode **ret_inode);
/* The same, and makes an empty entry for a new number. */
_must_check_ int itable_make(struct env *e, uint64_t ino,
			     struct inode **ret_inode);
/* Frees an inode and gives its blocks back. */
void itable_drop(struct env *e, struct inode *in);
void itable_free_all(struct env *e);
/* The present attributes, changed or not. -ENOENT. */
_must_check_ int inode_get(struct env *e, uint64_t ino, struct iattr *ret_attr);
void inode_from_base(const struct base_node *n, struct iattr *ret_attr);
/* Fills what the kernel wants to know. */
void inode_stat(struct env *e, const struct iattr *a, struct env_attr *ret);
/* Stats a base node whose number may be in the table. */
void inode_stat_node(struct env *e, const struct base_node *n,
		     struct env_attr *ret);

/* --- names (dents.c) --------------------------------------------------- */

struct dent {
	struct hnode node;
	uint64_t ino;	 /* 0: a whiteout */
	uint64_t cookie; /* <= base entries: stands in that base slot */
	uint8_t len;
	char name[];
};

struct order {
	uint64_t cookie;
	struct dent *dent; /* NULL: gone */
};

/* The changed names of one directory. */
struct names {
	struct hmap map;
	struct order *order; /* cookies above the base's, ascending */
	size_t order_len, order_cap, order_gone;
	uint64_t base_count; /* entries of the base tree; 0 when none shows */
	uint64_t next_cookie;
	uint64_t live; /* names now */
	bool opaque;   /* nothing of the base shows */
};

/* What a name stands for now. */
struct found {
	uint64_t ino;
	uint64_t cookie;
};

/* Finds the place of the first order entry with a cookie >= cookie. */
size_t names_place(const struct names *n, uint64_t cookie);
struct dent *names_find(const struct names *n, const char *name, size_t len);
/* Looks a name up in the merged directory. -ENOENT. */
_must_check_ int dir_find(struct env *e, uint64_t dir, const char *name,
			  size_t len, struct found *ret_found);
/* The same, and the attributes in one go. */
_must_check_ int dir_find_attr(struct env *e, uint64_t dir, const char *name,
			       size_t len, struct env_attr *ret_attr);
/* Says whether a directory has no names. */
_must_check_ int dir_is_empty(struct env *e, uint64_t dir, bool *ret_empty);
/* Changes for apply.c. */
_must_check_ int names_need(struct env *e, struct inode *dir);
_must_check_ int names_set(struct env *e, struct inode *dir, const char *name,
			   size_t len, uint64_t ino, uint64_t cookie);
_must_check_ int names_remove(struct env *e, struct inode *dir,
			      const char *name, size_t len);
void names_free(struct env *e, struct inode *dir);
/* The cookie that the next new name of a directory gets. */
_must_check_ int dir_next_cookie(struct env *e, uint64_t dir,
				 uint64_t *ret_cookie);

/* --- data (data.c, map.c) ---------------------------------------------- */

/* Byte offsets in the data file stay below 2^62. */
#define DATA_MAX_BLOCK (UINT64_C(1) << (62 - ENV_BLOCK_SHIFT))

struct range {
	uint64_t block, count;
};

struct data {
	int fd; /* -1 until the first write */
	uint64_t next_block;
	struct range *freed; /* not punched yet */
	size_t freed_len, freed_cap;
	uint64_t freed_blocks;
	uint64_t used_blocks;
};

/* A run of file blocks of one kind. */
enum run_kind { RUN_BASE, RUN_HOLE, RUN_DATA };
struct run {
	enum run_kind kind;
	uint64_t count;
	uint64_t block; /* of the data file, for RUN_DATA */
};

/* Describes blocks from fblock on, at most max. RUN_BASE may lie beyond
 * base_size: zeros. */
struct run map_run(const struct inode *in, uint64_t fblock, uint64_t max);
_must_check_ int map_set(struct env *e, struct inode *in, uint64_t fblock,
			 uint64_t count, uint64_t block);
/* Drops all blocks from fblock on. */
void map_cut(struct env *e, struct inode *in, uint64_t fblock);
void map_free(struct env *e, struct inode *in);

/* Opens the file if there is one; makes it. */
_must_check_ int data_open(struct env *e);
_must_check_ int data_need(struct env *e);
/* Hands out fresh blocks at the end of the data file; they read as zeros. */
uint64_t data_alloc(struct env *e, uint64_t count);
void data_free(struct env *e, uint64_t block, uint64_t count);
/* Gives what was freed back to the host now; a failure only costs space. */
void data_punch(struct env *e);
/* Says whether the host's disk has room for n more bytes. */
bool data_has_room(struct env *e, uint64_t n);
void data_close(struct env *e);
_must_check_ int data_read(struct env *e, void *p, size_t n, uint64_t pos);
_must_check_ int data_write(struct env *e, const void *p, size_t n,
			    uint64_t pos);

/* --- transactions (journal.c, apply.c) --------------------------------- */

enum item_type {
	ITEM_INODE = 1,	  /* struct iattr, field by field */
	ITEM_TIMES = 2,	  /* ino, size, mtime = ctime: after a write */
	ITEM_DENT = 3,	  /* parent, ino, cookie, name */
	ITEM_GONE = 4,	  /* parent, name */
	ITEM_MAP = 5,	  /* ino, file block, count, data block */
	ITEM_CUT = 6,	  /* ino, size: blocks beyond it are dropped */
	ITEM_XATTR = 7,	  /* ino, name, value */
	ITEM_XGONE = 8,	  /* ino, name */
	ITEM_TARGET = 9,  /* ino, bytes of a symlink */
	ITEM_FREE = 10,	  /* ino: an orphan was reaped (take-over) */
	ITEM_COUNTERS = 11, /* next inode number, next data block */
	ITEM_COOKIE = 12, /* directory, next cookie */
	ITEM_OPAQUE = 13, /* directory: nothing of the base shows */
	ITEM_COMMIT = 14, /* what comes before is on stable storage */
	ITEM_BOOT = 15,	  /* boot id of the machine that wrote what follows */
	ITEM_EPOCH = 16,  /* of checkpoints */
};

/* Blocks that one ITEM_MAP may name: what a frame can ask for is bounded. */
enum { TX_MAP_MOST = 1 << 19 };

struct journal {
	int fd;	      /* -1 until the first change */
	uint64_t end; /* bytes that are whole */
	uint64_t seq; /* of the next frame */
	uint64_t salt; /* of the checksums */
	bool broken;  /* memory and file may differ: only reading goes on */
	bool frees;   /* the transaction gives room back: it may take the last */
	uint64_t allocated; /* bytes that the host has promised */
};

void tx_begin(struct env *e);
/* Says that the transaction gives room back: it works on a full disk. */
void tx_frees(struct env *e);
void tx_inode(struct env *e, const struct iattr *a);
void tx_times(struct env *e, uint64_t ino, uint64_t size, struct timespec t);
void tx_dent(struct env *e, uint64_t parent, const char *name, size_t len,
	     uint64_t ino, uint64_t cookie);
void tx_gone(struct env *e, uint64_t parent, const char *name, size_t len);
void tx_map(struct env *e, uint64_t ino, uint64_t fblock, uint64_t count,
	    uint64_t block);
void tx_cut(struct env *e, uint64_t ino, uint64_t size);
void tx_xattr(struct env *e, uint64_t ino, const char *name, const void *value,
	      size_t len);
void tx_xgone(struct env *e, uint64_t ino, const char *name);
void tx_target(struct env *e, uint64_t ino, const char *target);
/* Appends the transaction to the journal and applies it. When it fails before
 * the append nothing has changed. */
_must_check_ int tx_commit(struct env *e);
/* Applies the items of one frame. -EFSCORRUPTED: they make no sense. */
_must_check_ int apply_items(struct env *e, const uint8_t *items, size_t len);
/* Says whether these are the first bytes of a journal of that snapshot. */
enum {
	JOURNAL_HEADER_BYTES = 48, /* magic, version, snapshot, salt, checksum */
};
bool journal_is_header(const uint8_t h[JOURNAL_HEADER_BYTES],
		       const struct oid *snapshot);
/* Replays the file; cuts a torn tail unless read-only. */
_must_check_ int journal_open(struct env *e, struct diag *diag);
void journal_close(struct env *e);

/* --- ACLs (acl.c): the xattr form of the kernel ------------------------- */

/* Sets the permission bits of *mode from an access ACL. Returns 1 when the
 * bits say it all (no need to store it), 0 when not, -EINVAL. */
_must_check_ int acl_to_mode(const void *acl, size_t len, uint32_t *mode);
/* Changes an access ACL in place for chmod. -EINVAL. */
_must_check_ int acl_chmod(void *acl, size_t len, uint32_t mode);
/* Makes the access ACL of a new inode from its parent's default ACL (in place)
 * and narrows *mode. Returns as acl_to_mode. */
_must_check_ int acl_create(void *acl, size_t len, uint32_t *mode);

/* --- xattrs (xattr.c) --------------------------------------------------- */

/* Copies the value into out (cleared). -ENODATA. */
_must_check_ int xattr_value(struct env *e, uint64_t ino, const char *name,
			     struct buf *out);
_must_check_ int xattr_set(struct env *e, struct inode *in, const char *name,
			   const void *value, size_t len);
_must_check_ int xattr_unset(struct env *e, struct inode *in, const char *name);
/* Encodes all of an inode's xattrs in xset form (empty when none). */
_must_check_ int xattr_encode(struct env *e, uint64_t ino, struct buf *out);
void xattr_free_all(struct inode *in);

/* --- shared by operations ----------------------------------------------- */

/* Puts into the transaction the attributes a with cleared setuid, setgid and
 * file capabilities, as after a write. */
void meta_kill_privs(struct env *e, struct iattr *a, bool suidgid);
/* Adds a directory's new times (and link count) to the transaction. */
void meta_touch_dir(struct env *e, struct iattr *dir, struct timespec now);
/* Cuts or grows a file within the transaction: data beyond the end is zeroed
 * where it will show, blocks beyond it are dropped. */
_must_check_ int file_resize(struct env *e, struct iattr *a, uint64_t size);
/* Makes the attributes and the ACLs of a new inode and adds both to the
 * transaction. `a` comes with mode, rdev, size and nlink. */
_must_check_ int dir_new_inode(struct env *e, const struct iattr *parent,
			       const struct env_cred *cred, struct iattr *a);
/* Whether a directory may be moved into another: -EINVAL when that is itself or
 * below it (rename.c). */
_must_check_ int dir_check_loop(struct env *e, uint64_t moved, uint64_t into);
/* Checks a name and that parent is a living directory. */
_must_check_ int dir_check(struct env *e, uint64_t parent, const char *name,
			   struct iattr *ret_parent);
/* Adds to the transaction that an inode lost one name. */
_must_check_ int dir_drop_link(struct env *e, uint64_t ino,
			       struct timespec now);
/* Reads without the lock; for diff and copies. */
_must_check_ ssize_t file_read_locked(struct env *e, uint64_t ino, void *data,
				      size_t n, uint64_t offset);
_must_check_ int file_target_locked(struct env *e, uint64_t ino,
				    struct buf *out);
/* Lists a merged directory, see env_readdir. */
_must_check_ int dir_list_locked(struct env *e, uint64_t ino, uint64_t cookie,
				 env_dirent_fn fn, void *ctx);

struct env {
	struct mutex lock;
	struct store *store;
	char name[65];
	int dirfd;
	bool read_only;
	bool dir_synced; /* the folder's own names are on stable storage */
	struct env_info info;
	/* protected by lock */
	struct base base;
	struct hmap inodes;
	uint64_t next_ino;
	struct data data;
	struct journal journal;
	struct buf tx; /* the transaction being composed */
};

/* No directory is deeper, however they were moved: whoever walks further up
 * walks in a circle. */
static inline uint64_t env_max_depth(const struct env *e)
{
	return e->inodes.count + FORMAT_MAX_DEPTH;
}

#endif
