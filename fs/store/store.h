/* SPDX-License-Identifier: MIT */
/*
 * store.h - the store: objects by name, snapshots, refs.
 *
 * A store is a directory. Several processes may have it open: each writer
 * (struct batch) appends to a segment of its own, LMDB's writer lock orders
 * the commits. The LMDB commit is the only commit point; the segment bytes
 * that it names are synced before it.
 *
 * Contract
 *   Ownership   store_open/store_close; returned buffers are the caller's
 *   Durability  batch_commit, store_ref_*: on stable storage when they return
 *   Threads     a struct store: any thread; a struct batch: one at a time
 *   Errors      -ENOENT: no such object, ref, snapshot; -EFSBADCRC and
 *               -EFSCORRUPTED: damage; -ENOSPC passes through
 */
#ifndef COWFS_STORE_STORE_H
#define COWFS_STORE_STORE_H

#include "base/buf.h"
#include "base/diag.h"
#include "object/oid.h"

#include <stdint.h>
#include <time.h>

struct snap;
struct store;
struct batch;

enum store_open_flags {
	STORE_CREATE = 1, /* make it when the path is missing or empty */
	/* Changes nothing, and does not check the index's pages: for fsck, which
	 * has done so. */
	STORE_READ_ONLY = 2,
	STORE_REPAIR = 4, /* by who has the index alone (guard_int.h) */
};

/* Opens (or creates, mode 0700) a store. LMDB forbids a fork after this: call
 * it after the last fork. Opens of one store in one process share it; each has
 * its close. -ENOENT: no store there; -EPROTONOSUPPORT: a format of a later
 * version; -ENOTEMPTY: the directory holds something else. */
/* Says whether the directory may be this user's store: it is owned by it, and
 * nobody else may write there. -EACCES; one that does not exist is fine. */
_must_check_ int store_check_owner(const char *path, struct diag *diag);
_must_check_ int store_open(const char *path, unsigned flags, struct diag *diag,
			    struct store **ret_store);
void store_close(struct store *s);
/* The store's directory as an absolute path, and as a descriptor; lent. */
const char *store_path(const struct store *s);
int store_fd(const struct store *s);

/* --- objects ----------------------------------------------------------- */

/* Appends the object's bytes, checked against the record's checksum. */
_must_check_ int store_get(struct store *s, const struct oid *id,
			   struct buf *out);
/* Reads and decodes a snapshot. */
_must_check_ int store_get_snap(struct store *s, const struct oid *id,
				struct snap *ret_snap);
/* Reads into raw exactly oid_length(id) bytes, checked. */
_must_check_ int store_read(struct store *s, const struct oid *id, void *raw);
/* Returns 1 or 0. */
_must_check_ int store_has(struct store *s, const struct oid *id);

/* Looks for segments that gc has removed and lets them go. Reads do that too,
 * but a server may have none for a long time. */
void store_refresh(struct store *s);
/* Keeps gc from deleting while the descriptor is open: for who is about to make
 * a root of something that it found. Waits while a gc deletes. */
_must_check_ int store_pin(struct store *s, int *ret_pin);
/* Says whether a gc works or waits, so that a batch would have to wait. */
bool store_is_collecting(struct store *s);

/* Starts a group of puts. -EROFS: the store is open for reading only. */
_must_check_ int batch_begin(struct store *s, struct batch **ret_batch);
/* Stores bytes and returns their name. On a dedup hit the bytes are compared;
 * a true collision gets another counter. Not visible before the commit; may
 * commit what was put so far by itself (harmless: unreachable objects). After
 * an error every further put and the commit fail with the same; -EEXIST is as
 * from batch_commit. */
_must_check_ int batch_put(struct batch *b, enum oid_kind kind,
			   const void *data, size_t len, struct oid *ret_id);
/* Like store_get, and sees what the batch has put. */
_must_check_ int batch_get(struct batch *b, const struct oid *id,
			   struct buf *out);
/* Says whether an object is there, put by this batch or before: 1 or 0. It
 * stays at least until the batch has ended. Its bytes are not looked at. */
_must_check_ int batch_has(struct batch *b, const struct oid *id);
/* Says that the batch saves what is to be deleted then: the store's limit does
 * not count, and of the disk only the reserve of what deletes is left alone. */
void batch_is_urgent(struct batch *b);
/* Says how many bytes the batch has appended so far. */
uint64_t batch_bytes_written(const struct batch *b);

/* What is known of a snapshot beside its id. Strings are never NULL when it
 * is read, and may be when it is written. */
