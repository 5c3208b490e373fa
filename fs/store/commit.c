/* SPDX-License-Identifier: MIT */
/*
 * The order of a commit: the segment's bytes are written and synced, then one
 * LMDB transaction names them, moves the segment's end and sets snapshot and
 * ref. Before that transaction is durable nothing of the batch can be seen;
 * after it all can.
 *
 * Two writers may have put the same object. The second one finds the first
 * one's row inside its transaction: equal bytes keep that row (ours are garbage
 * for gc), other bytes under the same name are a collision that the put could
 * not see, and the whole commit is refused with -EEXIST, because the names that
 * were given out already are part of other objects.
 *
 * Objects are inserted in the order of their names: a page of the index is then
 * touched once for all its objects.
 *
 * A commit that would change nothing is not made: it costs one reading
 * transaction and no sync.
 */
#include "store/batch_int.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static int compare_entries(const void *a, const void *b)
{
	const struct batch_entry *const *x = a;
	const struct batch_entry *const *y = b;

	return oid_compare(&(*x)->id, &(*y)->id);
}

/* Another writer's record has the name: same bytes, or a collision? */
static int settle(struct batch *b, struct index_txn *t,
		  const struct batch_entry *e)
{
	struct segment_place theirs;
	int r;

	buf_clear(&b->scratch2);
	r = buf_reserve(&b->scratch2, oid_length(&e->id) + 1);
	if (r == 0)
		r = batch_read_int(b, e, b->scratch2.data);
	if (r < 0)
		return r;
	r = index_get_object(t, &e->id, &theirs);
	if (r == 0)
		r = batch_same_int(b, &theirs, &e->id, b->scratch2.data);
	if (batch_is_damage_int(r))
		return index_put_object(t, &e->id, &e->place, false);
	if (r < 0)
		return r;
	return r ? 0 : -EEXIST;
}

static int put_objects(struct batch *b, struct index_txn *t)
{
	_cleanup_free_ struct batch_entry **list =
		calloc(b->pending.count + 1, sizeof(void *));
	size_t n = 0;
	int r = 0;

	if (!list)
		return -ENOMEM;
	for (struct batch_block *k = b->blocks; k; k = k->next)
		for (size_t i = 0; i < k->used; i++)
			list[n++] = &k->entries[i];
	qsort(list, n, sizeof(void *), compare_entries);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct batch_entry *e = list[i];

		r = index_put_object(t, &e->id, &e->place, !e->heal);
		if (r == -EEXIST)
			r = settle(b, t, e);
	}
	if (r == 0)
		r = index_put_segment(t, b->writer.number,
				      writer_end(&b->writer));
	return r;
}

/* --- snapshot and ref --------------------------------------------------- */

/* Says whether snapshot and ref are already as wanted. */
static int is_recorded(struct index_txn *t, const struct snapshot_info *info,
		       const struct buf *row, const char *ref)
{
	_cleanup_buf_ struct buf have = {0};
	struct oid id;
	int r = buf_reserve(&have, INDEX_MAX_VALUE);

	if (r == 0)
		r = index_get(t, INDEX_SNAPSHOTS,
			      index_key_of(info->id.b, OID_BYTES), have.data,
			      have.cap);
	if (r >= 0 && ((size_t)r != row->len ||
		       memcmp(have.data, row->data, row->len) != 0))
		return 0;
	if (r >= 0 && ref) {
		r = index_get_ref(t, ref, &id);
		if (r == 0 && !oid_equal(&id, &info->id))
			return 0;
	}
	/* A row that is missing or damaged is written. */
	if (r == -ENOENT || batch_is_damage_int(r))
		return 0;
	return r < 0 ? r : 1;
}

static int put_snapshot(struct index_txn *t, const struct snapshot_info *info,
			const struct buf *row, const char *ref)
{
	struct segment_place place;
	/* A record never names a snapshot that is not there. */
	int r = index_get_object(t, &info->id, &place);

	if (r == 0)
		r = index_put(t, INDEX_SNAPSHOTS,
			      index_key_of(info->id.b, OID_BYTES),
			      index_key_of(row->data, row->len), false);
	if (r == 0 && ref)
		r = index_put_ref(t, ref, &info->id);
	return r;
}

static int is_nothing_new(struct batch *b, const struct snapshot_info *info,
			  const struct buf *row, const char *ref)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r;

	if (b->pending.count > 0)
		return 0;
	if (!info)
		return 1;
	r = index_txn_begin(b->store->index, false, &t);
	return r < 0 ? r : is_recorded(&t, info, row, ref);
}

int batch_flush_int(struct batch *b, const struct snapshot_info *info,
		    const char *ref)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf row = {0};
	int r = info ? index_encode_snapshot(info, &row) : 0;

	if (r == 0)
		r = is_nothing_new(b, info, &row, ref);
	if (r != 0)
		return r < 0 ? r : 0;
	r = writer_sync(&b->writer);
	if (r == 0)
		r = index_txn_begin(b->store->index, true, &t);
	if (r == 0 && b->pending.count > 0)
		r = put_objects(b, &t);
	if (r == 0 && info)
		r = put_snapshot(&t, info, &row, ref);
	if (r < 0)
		return r;
	/* From here on the index may know the new end, whatever is returned. */
	b->writer.keep_tail = true;
	r = index_txn_commit(&t);
	if (r < 0)
		return r;
	b->writer.keep_tail = false;
	writer_committed(&b->writer);
	batch_forget_int(b);
	return 0;
}

int batch_commit(struct batch *b, const struct snapshot_info *info,
		 const char *ref)
{
	char name[STORE_REF_MAX];
	int r = b->err;

	if (r == 0 && ref)
		r = info ? store_ref_normalize(ref, name, sizeof name)
			 : -EINVAL;
	if (r == 0)
		r = batch_flush_int(b, info, ref ? name : NULL);
	batch_abort(b);
	return r;
}
