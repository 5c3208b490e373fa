/* SPDX-License-Identifier: MIT */
/*
 * env_int.h - the state of an environment and what its files share.
 *
 * base.c reads the snapshot; itable.c, dents.c and data.c hold what changed;
 * tx.c composes transactions, journal.c frames and appends them, frames.c and
 * replay.c read them again; commit.c puts them on stable storage, compact.c
 * makes the file short; apply.c is the only place that changes state, from the
 * same bytes live and at replay; dir.c, rename.c, file.c, meta.c and
 * xattr.c are the operations: check, compose a transaction, commit it.
 *
 * Contract
 *   Ownership   everything belongs to struct env
 *   Threads     everything here needs the environment's lock
 */
#ifndef COWFS_ENV_ENV_INT_H
#define COWFS_ENV_ENV_INT_H

#include "base/boot.h"
#include "base/hmap.h"
#include "base/mutex.h"
#include "base/name.h"
#include "env/base_int.h"
#include "env/env.h"
#include "object/format.h"
#include "object/xset.h"

enum {
	ENV_BLOCK_SHIFT = 12,
	ENV_BLOCK = 1 << ENV_BLOCK_SHIFT,
	ENV_LEAF_BLOCKS = 512, /* blocks that one leaf maps: 2 MiB */
};

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

/* Blocks of the data file; sorted and joined where it says so. */
struct ranges {
	struct range *v;
	size_t len, cap;
	uint64_t blocks; /* all of them */
};

void ranges_fini(struct ranges *l);
/* Appends; a list that cannot grow loses them. */
void ranges_add(struct ranges *l, uint64_t block, uint64_t count);
/* Sorts and joins. */
void ranges_sort(struct ranges *l);
/* Appends all of one list to another and empties it. */
void ranges_move(struct ranges *to, struct ranges *from);
/* Takes blocks that follow each other, from *at on; BLOCK_NONE: there are none
 * nearby. */
uint64_t ranges_take(struct ranges *l, size_t *at, uint64_t count);

enum {
	DATA_DIRTY_MOST = 17, /* blocks that a commit may copy: 64 KiB */
	DATA_TAKEN_MOST = 32,
};

struct data {
	int fd; /* -1 until the first write */
	uint64_t next_block;
	uint64_t op_start; /* next_block when the operation began: blocks from
			      there on read as zeros */
	struct range taken[DATA_TAKEN_MOST]; /* by the operation */
	unsigned taken_len;
	/* a block that a record frees goes from one list to the next: */
	struct ranges freed;   /* no commit covers the record yet */
	struct ranges freeing; /* the one that runs does */
	struct ranges spare;   /* free; sorted */
	struct ranges holes;   /* free, and punched out; sorted */
	size_t spare_at;       /* where the next one is looked for */
	/* written since the last commit */
	uint64_t dirty[DATA_DIRTY_MOST];
	unsigned dirty_len;
	bool dirty_much; /* more than that */
	bool unsynced;	 /* written since the file was last synced */
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
/* Counts a file's own blocks. */
uint64_t map_count(const struct inode *in);

/* Opens the file if there is one; makes it. */
_must_check_ int data_open(struct env *e);
_must_check_ int data_need(struct env *e);
/* Begins an operation that takes blocks; data_undo gives them back when it
 * has failed. */
void data_begin(struct env *e);
void data_undo(struct env *e);
/* Hands blocks out. Those from op_start on read as zeros, others hold anything.
 */
uint64_t data_alloc(struct env *e, uint64_t count);
/* The same, at the end of the file: they read as zeros. */
uint64_t data_alloc_fresh(struct env *e, uint64_t count);
/* What a record has freed; free after a commit that covers it. */
void data_free(struct env *e, uint64_t block, uint64_t count);
/* A commit begins, and has ended well: what it covers is free. */
void data_freeing(struct env *e);
void data_freed(struct env *e);
/* After replay: every block below next_block that no file has counts as just
 * freed. */
_must_check_ int data_find_free(struct env *e);
/* Takes some spare blocks out to punch (all: whatever their number), at most
 * max ranges; data_punched puts them back. Returns how many ranges. */
size_t data_take_spare(struct env *e, bool all, struct range *v, size_t max);
void data_punched(struct env *e, const struct range *v, size_t len, bool last);
/* Punches one range; without the lock. */
void data_punch(int fd, const struct range *r);
/* Blocks that files have. */
uint64_t data_used(const struct env *e);
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
	ITEM_DATA = 17,	  /* block of the data file, its bytes */
};