struct snapshot_info {
	struct oid id;
	int64_t time_sec;   /* of the (last) import */
	uint64_t inodes;    /* root included */
	uint64_t bytes;	    /* apparent size of its files */
	const char *source; /* absolute path it came from, or "" */
	const char *host;
	const char *message;
	/* Of a git repository at its root when it was taken, else "": where its
	 * refs and objects are, the branch as a full ref ("": HEAD is
	 * detached), and the commit in hex ("": there is none yet). */
	const char *git_dir;
	const char *git_head;
	const char *git_commit;
};

/* Commits everything, records the snapshot and, when ref is not NULL, lets
 * that name (NAME:TAG) point to it; all in one transaction. Frees the batch in
 * every case. info may be NULL: objects only, no ref. -ENOENT: info's object
 * is not there. -E2BIG: a string of it is too long. -EEXIST: another writer
 * made a colliding object meanwhile; nothing was made visible, try again. */
_must_check_ int batch_commit(struct batch *b, const struct snapshot_info *info,
			      const char *ref);
/* Drops everything not committed. NULL is allowed. */
void batch_abort(struct batch *b);

/* --- snapshots and refs ------------------------------------------------ */

/* Calls back for every snapshot (unordered) or ref (by name); a callback's
 * non-zero result ends the walk and is returned. Callbacks may call the store.
 */
typedef int (*store_snapshot_fn)(void *ctx, const struct snapshot_info *info);
typedef int (*store_ref_fn)(void *ctx, const char *ref, const struct oid *id);
_must_check_ int store_snapshots(struct store *s, store_snapshot_fn fn,
				 void *ctx);
_must_check_ int store_refs(struct store *s, store_ref_fn fn, void *ctx);
/* Appends the names of environments, sorted, NAME_MAX_LABEL + 1 bytes each.
 * flags: of io_open_names, for their folder. -ENOENT: it is missing. */
_must_check_ int store_env_names(struct store *s, int flags, struct buf *out);
/* Finds one snapshot's info: calls back once. -ENOENT. */
_must_check_ int store_snapshot(struct store *s, const struct oid *id,
				store_snapshot_fn fn, void *ctx);

/* Resolves NAME, NAME:TAG, an id or a unique prefix (>= 4 hex digits) of an
 * id. A ref wins over a prefix. -ENOENT; -ENOTUNIQ: the prefix fits several
 * (diag says which). On -ENOENT diag may carry near matches. */
_must_check_ int store_resolve(struct store *s, const char *what,
			       struct diag *diag, struct oid *ret_id);
/* Sets, reads, deletes NAME:TAG. -ENOENT: no such snapshot or ref. */
_must_check_ int store_ref_set(struct store *s, const char *ref,
			       const struct oid *id);
_must_check_ int store_ref_get(struct store *s, const char *ref,
			       struct oid *ret_id);
_must_check_ int store_ref_delete(struct store *s, const char *ref);
/* Forgets a snapshot's record (its objects stay until gc). -EBUSY: a ref still
 * points to it. */
_must_check_ int store_snapshot_forget(struct store *s, const struct oid *id);

/* Checks NAME or NAME:TAG and writes NAME:TAG with the default tag. -EINVAL. */
_must_check_ int store_ref_normalize(const char *ref, char *ret_ref, size_t n);
enum { STORE_REF_MAX = 2 * 64 + 2 }; /* bytes with NUL */

/* --- scans: what an import remembers for the next one ------------------- */

/* A scan is a cache: bytes under a name, which may be gone at any time and
 * are not synced. Its reader checks them. */
enum { STORE_SCAN_NAME_MAX = 64 }; /* bytes with NUL; no '/' */
/* Appends the scan of that name. -ENOENT; -EFBIG: more than max bytes. */
_must_check_ int store_scan_read(struct store *s, const char *name, size_t max,
				 struct buf *out);
/* Sets it, as a whole; forgets scans that nobody has read for a month. */
_must_check_ int store_scan_replace(struct store *s, const char *name,
				    const void *data, size_t len);
/* Reads the store's epoch, a random number; makes one when there is none. As
 * long as it is the same, no object was removed from the store: a name that
 * is there stands for the same bytes as before. */
_must_check_ int store_epoch(struct store *s, uint64_t *ret_epoch);

/* Counters for `show`, `stat` and tests. */
struct store_stat {
	uint64_t objects;
	uint64_t snapshots;
	uint64_t refs;
	uint64_t segment_bytes;
	uint64_t index_bytes;
};
_must_check_ int store_stat(struct store *s, struct store_stat *ret_stat);

#endif
