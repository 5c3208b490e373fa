/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing, the snapshots' records.
 *
 * LMDB may be open once in a process only (a second close would drop the
 * locks of the first), so a registry lets all opens of one directory in one
 * process share a struct store. An entry that a fork has inherited is never
 * used: its process id differs.
 *
 * Walks copy their rows first and call back after the transaction has ended:
 * a callback may take as long as it likes and call the store.
 */
#include "store/store_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mutex.h"
#include "object/format.h"
#include "store/copies_int.h"
#include "store/mark_int.h"
#include "store/pages_int.h"

static struct mutex registry_lock = MUTEX_INIT;
static struct store *registry; /* protected by registry_lock */

/* --- whose it is -------------------------------------------------------- */

/* Also root is refused: what it makes in there the owner could not use, and
 * whoever owns the directory may lead it astray with links. */
static int check_owner(const struct stat *st, const char *path,
		       struct diag *diag)
{
	if (st->st_uid != geteuid())
		return diag_fail(diag, -EACCES,
				 "no permission for the store %s, which is of "
				 "user %u: work as that user, or name another "
				 "one with --store",
				 path, (unsigned)st->st_uid);
	if (st->st_mode & S_IWOTH)
		return diag_fail(diag, -EACCES,
				 "others may write to the store %s: chmod o-w "
				 "it",
				 path);
	return 0;
}

int store_check_owner(const char *path, struct diag *diag)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	return check_owner(&st, path, diag);
}

int store_check_owner_int(int fd, const char *path, struct diag *diag)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? -errno : check_owner(&st, path, diag);
}

/* --- open and close ----------------------------------------------------- */

static REQUIRES(&registry_lock) struct store *find_locked(dev_t dev, ino_t ino)
{
	for (struct store *s = registry; s; s = s->next)
		if (s->dev == dev && s->ino == ino && s->pid == getpid())
			return s;
	return NULL;
}

static REQUIRES(&registry_lock) void drop_locked(struct store *s)
{
	for (struct store **p = &registry; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
}

static void free_store(struct store *s)
{
	if (!s)
		return;
	segments_close(s->segments);
	index_close(s->index);
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s->path);
	free(s);
}

static void free_storep(struct store **s)
{
	free_store(*s);
}

static int fail_index(const struct store *s, struct diag *diag)
{
	return diag_fail(diag, -EFSCORRUPTED,
			 "the index of %s is damaged or missing: run \"cowfs "
			 "fsck --repair\"",
			 s->path);
}

/* LMDB trusts its pages; whatever they hold must have been checked since the
 * file was last changed by somebody who is not known. */
static int check_index(const struct store *s, unsigned flags, struct diag *diag)
{
	_cleanup_close_ int dir =
		openat(s->fd, "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? -errno : 0;

	if (r == 0 && (flags & STORE_READ_ONLY || mark_fits(s->fd)))
		return 0;
	if (r == 0)
		r = pages_check(dir, NULL, NULL);
	if (r == 0)
		mark_write(s->fd);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r > 0)
		return fail_index(s, diag);
	/* Writers at work have checked it; what may not be read, index_open
	 * says better. */
	return r == -EAGAIN || r == -EACCES ? 0 : r;
}

/* Opens LMDB, its pages being checked. */
static int open_pages(struct store *s, unsigned flags, struct diag *diag)
{
	_cleanup_buf_ struct buf dir = {0};
	int r;

	buf_printf(&dir, "%s/index", s->path);
	if (!buf_str(&dir))
		return -ENOMEM;
	r = index_open(buf_str(&dir), flags & STORE_READ_ONLY ? INDEX_LOOK : 0,
		       &s->index);
	if (r == -ENOENT || r == -EFSCORRUPTED || r == -EPROTONOSUPPORT)
		return fail_index(s, diag);
	/* LMDB enters its readers there. */
	if (r == -EACCES)
		return diag_fail(diag, r,
				 "no permission for %s: who reads the store "
				 "needs to write its lock.mdb",
				 buf_str(&dir));
	if (r == 0 && !index_is_read_only(s->index))
		r = index_attach(s->index, s->fd, !(flags & STORE_REPAIR));
	return r;
}

