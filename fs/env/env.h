/* SPDX-License-Identifier: MIT */
/*
 * env.h - an environment: POSIX on top of a snapshot plus a delta.
 *
 * One function per file system operation, by inode number. Numbers are the
 * base's preorder positions plus 1 (the root is 1); what is made new gets
 * numbers above the base's, never one twice. Nothing is held per base inode
 * that was merely looked at. Every change is appended to the journal before
 * the call returns; opening an environment replays it.
 *
 * Contract
 *   Ownership   env_open/env_close; buffers stay the caller's
 *   Durability  a change survives the death of this process when its call
 *               returned; env_sync makes it survive the machine's
 *   Threads     any: each call takes the environment's lock. Callbacks run
 *               with the lock held and must not call back
 *   Errors      as the system call of that name; -EROFS when read-only; -EIO
 *               after the journal could not be written (nothing was changed);
 *               -EDQUOT and -ENOSPC (the disk's reserve) from what grows, and
 *               nothing has changed
 */
#ifndef COWFS_ENV_ENV_H
#define COWFS_ENV_ENV_H

#include "base/buf.h"
#include "base/diag.h"
#include "object/format.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct env;

enum { ENV_ROOT = 1 }; /* inode number of the root directory */

struct env_attr {
	uint64_t ino;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	uint64_t rdev;
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	struct timespec atime;
	struct timespec mtime;
	struct timespec ctime;
	struct timespec btime;
};

/* Who asks, and for creation the umask (the kernel does not apply it). */
struct env_cred {
	uint32_t uid;
	uint32_t gid;
	uint32_t umask;
};

/* --- life -------------------------------------------------------------- */

/* What bounds an environment; 0: no bound. What counts is struct env_use. */
struct env_limits {
	uint64_t bytes;
	uint64_t inodes;
	uint64_t ttl_sec; /* after which a mount ends: the server sees to it */
};

/* What an environment stores itself: 4 KiB for each block of its own, the
 * bytes of xattrs (names and values) of inodes whose xattrs changed, and of
 * the targets of new symlinks; and the inodes that it made. What was removed
 * counts as long as it is open. */
struct env_use {
	uint64_t bytes;
	uint64_t inodes;
};

/* The network that its commands have. */
enum env_net {
	ENV_NET_AUTO, /* not decided */
	ENV_NET_HOST,
	ENV_NET_PRIVATE,
	ENV_NET_NONE,
	ENV_NET_END
};

/* The ports that the host is to reach, each once, in the user's order. */
struct env_ports {
	uint32_t count;
	uint16_t v[FORMAT_MAX_PORTS];
};
static inline bool env_has_port(const struct env_ports *p, uint64_t port)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->v[i] == port)
			return true;
	return false;
}

/* The checksummed file `env`; the snapshot never changes. */
struct env_info {
	struct oid snapshot;
	char source[4096]; /* the origin's path, or "" */
	char at[4096];	   /* where it is to be mounted when not below mnt/ */
	char ref[160];	   /* what the user named, for people */
	int64_t created_sec;
	bool made_mountpoint; /* `at` did not exist: remove it at umount */
	struct env_limits limits;
	enum env_net net;
	struct env_ports ports;
	bool owned; /* the snapshot's files are shown as this user's */
	uint32_t uid, gid;
};

/* Makes STORE/envs/NAME; waits for no sync. -EEXIST. Everywhere here NAME may
 * be the HOME of an environment (name_is_env): one that lies in its folder and
 * goes with it. */
_must_check_ int env_create(struct store *s, const char *name,
			    const struct env_info *info);
_must_check_ int env_read_info(struct store *s, const char *name,
			       struct env_info *ret_info);
/* Replaces the checksummed file; it is on stable storage then when anything of
 * the environment may be. One that is open goes on with the old file:
 * env_set_limits. */
_must_check_ int env_write_info(struct store *s, const char *name,
				const struct env_info *info);

enum env_open_flags {
	ENV_READ_ONLY = 1, /* changes nothing in the folder either */
	ENV_CHECK = 2,	   /* with it: for fsck, which reads no content */
	ENV_VOLATILE = 4,  /* env_sync waits for nothing */
};

