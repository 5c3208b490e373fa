/* SPDX-License-Identifier: MIT */
/*
 * How: LMDB with its default durability. Never MDB_WRITEMAP, MDB_NOSYNC or
 * MDB_NOMETASYNC: the commit of a write transaction is the store's only commit
 * point, and without a writable map a stray pointer of ours cannot reach the
 * file and a test library sees every write.
 *
 * LMDB's pages carry no checksums, so each value ends in one over its table,
 * key and bytes. A bit that flips in a key makes the row unfindable or its
 * checksum wrong; both are seen.
 *
 * Reading is the hot path (one lookup for each object): a transaction object
 * that was used is reset, kept, and renewed by the next reader, which costs no
 * lock of LMDB's. MDB_NOTLS ties reader slots to those objects, not to
 * threads. The pool is small, because a kept one holds a slot of the 512 that
 * all processes share.
 *
 * The map is 64 GiB of address space, not of disk or memory; where the process
 * may not have that much (ulimit -v), a smaller one is tried.
 */
#include "store/index_int.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mutex.h"
#include "store/bus_int.h"
#include "store/copies_int.h"
#include "store/guard_int.h"
#include "store/headroom_int.h"
#include "store/mark_int.h"

enum {
	POOL_TXNS = 8,
	MAX_READERS = 512,
	CHECKSUM_BYTES = 8,
};

#define MAP_BYTES_MAX (UINT64_C(64) << 30)
#define MAP_BYTES_MIN (UINT64_C(64) << 20)

static const char *const table_names[INDEX_TABLES] = {
	[INDEX_OBJECTS] = "obj",  [INDEX_SNAPSHOTS] = "snap",
	[INDEX_REFS] = "ref",	  [INDEX_SEGMENTS] = "seg",
	[INDEX_META] = "meta",	  [INDEX_RESCUES] = "rescue",
	[INDEX_LEASES] = "lease",
};

struct index {
	MDB_env *env;
	MDB_dbi tables[INDEX_TABLES];
	size_t table_count; /* few in an old one that is only read */
	bool read_only;
	int store_fd; /* -1: commits leave copies and mark alone */
	bool guarded;
	struct guard guard;
	struct mutex lock;
	MDB_txn *pool[POOL_TXNS]; /* protected by lock; reset readers */
	size_t pooled;		  /* protected by lock */
	atomic_uint_fast64_t seen;
};

/* The one place where LMDB's errors become ours. */
static int index_error(int rc)
{
	/* Read from zeros, so "not found" means nothing, nor does success. */
	if (bus_has_hit())
		return -EFSCORRUPTED;
	if (rc == 0)
		return 0;
	if (rc > 0)
		return -rc;
	switch (rc) {
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_KEYEXIST:
		return -EEXIST;
	case MDB_MAP_FULL:
		return -ENOSPC;
	case MDB_READERS_FULL:
		return -EBUSY;
	case MDB_MAP_RESIZED:
		return -ENOMEM;
	case MDB_PANIC:
		return -EIO;
	case MDB_VERSION_MISMATCH:
		return -EPROTONOSUPPORT;
	case MDB_BAD_VALSIZE:
		return -EINVAL;
	default:
		return -EFSCORRUPTED;
	}
}

/* --- open and close ----------------------------------------------------- */

static int env_open(const char *dir, unsigned flags, uint64_t map,
		    MDB_env **ret_env)
{
	MDB_env *env = NULL;
	int rc = mdb_env_create(&env);

	if (rc != 0)
		return index_error(rc);
	rc = mdb_env_set_mapsize(env, map);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(env, MAX_READERS);
	if (rc == 0)
		rc = mdb_env_set_maxdbs(env, 2 * INDEX_TABLES);
	if (rc == 0)
		rc = mdb_env_open(env, dir, MDB_NOTLS | flags, 0600);
	if (rc != 0) {
		mdb_env_close(env);
		return index_error(rc);
	}
	*ret_env = env;
	return 0;
}

static int env_open_fitting(const char *dir, unsigned flags, MDB_env **ret_env)
{
	uint64_t map = MAP_BYTES_MAX;
	int r;

	do {
		r = env_open(dir, flags, map, ret_env);
		map /= 4;
	} while (r == -ENOMEM && map >= MAP_BYTES_MIN);
	return r;
}

/* Opens the tables. A table's handle is good for the whole process once the
 * transaction that opened it has committed. */
