/* SPDX-License-Identifier: MIT */
/*
 * How: rows of leases are read with the others and compared with each other and
 * with the folders of environments. A server may free one meanwhile, always
 * before the folder goes: a row whose folder is missing is looked up again.
 * What is wrong with a row does not matter to a repair: it goes, and its
 * environment gets another one.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/leases_int.h"

struct loading {
	struct fsck *f;
	struct buf *all; /* of struct lease */
};

static void describe(const struct lease *l, char *text, size_t size)
{
	const uint32_t n = l->number;

	if (l->kind == LEASE_ADDRESS)
		(void)snprintf(text, size, "address %u.%u.%u.%u", n >> 24,
			       n >> 16 & 255, n >> 8 & 255, n & 255);
	else
		(void)snprintf(text, size, "port %u", n);
}

static void doom(struct fsck *f, const void *key, size_t len)
{
	buf_put_block(&f->lease_keys, key, len);
}

static int load(void *ctx, struct index_key key, struct index_key value)
{
	struct loading *g = ctx;
	struct lease l;

	if (lease_decode(key, value, &l) < 0) {
		fsck_damaged(g->f, "S29", "index", NULL,
			     "a row of lease makes no sense");
		doom(g->f, key.data, key.len);
	} else {
		buf_put(g->all, &l, sizeof l);
	}
	return buf_error(g->all);
}

static bool is_there(struct fsck *f, const void *key)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	uint8_t row[NAME_MAX_LABEL + 64];
	int r = index_txn_begin(f->store->index, false, &t);

	if (r == 0)
		r = index_get(&t, INDEX_LEASES,
			      index_key_of(key, LEASE_KEY_BYTES), row,
			      sizeof row);
	return r != -ENOENT;
}

static void check(struct fsck *f, const struct lease *all, size_t i)
{
	const struct lease *l = &all[i];
	uint8_t key[LEASE_KEY_BYTES];
	char text[64];

	describe(l, text, sizeof text);
	lease_key(l, key);
	if (lease_is_stray(f->store, l) && is_there(f, key) &&
	    lease_is_stray(f->store, l)) {
		fsck_damaged(f, "S30", l->env, NULL,
			     "%s is leased to it, and there is no such "
			     "environment",
			     text);
		doom(f, key, sizeof key);
		return;
	}
	for (size_t k = 0; k < i; k++) {
		if (all[k].kind != l->kind || all[k].use != l->use ||
		    strcmp(all[k].env, l->env) != 0)
			continue;
		fsck_damaged(f, "S31", l->env, NULL,
			     "%s is leased to it for what it has another one",
			     text);
		doom(f, key, sizeof key);
		return;
	}
}

int fsck_leases_check(struct fsck *f)
{
	_cleanup_buf_ struct buf all = {0};
	struct loading g = {.f = f, .all = &all};
	int r;

	{
		_cleanup_index_txn_ struct index_txn t = {0};

		r = index_txn_begin(f->store->index, false, &t);
		if (r == 0)
			r = index_each(&t, INDEX_LEASES, load, &g);
	}
	for (size_t i = 0; r == 0 && i < all.len / sizeof(struct lease); i++)
		check(f, (const struct lease *)(const void *)all.data, i);
	return r < 0 ? r : buf_error(&f->lease_keys);
}

int repair_leases(struct fsck *f)
{
	struct bytes in = bytes_of(f->lease_keys.data, f->lease_keys.len);
	_cleanup_index_txn_ struct index_txn t = {0};
	size_t n = 0;
	int r = in.left ? index_txn_begin(f->store->index, true, &t) : 0;

	while (r == 0 && in.left && !in.bad) {
		struct index_key key;

		key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
		r = in.bad ? -EFSCORRUPTED
			   : index_delete(&t, INDEX_LEASES, key);
		n++;
	}
	if (r < 0 || !n)
		return r;
	fsck_say(f, FSCK_NOTE, "index", "%zu lease%s freed", n,
		 n == 1 ? "" : "s");
	return index_txn_commit(&t);
}