/* Opens it by replaying its journal. -EBUSY: open elsewhere. -EFSBADCRC: the
 * journal is damaged before its end; nothing was changed. */
_must_check_ int env_open(struct store *s, const char *name, unsigned flags,
			  struct diag *diag, struct env **ret_env);
/* Opens a snapshot as an environment that nobody can change; it has no folder.
 */
_must_check_ int env_open_snapshot(struct store *s, const struct oid *snapshot,
				   struct env **ret_env);
/* Which state an environment is in: its journal and how much of it. The same
 * mark, the same state; both are 0 as long as nothing was changed. */
struct env_mark {
	uint64_t salt, frames;
};
void env_get_mark(struct env *e, struct env_mark *ret_mark);
/* Closes; everything acknowledged is in the files already, not necessarily on
 * stable storage. NULL is allowed. */
void env_close(struct env *e);
/* The same, but commits before: for an environment that is kept. */
_must_check_ int env_close_kept(struct env *e);
/* Says whether anything differs from the snapshot, cheaply: false may be
 * "changed and undone". */
bool env_is_pristine(struct env *e);
/* Moves the folder STORE/envs/NAME to trash; emptied by store_trash users. */
_must_check_ int env_remove(struct store *s, const char *name);
/* Deletes what is in STORE/trash, except what this process is just making;
 * called in the background. One process at a time makes and empties. */
_must_check_ int env_empty_trash(struct store *s);

/* Says which object of the snapshot could not be read last, once; for the log.
 */
bool env_take_bad(struct env *e, struct oid *ret_id);

struct env_stat {
	uint64_t base_inodes;
	uint64_t changed_inodes;
	uint64_t data_bytes;	/* allocated in the data file */
	uint64_t journal_bytes;
	bool is_volatile;
};
void env_stat(struct env *e, struct env_stat *ret_stat);

/* --- quota ------------------------------------------------------------- */

/* New bounds for an open environment, from the next call on. Calls that would
 * go beyond are refused with -EDQUOT; what is beyond already stays, and
 * everything that does not grow works. */
void env_set_limits(struct env *e, const struct env_limits *limits);
/* What counts against the bounds; takes no lock. */
void env_use(struct env *e, struct env_use *ret_use);
/* Counts it anew, inode by inode: the same, unless the code is wrong. */
void env_recount(struct env *e, struct env_use *ret_use);

/* --- names ------------------------------------------------------------- */

_must_check_ int env_lookup(struct env *e, uint64_t parent, const char *name,
			    struct env_attr *ret_attr);
_must_check_ int env_mknod(struct env *e, uint64_t parent, const char *name,
			   uint32_t mode, uint64_t rdev,
			   const struct env_cred *cred,
			   struct env_attr *ret_attr);
_must_check_ int env_mkdir(struct env *e, uint64_t parent, const char *name,
			   uint32_t mode, const struct env_cred *cred,
			   struct env_attr *ret_attr);
_must_check_ int env_symlink(struct env *e, uint64_t parent, const char *name,
			     const char *target, const struct env_cred *cred,
			     struct env_attr *ret_attr);
/* Makes a file without a name (O_TMPFILE); env_link gives it one. */
_must_check_ int env_tmpfile(struct env *e, uint64_t parent, uint32_t mode,
			     const struct env_cred *cred,
			     struct env_attr *ret_attr);
_must_check_ int env_link(struct env *e, uint64_t ino, uint64_t new_parent,
			  const char *new_name, struct env_attr *ret_attr);
_must_check_ int env_unlink(struct env *e, uint64_t parent, const char *name);
_must_check_ int env_rmdir(struct env *e, uint64_t parent, const char *name);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT. */
_must_check_ int env_rename(struct env *e, uint64_t parent, const char *name,
			    uint64_t new_parent, const char *new_name,
			    unsigned flags);
_must_check_ int env_readlink(struct env *e, uint64_t ino, struct buf *out);

/* Lists a directory from a cookie (0: the start) without "." and "..". The
 * callback gets the cookie of the *next* entry and returns false to stop (that
 * entry was not taken). Attributes are those of env_lookup. */
typedef bool (*env_dirent_fn)(void *ctx, const char *name, size_t name_len,
			      const struct env_attr *attr, uint64_t next);