static int open_index(struct store *s, unsigned flags, struct diag *diag)
{
	int r = check_index(s, flags, diag);

	if (r == 0)
		r = open_pages(s, flags, diag);
	if (r < 0 || index_is_read_only(s->index))
		return r;
	r = copies_ensure(s->index);
	if (r == 0)
		return 0;
	if (r == -EFSCORRUPTED || r == -EFSBADCRC)
		return fail_index(s, diag);
	/* Without room for copies the store can still be read; the next commit
	 * tries again, and says why it fails. But LMDB reads nothing more once
	 * it could not write a meta page. */
	index_close(TAKE_PTR(s->index));
	return open_pages(s, flags, diag);
}

/* Opens the parts below the checked directory. */
static int open_parts(struct store *s, const char *path, unsigned flags,
		      struct diag *diag)
{
	int r;

	s->path = realpath(path, NULL);
	if (!s->path)
		return -errno;
	r = store_check_format_int(s->fd, s->path, diag);
	if (r < 0)
		return r;
	r = open_index(s, flags, diag);
	if (r < 0)
		return r;
	r = segments_open(s->fd, &s->segments);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return diag_fail(diag, -EFSCORRUPTED,
				 "%s/segments is missing: run \"cowfs fsck\"",
				 s->path);
	return r;
}

/* Says why there is no store at a directory without `format`. */
static int explain_missing(int fd, const char *path, struct diag *diag)
{
	const int r = store_is_vacant_int(fd);

	if (r < 0)
		return r;
	if (r)
		return diag_fail(diag, -ENOENT, "there is no store at %s",
				 path);
	return diag_fail(diag, -ENOTEMPTY,
			 "%s is not a store and not empty: name another "
			 "directory, or empty this one",
			 path);
}

static REQUIRES(&registry_lock) int open_locked(const char *path,
						unsigned flags,
						struct diag *diag,
						struct store **ret_store)
{
	_cleanup_(free_storep) struct store *s = calloc(1, sizeof *s);
	struct store *known;
	struct stat st;
	int r;

	if (!s)
		return -ENOMEM;
	s->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return -errno;
	known = find_locked(st.st_dev, st.st_ino);
	if (known && !(flags & STORE_READ_ONLY) && known->look)
		return -EBUSY;
	if (known) {
		known->users++;
		*ret_store = known;
		return 0;
	}
	r = faccessat(s->fd, "format", F_OK, 0) < 0 ? -errno : 0;
	if (r == 0)
		r = check_owner(&st, path, diag);
	if (r == -ENOENT)
		return explain_missing(s->fd, path, diag);
	if (r == 0)
		r = open_parts(s, path, flags, diag);
	if (r < 0)
		return r;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	s->pid = getpid();
	s->users = 1;
	s->look = flags & STORE_READ_ONLY;
	s->next = registry;
	registry = s;
	*ret_store = TAKE_PTR(s);
	return 0;
}

/* Opens the store at path or makes it and opens it then. */
static REQUIRES(&registry_lock) int open_or_make_locked(const char *path,
							unsigned flags,
							struct diag *diag,
							struct store **ret)
{
	_cleanup_diag_ struct diag first = {0};
	int r = open_locked(path, flags, flags & STORE_CREATE ? &first : diag,
			    ret);

	if (!(flags & STORE_CREATE))
		return r;
	if (r == -ENOENT) {
		r = store_create_int(path, diag);
		/* Not empty any more: another creator was faster. */
		if (r < 0 && r != -ENOTEMPTY)
			return r;
		return open_locked(path, flags, diag, ret);
	}
	for (size_t i = 0; diag_line(&first, i); i++)
		diag_add(diag, "%s", diag_line(&first, i));
	return r;
}

int store_open(const char *path, unsigned flags, struct diag *diag,
	       struct store **ret_store)
{
	const size_t before = diag ? diag->count : 0;
	int r;