static int open_tables(struct index *x, bool create, size_t count)
{
	MDB_txn *txn = NULL;
	int rc = mdb_txn_begin(x->env, NULL, create ? 0 : MDB_RDONLY, &txn);

	if (rc != 0)
		return index_error(rc);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = mdb_dbi_open(txn, table_names[i], create ? MDB_CREATE : 0,
				  &x->tables[i]);
	x->table_count = count;
	if (rc == 0)
		return index_error(mdb_txn_commit(txn));
	mdb_txn_abort(txn);
	return index_error(rc);
}

/* Says whether no table was ever made. */
static int is_fresh(struct index *x)
{
	MDB_stat stat;
	int r = index_error(mdb_env_stat(x->env, &stat));

	return r < 0 ? r : stat.ms_entries == 0;
}

/* Opens the tables for reading, which waits for no writer; makes them only
 * when they are missing. That one which every store has is missing is damage:
 * an empty one in its place would look like a store without snapshots. */
static int open_or_make_tables(struct index *x, unsigned flags)
{
	size_t count = INDEX_TABLES;
	int fresh, r = open_tables(x, false, count);

	fresh = r == -ENOENT ? is_fresh(x) : r;
	if (r != -ENOENT || fresh < 0)
		return fresh;
	if (!fresh || !(flags & INDEX_MAKE)) {
		while (r == -ENOENT && count > INDEX_TABLES_FIRST)
			r = open_tables(x, false, --count);
		if (r < 0)
			return r == -ENOENT ? -EFSCORRUPTED : r;
	}
	/* Tables of a later revision; who only reads does without. */
	return x->read_only ? 0 : open_tables(x, true, INDEX_TABLES);
}

int index_open(const char *dir, unsigned flags, struct index **ret_index)
{
	struct index *x = calloc(1, sizeof *x);
	int dead, r = flags & INDEX_MAKE ? 0 : index_check_files(dir);

	if (!x)
		return -ENOMEM;
	bus_guard();
	mutex_init(&x->lock);
	x->store_fd = -1;
	if (r == 0 && !(flags & INDEX_LOOK))
		r = env_open_fitting(dir, 0, &x->env);
	if (r == -EACCES || r == -EROFS || r == -EPERM || (r == 0 && !x->env)) {
		x->read_only = true;
		r = env_open_fitting(dir, MDB_RDONLY, &x->env);
	}
	/* Frees the reader slots of processes that were killed. */
	if (r == 0)
		r = index_error(mdb_reader_check(x->env, &dead));
	if (r == 0)
		r = open_or_make_tables(x, flags);
	if (r < 0) {
		index_close(x);
		return r;
	}
	*ret_index = x;
	return 0;
}

int index_attach(struct index *x, int store_fd, bool guarded)
{
	x->store_fd = store_fd;
	x->guarded = guarded;
	return guard_look(store_fd, &x->guard);
}

int index_check_current(const struct index *x)
{
	return x->guarded ? guard_check(x->store_fd, &x->guard) : 0;
}

int index_store_fd(const struct index *x)
{
	return x->store_fd;
}

void index_close(struct index *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->pooled; i++)
		mdb_txn_abort(x->pool[i]);
	if (x->env)
		mdb_env_close(x->env);
	mutex_fini(&x->lock);
	free(x);
}

bool index_is_read_only(const struct index *x)
{
	return x->read_only;
}

uint64_t index_bytes(struct index *x)
{
	MDB_envinfo info;
	MDB_stat stat;

	if (mdb_env_info(x->env, &info) || mdb_env_stat(x->env, &stat))
		return 0;
	return ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize;
}

/* --- transactions ------------------------------------------------------- */

static MDB_txn *pool_take(struct index *x)
{
	MDB_txn *txn = NULL;

	mutex_lock(&x->lock);
	if (x->pooled > 0)
		txn = x->pool[--x->pooled];
	mutex_unlock(&x->lock);
	return txn;
}

static void pool_give(struct index *x, MDB_txn *txn)
{
	mdb_txn_reset(txn);
	mutex_lock(&x->lock);
	if (x->pooled < POOL_TXNS)
		x->pool[x->pooled++] = TAKE_PTR(txn);
	mutex_unlock(&x->lock);
	if (txn)
		mdb_txn_abort(txn);
}

static int begin_read(struct index *x, MDB_txn **ret_txn)
{
	MDB_txn *txn = pool_take(x);
	int dead;
	int rc;

	if (txn && mdb_txn_renew(txn) == 0) {
		*ret_txn = txn;
		return 0;
	}
	if (txn)
		mdb_txn_abort(txn);
	rc = mdb_txn_begin(x->env, NULL, MDB_RDONLY, ret_txn);
	/* Killed processes may have left no slot free. */
	if (rc == MDB_READERS_FULL && mdb_reader_check(x->env, &dead) == 0)
		rc = mdb_txn_begin(x->env, NULL, MDB_RDONLY, ret_txn);
	return index_error(rc);
}

