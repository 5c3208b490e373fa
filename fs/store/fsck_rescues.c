/* SPDX-License-Identifier: MIT */
/*
 * How: rows of rescues are read with the others. What they need is walked like
 * what environments stand on: a rescue's snapshots have no rows of their own.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/rescues_int.h"

static int load(void *ctx, struct index_key key, struct index_key value)
{
	_cleanup_buf_ struct buf strings = {0};
	struct fsck_rescue one = {0};
	struct rescue row;
	struct fsck *f = ctx;
	int r = rescue_decode(key, value, &strings, &row);

	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		fsck_damaged(f, "S28", "index", NULL,
			     "a row of rescue makes no sense");
		return 0;
	}
	(void)snprintf(one.name, sizeof one.name, "%s", row.name);
	one.snapshot = row.snapshot;
	one.base = row.base;
	buf_put(&f->rescues, &one, sizeof one);
	return buf_error(&f->rescues);
}

int fsck_rescues_load(struct fsck *f, struct index_txn *t)
{
	return index_each(t, INDEX_RESCUES, load, f);
}

static bool is_missing(const struct fsck *f, const struct oid *id)
{
	const struct fsck_object *o = fsck_find(f, id);

	return !o || !(o->state & OBJECT_ROW);
}

void fsck_rescues_check(struct fsck *f)
{
	for (size_t i = 0; i < f->rescues.len;
	     i += sizeof(struct fsck_rescue)) {
		struct fsck_rescue one;

		memcpy(&one, f->rescues.data + i, sizeof one);
		if (is_missing(f, &one.snapshot) || is_missing(f, &one.base))
			fsck_damaged(f, "S28", one.name, &one.snapshot,
				     "a rescue without its snapshot");
	}
}

int fsck_rescues_reach(struct fsck *f)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < f->rescues.len;
	     i += sizeof(struct fsck_rescue)) {
		struct fsck_rescue one;

		memcpy(&one, f->rescues.data + i, sizeof one);
		r = fsck_check_root(f, &one.snapshot);
		if (r >= 0)
			r = fsck_check_root(f, &one.base);
	}
	return MIN(r, 0);
}

static bool is_lost(const struct fsck *f, const struct oid *id)
{
	const struct fsck_object *o = fsck_find(f, id);

	return !o || fsck_is_lost(o);
}

/* Without the base there is only less to compare with; that row stays useful,
 * but a row never names what is not there: the snapshot takes its place. */
static int mend(struct fsck *f, struct index_txn *t,
		const struct fsck_rescue *one)
{
	const struct index_key key = index_key_of(one->name, strlen(one->name));
	_cleanup_buf_ struct buf row = {0}, strings = {0}, out = {0};
	struct rescue rescue;
	int r;

	if (is_lost(f, &one->snapshot)) {
		fsck_say(f, FSCK_NOTE, one->name,
			 "the rescue itself is lost, and its row goes");
		return index_delete(t, INDEX_RESCUES, key);
	}
	r = buf_reserve(&row, INDEX_MAX_VALUE);
	if (r == 0)
		r = index_get(t, INDEX_RESCUES, key, row.data, row.cap);
	if (r >= 0)
		r = rescue_decode(key, index_key_of(row.data, (size_t)r),
				  &strings, &rescue);
	if (r < 0)
		return r;
	rescue.base = rescue.snapshot;
	r = rescue_encode(&rescue, &out);
	fsck_say(f, FSCK_NOTE, one->name,
		 "what it is compared with is lost; the rescue is not");
	return r < 0 ? r
		     : index_put(t, INDEX_RESCUES, key,
				 index_key_of(out.data, out.len), false);
}

int repair_rescues(struct fsck *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	size_t changed = 0;
	int r = f->rescues.len ? index_txn_begin(f->store->index, true, &t) : 0;

	for (size_t i = 0; r == 0 && i < f->rescues.len;
	     i += sizeof(struct fsck_rescue)) {
		struct fsck_rescue one;

		memcpy(&one, f->rescues.data + i, sizeof one);
		if (!is_lost(f, &one.snapshot) && !is_lost(f, &one.base))
			continue;
		changed++;
		r = mend(f, &t, &one);
	}
	return r < 0 || !changed ? r : index_txn_commit(&t);
}