enum { COMMIT_FULL = 1 }; /* the data file was synced, too */

/* Blocks that one ITEM_MAP may name: what a frame can ask for is bounded. */
enum { TX_MAP_MOST = 1 << 19 };

struct journal {
	int fd;	      /* -1 until the first change */
	uint64_t end; /* bytes that are whole */
	uint64_t seq; /* of the next frame */
	uint64_t salt; /* of the checksums */
	bool booted;  /* a BOOT record of this boot is in it */
	bool broken;  /* memory and file may differ: only reading goes on */
	bool frees;   /* the transaction gives room back: it may take the last */
	uint64_t allocated; /* bytes that the host has promised */
	uint64_t zeroed;    /* the file's length: zeros behind `end` */
	uint64_t covered;   /* frames below are committed */
	uint64_t synced;    /* frames below are on stable storage */
	uint64_t copied;    /* bytes of data that commit records carry */
	uint64_t state;	    /* bytes that the state took when compacted last */
	uint64_t retry;	    /* no compaction before it has so many bytes */
};

/* Commits, one after the other (commit.c). Whoever runs one has `running`. */
struct commits {
	pthread_cond_t ended; /* of a commit, or a step of punching */
	unsigned punching;    /* who is at one */
	bool running;
	uint64_t started, done; /* how many */
	int err;		/* of the last */
	bool failed;		/* one could not sync: none can be trusted */
	unsigned asked;		/* commits that somebody waited for */
	uint64_t dirty_ns;	/* when the first change since came; 0: none */
	uint64_t seen;		/* started, when env_tend looked last */
	bool told;		/* on_dirty was called, and env_tend is to come */
	bool urgent;		/* the same, for much freed room */
	env_dirty_fn on_dirty;
	void *ctx;
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
void tx_counters(struct env *e);
void tx_cookie(struct env *e, uint64_t dir, uint64_t next);
void tx_opaque(struct env *e, uint64_t dir);
/* A commit: all frames before but `uncovered` are committed, all but `unsynced`
 * were on stable storage before. */
void tx_covers(struct env *e, uint64_t uncovered, uint64_t unsynced, bool full);
void tx_boot(struct env *e, const char *id);
void tx_data(struct env *e, uint64_t block, const uint8_t data[ENV_BLOCK]);
/* Appends the transaction to the journal and applies it. When it fails before
 * the append nothing has changed. */
_must_check_ int tx_commit(struct env *e);
/* Appends a commit record, which changes nothing. */
_must_check_ int journal_append_commit(struct env *e);
/* Applies the items of one frame. -EFSCORRUPTED: they make no sense. */
_must_check_ int apply_items(struct env *e, const uint8_t *items, size_t len);

enum {
	JOURNAL_HEADER_BYTES = 48, /* magic, version, snapshot, salt, checksum */
	JOURNAL_FRAME_BYTES = 24,  /* magic, length, sequence, checksum */
	JOURNAL_FRAME_MAX = 4 << 20,
};
#define JOURNAL_NEW "journal.new"

/* Says whether these are the first bytes of a journal of that snapshot. */
bool journal_is_header(const uint8_t h[JOURNAL_HEADER_BYTES],
		       const struct oid *snapshot);
/* Makes a file with a header and nothing in it. */
_must_check_ int journal_make(struct env *e, const char *name, int *ret_fd,
			      uint64_t *ret_salt);
/* Sees to it that the host has room for n bytes more and some spare ones. */
_must_check_ int journal_reserve(struct env *e, uint64_t n);
/* Writes zeros behind the end, if fewer than n bytes of them are there: records
 * that overwrite them do not make the file longer, which makes syncing it
 * cheap. A failure costs only time. */
void journal_zero_ahead(struct env *e, uint64_t n);
/* Cuts them off again. */
void journal_cut_zeros(struct env *e);
uint64_t journal_checksum(uint64_t salt, const uint8_t *frame, size_t len);
/* Fills in the head of a frame of len bytes of items. */
void journal_frame(uint64_t salt, uint64_t seq, uint8_t *frame, size_t len);
/* Replays the file; cuts off what does not count, unless read-only. */
_must_check_ int journal_open(struct env *e, struct diag *diag);
/* Replays the frames of the first `end` bytes and nothing else. */
_must_check_ int journal_replay_prefix(struct env *e, uint64_t end);
void journal_close(struct env *e);

bool journal_is_unborn(int fd); /* no beginning, never committed: unborn.c */

/* --- commits (commit.c, compact.c) -------------------------------------- */

/* Notes that there is something to commit. */
void commit_note_change(struct env *e);
/* After -ENOSPC: commits and gives back what was freed. Says whether trying
 * again may help; `tried` is false at first. */
_must_check_ bool commit_makes_room(struct env *e, int err, bool *tried);
/* The value of `call`, made with the lock held; of a second one if the first
 * finds no room and a commit may have made some. */
#define WITH_ROOM(e, call)                                                     \
	({                                                                     \
		bool tried_ = false;                                           \
		int room_;                                                     \
                                                                               \
		do {                                                           \
			mutex_lock(&(e)->lock);                                \
			room_ = (call);                                        \
			mutex_unlock(&(e)->lock);                              \
		} while (commit_makes_room((e), room_, &tried_));              \
		room_;                                                         \
	})
/* Says whether the journal is much longer than what it says. */
bool compact_is_due(const struct env *e);
/* Makes it short; without the lock, in one thread at a time. */
_must_check_ int compact_run(struct env *e);

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
void xattr_free_all(struct env *e, struct inode *in);
/* Adds to the transaction that what the base has is gone, name by name. */
_must_check_ int xattr_gone_base(struct env *e, const struct inode *in);

/* --- quota (quota.c) ---------------------------------------------------- */

void use_add(uint64_t *sum, uint64_t n); /* of e->use; -n is allowed */
/* Asks for growth, after tx_begin and before a byte of it is written.
 * -EDQUOT; -ENOSPC: only the reserve is left on the disk. */
_must_check_ int grow_take(struct env *e, uint64_t bytes, uint64_t inodes);

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
	char name[NAME_MAX_ENV + 1];
	int dirfd;
	bool read_only;
	bool checks;   /* for fsck: content is not asked for */
	bool is_volatile; /* fsync waits for nothing */
	struct env_info info;
	/* protected by lock */
	struct base base;
	struct hmap inodes;
	uint64_t next_ino;
	struct data data;
	struct journal journal;
	struct commits commits;
	bool dir_synced;  /* the folder's names are on stable storage */
	bool writes_data; /* replay: data that records carry is due */
	struct buf tx;	  /* the transaction being composed */
	struct env_use grow; /* that it has asked for */
	struct env_use use;  /* by the lock; read without it, see quota.c */
};

/* Commits what is there now, and waits for it; the lock is let go meanwhile.
 * full: the data file, too. */
_must_check_ int commit_locked(struct env *e, bool full) REQUIRES(&e->lock);
/* Becomes who runs commits, and ceases to be. */
void commit_enter(struct env *e) REQUIRES(&e->lock);
void commit_leave(struct env *e) REQUIRES(&e->lock);
/* No directory is deeper, however they were moved: whoever walks further up
 * walks in a circle. */
static inline uint64_t env_max_depth(const struct env *e)
{
	return e->inodes.count + FORMAT_MAX_DEPTH;
}

#endif