	mutex_lock(&registry_lock);
	r = open_or_make_locked(path, flags, diag, ret_store);
	mutex_unlock(&registry_lock);
	if (r == -EACCES && diag && diag->count == before)
		r = store_check_owner(path, diag) < 0 ? -EACCES : r;
	if (r == 0 || !diag || diag->count > before)
		return r;
	if (r == -ENOENT)
		diag_add(diag, "there is no store at %s", path);
	else if (flags & STORE_CREATE && access(path, F_OK) < 0)
		diag_add(diag,
			 "cannot make the store %s: %s; name another place by "
			 "--store, COWFS_STORE or XDG_DATA_HOME",
			 path, err_text(r));
	else
		diag_add(diag, "cannot open the store %s: %s", path,
			 err_text(r));
	return r;
}

void store_close(struct store *s)
{
	bool last;

	if (!s)
		return;
	mutex_lock(&registry_lock);
	last = --s->users == 0;
	/* Inside the lock: an open of the same store must find it closed. */
	if (last) {
		drop_locked(s);
		free_store(s);
	}
	mutex_unlock(&registry_lock);
}

const char *store_path(const struct store *s)
{
	return s->path;
}

int store_fd(const struct store *s)
{
	return s->fd;
}

/* --- snapshots ---------------------------------------------------------- */

/* Copies the rows of a table whose keys begin with prefix. */
static int copy_rows(struct store *s, struct index_key prefix, struct buf *rows)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(s->index, false, &t);

	return r < 0 ? r : index_list(&t, INDEX_SNAPSHOTS, prefix, rows);
}

static int walk_snapshots(struct store *s, struct index_key prefix,
			  store_snapshot_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf strings = {0};
	_cleanup_buf_ struct buf rows = {0};
	struct snapshot_info info;
	struct bytes in;
	struct oid id;
	int r = copy_rows(s, prefix, &rows);

	in = bytes_of(rows.data, rows.len);
	while (r == 0 && in.left > 0) {
		size_t key_len;
		size_t len;
		const uint8_t *key = bytes_block(&in, OID_BYTES, &key_len);
		const uint8_t *row = bytes_block(&in, INDEX_MAX_VALUE, &len);

		if (in.bad || key_len != OID_BYTES)
			return -EFSCORRUPTED;
		memcpy(id.b, key, OID_BYTES);
		r = index_decode_snapshot(&id, row, len, &strings, &info);
		if (r == 0)
			r = fn(ctx, &info);
	}
	return r;
}

int store_snapshots(struct store *s, store_snapshot_fn fn, void *ctx)
{
	return walk_snapshots(s, index_key_of(NULL, 0), fn, ctx);
}

struct one {
	store_snapshot_fn fn;
	void *ctx;
	bool found;
};

static int call_one(void *ctx, const struct snapshot_info *info)
{
	struct one *o = ctx;

	o->found = true;
	return o->fn(o->ctx, info);
}

int store_snapshot(struct store *s, const struct oid *id, store_snapshot_fn fn,
		   void *ctx)
{
	struct one o = {fn, ctx, false};
	int r = walk_snapshots(s, index_key_of(id->b, OID_BYTES), call_one, &o);

	return r == 0 && !o.found ? -ENOENT : r;
}

/* --- counters ----------------------------------------------------------- */

int store_stat(struct store *s, struct store_stat *ret_stat)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf list = {0};
	struct store_stat stat = {.index_bytes = index_bytes(s->index)};
	struct index_segment seg;
	int r = index_txn_begin(s->index, false, &t);

	if (r == 0)
		r = index_count(&t, INDEX_OBJECTS, &stat.objects);
	if (r == 0)
		r = index_count(&t, INDEX_SNAPSHOTS, &stat.snapshots);
	if (r == 0)
		r = index_count(&t, INDEX_REFS, &stat.refs);
	if (r == 0)
		r = index_list_segments(&t, &list);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.len; i += sizeof seg) {
		memcpy(&seg, list.data + i, sizeof seg);
		stat.segment_bytes += seg.end;
	}
	*ret_stat = stat;
	return 0;
}
