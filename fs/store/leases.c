/* SPDX-License-Identifier: MIT */
/*
 * How: a row of the table `lease` for each, its key the kind and number: so one
 * cannot be given twice. An environment's rows are replaced in one transaction.
 * There are no second copies: without the index environments get new ones.
 *
 * An environment's folder is there before its first row, and its rows go before
 * the folder does. So a row without a folder is one that somebody else's hand
 * has left, and may be freed at any time: what is in the table while a writing
 * transaction is open had its folder before that began.
 */
#include "store/leases_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/store_int.h"

#define LOOPBACK_NET UINT32_C(127)

/* --- a row --------------------------------------------------------------- */

void lease_key(const struct lease *l, uint8_t ret_key[LEASE_KEY_BYTES])
{
	ret_key[0] = (uint8_t)l->kind;
	bytes_store_u32(ret_key + 1, __builtin_bswap32(l->number));
}

static bool makes_sense(const struct lease *l)
{
	if (!name_is_label(l->env))
		return false;
	if (l->kind == LEASE_ADDRESS)
		return l->number >> 24 == LOOPBACK_NET && !l->use;
	return l->kind == LEASE_PORT && l->number > 0 &&
	       l->number <= UINT16_MAX &&
	       (l->use < LEASE_PORTS_MAX || l->use == LEASE_DATABASE);
}

int lease_decode(struct index_key key, struct index_key value,
		 struct lease *ret)
{
	struct bytes in = bytes_of(value.data, value.len);
	struct lease l = {0};
	const uint8_t *k = key.data, *env;
	size_t n;

	if (key.len != LEASE_KEY_BYTES)
		return -EFSCORRUPTED;
	l.kind = k[0];
	l.number = __builtin_bswap32(bytes_load_u32(k + 1));
	l.use = bytes_u16(&in);
	env = bytes_block(&in, NAME_MAX_LABEL, &n);
	/* Bytes behind these are of a later revision: left alone. */
	if (in.bad || !env || memchr(env, '\0', n))
		return -EFSCORRUPTED;
	memcpy(l.env, env, n);
	if (!makes_sense(&l))
		return -EFSCORRUPTED;
	*ret = l;
	return 0;
}

static int put(struct index_txn *t, const struct lease *l)
{
	uint8_t key[LEASE_KEY_BYTES];
	_cleanup_buf_ struct buf row = {0};
	int r;

	if (!makes_sense(l))
		return -EINVAL;
	lease_key(l, key);
	buf_put_u16(&row, l->use);
	buf_put_block(&row, l->env, strlen(l->env));
	r = buf_error(&row);
	return r < 0 ? r
		     : index_put(t, INDEX_LEASES, index_key_of(key, sizeof key),
				 index_key_of(row.data, row.len), true);
}

/* --- all rows ------------------------------------------------------------ */

static int take(void *ctx, struct index_key key, struct index_key value)
{
	struct buf *all = ctx;
	struct lease l;
	int r = lease_decode(key, value, &l);

	/* What makes no sense is nobody's; fsck tells of it. */
	if (r == 0)
		buf_put(all, &l, sizeof l);
	return buf_error(all);
}

int store_leases(struct store *s, struct buf *rows)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(s->index, false, &t);

	return r < 0 ? r : index_each(&t, INDEX_LEASES, take, rows);
}

/* --- changing ------------------------------------------------------------ */

static bool is_same(const struct lease *a, const struct lease *b)
{
	return a->kind == b->kind && a->number == b->number && a->use == b->use;
}

static bool is_among(const struct lease *l, const struct lease *all,
		     size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_same(l, &all[i]))
			return true;
	return false;
}

static bool has_row(const struct buf *rows, const char *env,
		    const struct lease *want)
{
	for (size_t i = 0; i < lease_count(rows); i++) {
		const struct lease l = lease_at(rows, i);

		if (is_same(&l, want) && !strcmp(l.env, env))
			return true;
	}
	return false;
}

/* Deletes the rows of an environment that are not wanted. */
static int drop_others(struct index_txn *t, const struct buf *rows,
		       const char *env, const struct lease *all, size_t count,
		       size_t *changed)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < lease_count(rows); i++) {
		const struct lease l = lease_at(rows, i);
		uint8_t key[LEASE_KEY_BYTES];

		if (strcmp(l.env, env) != 0 || is_among(&l, all, count))
			continue;
		lease_key(&l, key);
		r = index_delete(t, INDEX_LEASES,
				 index_key_of(key, sizeof key));
		++*changed;
	}
	return r;
}

int store_lease_set(struct store *s, const char *env, const struct lease *all,
		    size_t count)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf rows = {0};
	size_t changed = 0;
	int r;

	r = index_txn_begin(s->index, true, &t);
	if (r == 0)
		r = index_each(&t, INDEX_LEASES, take, &rows);
	if (r == 0)
		r = drop_others(&t, &rows, env, all, count, &changed);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct lease l = all[i];

		if (has_row(&rows, env, &l))
			continue;
		(void)snprintf(l.env, sizeof l.env, "%s", env);
		r = put(&t, &l);
		changed++;
	}
	return r < 0 || !changed ? r : index_txn_commit(&t);
}

bool lease_is_stray(struct store *s, const struct lease *l)
{
	char path[NAME_MAX_LABEL + 8];

	(void)snprintf(path, sizeof path, "envs/%s", l->env);
	return faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT;
}

static int sweep(struct store *s, bool dry_run, size_t *ret_count)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf rows = {0};
	size_t n = 0;
	int r = index_txn_begin(s->index, !dry_run, &t);

	if (r == 0)
		r = index_each(&t, INDEX_LEASES, take, &rows);
	for (size_t i = 0; r == 0 && i < lease_count(&rows); i++) {
		const struct lease l = lease_at(&rows, i);
		uint8_t key[LEASE_KEY_BYTES];

		if (!lease_is_stray(s, &l))
			continue;
		n++;
		lease_key(&l, key);
		if (!dry_run)
			r = index_delete(&t, INDEX_LEASES,
					 index_key_of(key, sizeof key));
	}
	if (r == 0 && n && !dry_run)
		r = index_txn_commit(&t);
	if (r == 0)
		*ret_count = n;
	return r;
}

int store_lease_count_stray(struct store *s, size_t *ret_count)
{
	return sweep(s, true, ret_count);
}

int store_lease_sweep(struct store *s, size_t *ret_count)
{
	int r = sweep(s, true, ret_count);

	/* Mostly there is nothing to write. */
	return r < 0 || !*ret_count ? r : sweep(s, false, ret_count);
}