int index_txn_begin(struct index *x, bool write, struct index_txn *ret_txn)
{
	_cleanup_close_ int lock = -1;
	MDB_txn *txn = NULL;
	int r;

	if (write && x->read_only)
		return -EROFS;
	if (bus_has_hit())
		return -EFSCORRUPTED;
	r = write && x->guarded ? guard_share(x->store_fd, &x->guard, &lock)
				: 0;
	if (r < 0)
		return r;
	r = write ? index_error(mdb_txn_begin(x->env, NULL, 0, &txn))
		  : begin_read(x, &txn);
	/* It begins with the meta pages: LMDB asserts what they say. So when one
	 * of them is missing there may be a transaction, and yet an error. */
	if (r == 0 && bus_has_hit())
		r = -EFSCORRUPTED;
	if (r < 0) {
		mdb_txn_abort(txn);
		return r;
	}
	if (!write)
		atomic_store_explicit(&x->seen, mdb_txn_id(txn),
				      memory_order_relaxed);
	*ret_txn = (struct index_txn){.index = x,
				      .txn = txn,
				      .write = write,
				      .guard = TAKE_FD(lock) + 1};
	/* Under LMDB's writer lock: no other commit comes between. */
	if (write && x->store_fd >= 0)
		ret_txn->was_marked = mark_fits(x->store_fd);
	return 0;
}

uint64_t index_seen(const struct index *x)
{
	return atomic_load_explicit(&x->seen, memory_order_relaxed);
}

static void unguard(struct index_txn *t)
{
	if (t->guard > 0)
		(void)close(t->guard - 1);
	t->guard = 0;
}

int index_txn_commit(struct index_txn *t)
{
	mdb_filehandle_t fd = -1;
	MDB_txn *txn;
	int r = copies_commit(t);

	if (r == 0 && bus_has_hit())
		r = -EFSCORRUPTED;
	if (r < 0) {
		index_txn_end(t);
		return r;
	}
	(void)mdb_env_get_fd(t->index->env, &fd);
	txn = t->txn;
	t->txn = NULL;
	r = headroom_explain(fd, index_error(mdb_txn_commit(txn)));
	if (r == 0 && t->index->store_fd >= 0)
		headroom_keep(fd, HEADROOM_INDEX);
	if (r == 0 && t->was_marked)
		mark_write(t->index->store_fd);
	unguard(t);
	buf_fini(&t->changes);
	return r;
}

void index_txn_end(struct index_txn *t)
{
	buf_fini(&t->changes);
	if (!t->txn)
		return;
	if (t->write)
		mdb_txn_abort(t->txn);
	else
		pool_give(t->index, t->txn);
	t->txn = NULL;
	unguard(t);
}

/* --- rows --------------------------------------------------------------- */

static bool has_table(const struct index_txn *t, enum index_table table)
{
	return table < t->index->table_count; /* else it is empty */
}

static uint64_t row_checksum(enum index_table table, const MDB_val *key,
			     const void *value, size_t len)
{
	uint64_t seed = oid_checksum(key->mv_data, key->mv_size, table);

	return oid_checksum(value, len, seed);
}

/* Checks a value and returns the length of what stands before the checksum. */
static int row_check(enum index_table table, const MDB_val *key,
		     const MDB_val *val)
{
	const uint8_t *data = val->mv_data;
	size_t len;

	if (val->mv_size < CHECKSUM_BYTES ||
	    val->mv_size > INDEX_MAX_VALUE + CHECKSUM_BYTES)
		return -EFSCORRUPTED;
	len = val->mv_size - CHECKSUM_BYTES;
	if (bytes_load_u64(data + len) != row_checksum(table, key, data, len))
		return -EFSBADCRC;
	return (int)len;
}

static MDB_val val_of(struct index_key k)
{
	/* LMDB does not write through it. */
	return (MDB_val){.mv_size = k.len,
			 .mv_data = (void *)(uintptr_t)k.data};
}

bool index_row_is_sound(enum index_table table, struct index_key key,
			struct index_key value)
{
	MDB_val k = val_of(key), v = val_of(value);

	return row_check(table, &k, &v) >= 0;
}

int index_table_by_name(const char *name)
{
	for (int i = 0; i < INDEX_TABLES; i++)
		if (strcmp(table_names[i], name) == 0)
			return i;
	return -1;
}

bool index_map_is_possible(uint64_t bytes)
{
	for (uint64_t n = MAP_BYTES_MAX; n >= MAP_BYTES_MIN; n /= 4)
		if (n == bytes)
			return true;
	return false;
}

