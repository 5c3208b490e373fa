/* SPDX-License-Identifier: MIT */
/*
 * Names of snapshots. A ref is one row: NAME:TAG to the snapshot's id. Setting
 * one checks inside the same transaction that the snapshot's record is there,
 * and forgetting a record that no ref points to it: so a ref can never dangle.
 */
#include "store/store_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/name.h"

static const char default_tag[] = "latest";

int store_ref_normalize(const char *ref, char *ret_ref, size_t n)
{
	const char *colon = strchr(ref, ':');
	const char *tag = colon ? colon + 1 : default_tag;
	const size_t len = colon ? (size_t)(colon - ref) : strlen(ref);
	char name[NAME_MAX_LABEL + 1];
	int r;

	if (len > NAME_MAX_LABEL)
		return -EINVAL;
	memcpy(name, ref, len);
	name[len] = '\0';
	if (!name_is_label(name) || !name_is_label(tag))
		return -EINVAL;
	if (len + 1 + strlen(tag) + 1 > n)
		return -EINVAL;
	r = snprintf(ret_ref, n, "%s:%s", name, tag);
	return r < 0 ? -EINVAL : 0;
}

int store_ref_set(struct store *s, const char *ref, const struct oid *id)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	char name[STORE_REF_MAX];
	int r = store_ref_normalize(ref, name, sizeof name);

	if (r == 0)
		r = index_txn_begin(s->index, true, &t);
	if (r == 0)
		r = index_has_snapshot(&t, id);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	r = index_put_ref(&t, name, id);
	return r < 0 ? r : index_txn_commit(&t);
}

int store_ref_get(struct store *s, const char *ref, struct oid *ret_id)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	char name[STORE_REF_MAX];
	int r = store_ref_normalize(ref, name, sizeof name);

	if (r == 0)
		r = index_txn_begin(s->index, false, &t);
	return r < 0 ? r : index_get_ref(&t, name, ret_id);
}

int store_ref_delete(struct store *s, const char *ref)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	char name[STORE_REF_MAX];
	int r = store_ref_normalize(ref, name, sizeof name);

	if (r == 0)
		r = index_txn_begin(s->index, true, &t);
	if (r == 0)
		r = index_delete_ref(&t, name);
	return r < 0 ? r : index_txn_commit(&t);
}

/* Calls back for each (ref, id) that index_list has put into rows. */
static int each_ref(const struct buf *rows, store_ref_fn fn, void *ctx)
{
	struct bytes in = bytes_of(rows->data, rows->len);
	char name[STORE_REF_MAX];
	struct oid id;
	int r = 0;

	while (r == 0 && in.left > 0) {
		size_t key_len;
		size_t len;
		const uint8_t *key =
			bytes_block(&in, sizeof name - 1, &key_len);
		const uint8_t *row = bytes_block(&in, OID_BYTES, &len);

		if (in.bad || len != OID_BYTES)
			return -EFSCORRUPTED;
		memcpy(name, key, key_len);
		name[key_len] = '\0';
		memcpy(id.b, row, OID_BYTES);
		r = fn(ctx, name, &id);
	}
	return r;
}

int store_refs(struct store *s, store_ref_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf rows = {0};
	int r;

	{
		_cleanup_index_txn_ struct index_txn t = {0};

		r = index_txn_begin(s->index, false, &t);
		if (r == 0)
			r = index_list(&t, INDEX_REFS, index_key_of(NULL, 0),
				       &rows);
	}
	return r < 0 ? r : each_ref(&rows, fn, ctx);
}

static int is_other(void *ctx, const char *ref, const struct oid *id)
{
	return oid_equal(ctx, id) ? -EBUSY : 0;
}

int store_snapshot_forget(struct store *s, const struct oid *id)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf rows = {0};
	struct oid wanted = *id;
	int r = index_txn_begin(s->index, true, &t);

	if (r == 0)
		r = index_list(&t, INDEX_REFS, index_key_of(NULL, 0), &rows);
	if (r == 0)
		r = each_ref(&rows, is_other, &wanted);
	if (r == 0)
		r = index_delete(&t, INDEX_SNAPSHOTS,
				 index_key_of(id->b, OID_BYTES));
	return r < 0 ? r : index_txn_commit(&t);
}