_must_check_ int env_readdir(struct env *e, uint64_t ino, uint64_t cookie,
			     env_dirent_fn fn, void *ctx);
/* The inode number of "..", the root's own for the root. */
_must_check_ int env_parent(struct env *e, uint64_t ino, uint64_t *ret_parent);

/* --- attributes -------------------------------------------------------- */

enum env_set {
	ENV_SET_MODE = 1,
	ENV_SET_UID = 2,
	ENV_SET_GID = 4,
	ENV_SET_SIZE = 8,
	ENV_SET_ATIME = 16,
	ENV_SET_MTIME = 32,
	ENV_SET_CTIME = 64,
	ENV_KILL_SUIDGID = 128, /* clear setuid, setgid, capabilities */
};

_must_check_ int env_getattr(struct env *e, uint64_t ino,
			     struct env_attr *ret_attr);
/* Sets what `set` names from values; ctime moves unless given. */
_must_check_ int env_setattr(struct env *e, uint64_t ino, unsigned set,
			     const struct env_attr *values,
			     struct env_attr *ret_attr);
_must_check_ int env_setxattr(struct env *e, uint64_t ino, const char *name,
			      const void *value, size_t len, int flags,
			      bool kill_sgid);
/* Returns the value's length; copies it when size is not 0. -ENODATA,
 * -ERANGE. */
_must_check_ ssize_t env_getxattr(struct env *e, uint64_t ino, const char *name,
				  void *value, size_t size);
/* The names, each ending in NUL; likewise. */
_must_check_ ssize_t env_listxattr(struct env *e, uint64_t ino, char *list,
				   size_t size);
_must_check_ int env_removexattr(struct env *e, uint64_t ino, const char *name);

/* --- content ----------------------------------------------------------- */

/* Returns the count, short only at the end of the file. */
_must_check_ ssize_t env_read(struct env *e, uint64_t ino, void *data, size_t n,
			      uint64_t offset);
/* Writes all n bytes or fails. */
_must_check_ int env_write(struct env *e, uint64_t ino, const void *data,
			   size_t n, uint64_t offset, bool kill_suidgid);
/* mode as fallocate(2): 0, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE. */
_must_check_ int env_fallocate(struct env *e, uint64_t ino, int mode,
			       uint64_t offset, uint64_t len);
/* whence: SEEK_DATA or SEEK_HOLE. -ENXIO. */
_must_check_ int env_seek(struct env *e, uint64_t ino, uint64_t offset,
			  int whence, uint64_t *ret_offset);
_must_check_ ssize_t env_copy_range(struct env *e, uint64_t in,
				    uint64_t in_offset, uint64_t out,
				    uint64_t out_offset, size_t n);
/* Puts everything acknowledged on stable storage. Callers that wait at the same
 * time share the work; others are not held up. */
_must_check_ int env_sync(struct env *e);
/* Says whether env_sync would have nothing to wait for. Cheap. */
bool env_is_synced(struct env *e);

/* Has fn called at the first change after a commit, and at once when there is
 * something to do already. It runs with the lock held and must not call back.
 */
typedef void (*env_dirty_fn)(void *ctx);
void env_on_dirty(struct env *e, env_dirty_fn fn, void *ctx);
/* Does what is due: a commit some seconds after the first change, giving freed
 * room back, compacting the journal. From one thread at a time. Returns after
 * how many milliseconds to call again; 0: not before fn was called. */
unsigned env_tend(struct env *e);

/* The disk's, without the reserve; or what the quota leaves of it. */
struct env_space {
	uint64_t block_size;
	uint64_t blocks, blocks_free, blocks_avail;
	uint64_t inodes, inodes_free;
};
_must_check_ int env_statfs(struct env *e, struct env_space *ret_space);

/* --- inodes without a name --------------------------------------------- */

/* Says whether the inode has no name left and so waits for the kernel to
 * forget it. Cheap: asked at every FORGET. */
bool env_is_orphan(struct env *e, uint64_t ino);
/* Frees an orphan that the kernel does not know any more. */
void env_reap(struct env *e, uint64_t ino);
/* Calls back for every orphan's number (at open of a kept environment none is
 * known to the kernel: env_open reaps them itself). */
void env_reap_all(struct env *e);

#endif