int index_get(struct index_txn *t, enum index_table table, struct index_key key,
	      void *ret, size_t cap)
{
	MDB_val k = val_of(key), v;
	int len, rc = MDB_NOTFOUND;

	if (has_table(t, table))
		rc = mdb_get(t->txn, t->index->tables[table], &k, &v);
	if (rc != 0)
		return index_error(rc);
	len = row_check(table, &k, &v);
	if (len < 0)
		return len;
	if ((size_t)len > cap)
		return -EFSCORRUPTED;
	memcpy(ret, v.mv_data, (size_t)len);
	return len;
}

int index_put(struct index_txn *t, enum index_table table, struct index_key key,
	      struct index_key value, bool add)
{
	MDB_val k = val_of(key);
	MDB_val v = {.mv_size = value.len + CHECKSUM_BYTES};
	uint8_t *out;
	int rc;

	if (value.len > INDEX_MAX_VALUE)
		return -E2BIG;
	rc = mdb_put(t->txn, t->index->tables[table], &k, &v,
		     MDB_RESERVE | (add ? MDB_NOOVERWRITE : 0));
	if (rc != 0)
		return index_error(rc);
	out = v.mv_data;
	memcpy(out, value.data, value.len);
	bytes_store_u64(out + value.len,
			row_checksum(table, &k, value.data, value.len));
	copies_note(t, table, key, &value);
	return 0;
}

int index_delete(struct index_txn *t, enum index_table table,
		 struct index_key key)
{
	MDB_val k = val_of(key);
	int r = index_error(mdb_del(t->txn, t->index->tables[table], &k, NULL));

	if (r == 0)
		copies_note(t, table, key, NULL);
	return r;
}

static bool has_prefix(const MDB_val *key, struct index_key prefix)
{
	return key->mv_size >= prefix.len &&
	       (prefix.len == 0 ||
		memcmp(key->mv_data, prefix.data, prefix.len) == 0);
}

static int list_rows(MDB_cursor *c, enum index_table table,
		     struct index_key prefix, struct buf *out)
{
	MDB_val k = val_of(prefix), v;
	int rc = mdb_cursor_get(c, &k, &v,
				prefix.len ? MDB_SET_RANGE : MDB_FIRST);

	for (; rc == 0; rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
		int len;

		if (!has_prefix(&k, prefix))
			break;
		len = row_check(table, &k, &v);
		if (len < 0)
			return len;
		buf_put_block(out, k.mv_data, k.mv_size);
		buf_put_block(out, v.mv_data, (size_t)len);
	}
	if ((rc != 0 && rc != MDB_NOTFOUND) || bus_has_hit())
		return index_error(rc);
	return buf_error(out);
}

int index_list(struct index_txn *t, enum index_table table,
	       struct index_key prefix, struct buf *out)
{
	MDB_cursor *c;
	int r;

	if (!has_table(t, table))
		return 0;
	r = index_error(mdb_cursor_open(t->txn, t->index->tables[table], &c));
	if (r < 0)
		return r;
	r = list_rows(c, table, prefix, out);
	mdb_cursor_close(c);
	return r;
}

static int each_row(MDB_cursor *c, enum index_table table, index_row_fn fn,
		    void *ctx)
{
	MDB_val k, v;
	int rc = mdb_cursor_get(c, &k, &v, MDB_FIRST);

	for (; rc == 0; rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
		int len = row_check(table, &k, &v);
		int r;

		if (len < 0)
			return len;
		r = fn(ctx, index_key_of(k.mv_data, k.mv_size),
		       index_key_of(v.mv_data, (size_t)len));
		if (r != 0)
			return r;
	}
	return rc == MDB_NOTFOUND ? index_error(0) : index_error(rc);
}

int index_each(struct index_txn *t, enum index_table table, index_row_fn fn,
	       void *ctx)
{
	MDB_cursor *c;
	int r;

	if (!has_table(t, table))
		return 0;
	r = index_error(mdb_cursor_open(t->txn, t->index->tables[table], &c));
	if (r < 0)
		return r;
	r = each_row(c, table, fn, ctx);
	mdb_cursor_close(c);
	return r;
}

int index_count(struct index_txn *t, enum index_table table,
		uint64_t *ret_count)
{
	MDB_stat stat = {0};
	int rc = 0;

	if (has_table(t, table))
		rc = mdb_stat(t->txn, t->index->tables[table], &stat);
	if (rc != 0)
		return index_error(rc);
	*ret_count = stat.ms_entries;
	return 0;
}
