/* SPDX-License-Identifier: MIT */
/*
 * How: a row of the table `rescue` for each, with second copies like those of
 * snapshots and names (copies.c): what was saved from an environment that is
 * gone is the last thing that may get lost. Both snapshots are looked up in
 * the transaction that sets the row, so it never names what is not there.
 */
#include "store/rescues_int.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "store/gc_int.h"

/* The strings of a row, in order. */
enum { TEXTS = 6 };

static void texts_of(const struct rescue *r, const char *ret[TEXTS])
{
	const char *const all[TEXTS] = {r->env,	    r->ref,	r->source,
					r->git_dir, r->git_ref, r->git_commit};

	memcpy(ret, all, sizeof all);
}

int rescue_encode(const struct rescue *r, struct buf *out)
{
	const char *texts[TEXTS];

	texts_of(r, texts);
	if (r->left_len > RESCUE_LEFT_MAX || !name_is_label(r->name))
		return r->left_len > RESCUE_LEFT_MAX ? -E2BIG : -EINVAL;
	buf_put_u64(out, (uint64_t)r->time_sec);
	buf_put(out, r->snapshot.b, OID_BYTES);
	buf_put(out, r->base.b, OID_BYTES);
	buf_put_u64(out, r->salt);
	buf_put_u64(out, r->frames);
	buf_put_u64(out, r->files);
	buf_put_u64(out, r->bytes);
	for (size_t i = 0; i < TEXTS; i++) {
		size_t n = texts[i] ? strlen(texts[i]) : 0;

		if (n > RESCUE_TEXT_MAX)
			return -E2BIG;
		buf_put_block(out, texts[i], n);
	}
	buf_put_block(out, r->left, r->left_len);
	return buf_error(out);
}

/* Takes a string; returns its place. */
static size_t take_text(struct bytes *in, struct buf *strings)
{
	const size_t at = strings->len;
	size_t n;
	const uint8_t *s = bytes_block(in, RESCUE_TEXT_MAX, &n);

	if (n > 0 && memchr(s, '\0', n))
		in->bad = true;
	buf_put(strings, s, n);
	buf_put_u8(strings, 0);
	return at;
}

static void take_oid(struct bytes *in, struct oid *ret)
{
	const uint8_t *p = bytes_take(in, OID_BYTES);

	*ret = (struct oid){.b = {0}};
	if (p)
		memcpy(ret->b, p, OID_BYTES);
}

/* Checks every entry of the list. */
static bool left_is_sound(const uint8_t *list, size_t len)
{
	struct bytes in = bytes_of(list, len);
	struct rescue_left one;

	while (rescue_left_next(&in, &one))
		;
	return !in.bad;
}

static void set_texts(struct rescue *r, const char *base,
		      const size_t at[TEXTS + 1])
{
	r->name = base;
	r->env = base + at[0];
	r->ref = base + at[1];
	r->source = base + at[2];
	r->git_dir = base + at[3];
	r->git_ref = base + at[4];
	r->git_commit = base + at[5];
}

int rescue_decode(struct index_key key, struct index_key value,
		  struct buf *strings, struct rescue *ret)
{
	struct bytes in = bytes_of(value.data, value.len);
	struct rescue r = {0};
	size_t at[TEXTS + 1];

	buf_clear(strings);
	if (key.len > NAME_MAX_LABEL || memchr(key.data, '\0', key.len))
		return -EFSCORRUPTED;
	buf_put(strings, key.data, key.len);
	buf_put_u8(strings, 0);
	r.time_sec = (int64_t)bytes_u64(&in);
	take_oid(&in, &r.snapshot);
	take_oid(&in, &r.base);
	r.salt = bytes_u64(&in);
	r.frames = bytes_u64(&in);
	r.files = bytes_u64(&in);
	r.bytes = bytes_u64(&in);
	for (size_t i = 0; i < TEXTS; i++)
		at[i] = take_text(&in, strings);
	r.left = bytes_block(&in, RESCUE_LEFT_MAX, &r.left_len);
	if (buf_error(strings) < 0)
		return -ENOMEM;
	/* Bytes behind these are of a later revision: left alone. */
	if (in.bad || oid_kind(&r.snapshot) != OID_SNAP ||
	    oid_kind(&r.base) != OID_SNAP || !left_is_sound(r.left, r.left_len))
		return -EFSCORRUPTED;
	set_texts(&r, (const char *)strings->data, at);
	if (!name_is_label(r.name))
		return -EFSCORRUPTED;
	*ret = r;
	return 0;
}

/* --- what was left out --------------------------------------------------- */

void rescue_left_put(struct buf *list, const struct rescue_left *one)
{
	buf_put_u8(list, (uint8_t)one->why);
	buf_put_u64(list, one->files);
	buf_put_u64(list, one->bytes);
	buf_put_block(list, one->path, one->path_len);
}

bool rescue_left_next(struct bytes *list, struct rescue_left *ret_one)
{
	struct rescue_left one;

	if (list->bad || !list->left)
		return false;
	one.why = bytes_u8(list);
	one.files = bytes_u64(list);
	one.bytes = bytes_u64(list);
	one.path =
		(const char *)bytes_block(list, RESCUE_TEXT_MAX, &one.path_len);
	if (one.why < RESCUE_LARGE || one.why >= RESCUE_WHY_END ||
	    !one.path_len || (one.path && memchr(one.path, '\0', one.path_len)))
		list->bad = true;
	if (list->bad)
		return false;
	*ret_one = one;
	return true;
}

/* --- rows ---------------------------------------------------------------- */

static int tell(struct index_key key, struct index_key value,
		store_rescue_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf strings = {0};
	struct rescue one;
	int r = rescue_decode(key, value, &strings, &one);

	return r < 0 ? r : fn(ctx, &one);
}

/* The rows are copied first: callbacks may call the store. */
int store_rescues(struct store *s, store_rescue_fn fn, void *ctx)
{
	_cleanup_buf_ struct buf rows = {0};
	struct bytes in;
	int r;

	{
		_cleanup_index_txn_ struct index_txn t = {0};

		r = index_txn_begin(s->index, false, &t);
		if (r == 0)
			r = index_list(&t, INDEX_RESCUES, index_key_of(NULL, 0),
				       &rows);
	}
	in = bytes_of(rows.data, rows.len);
	while (r == 0 && in.left > 0) {
		struct index_key key, value;

		key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
		value.data = bytes_block(&in, INDEX_MAX_VALUE, &value.len);
		r = in.bad ? -EFSCORRUPTED : tell(key, value, fn, ctx);
	}
	return r;
}

int store_rescue(struct store *s, const char *name, store_rescue_fn fn,
		 void *ctx)
{
	const struct index_key key = index_key_of(name, strlen(name));
	_cleanup_buf_ struct buf row = {0};
	int r = name_is_label(name) ? buf_reserve(&row, INDEX_MAX_VALUE)
				    : -ENOENT;

	if (r == 0) {
		_cleanup_index_txn_ struct index_txn t = {0};

		r = index_txn_begin(s->index, false, &t);
		if (r == 0)
			r = index_get(&t, INDEX_RESCUES, key, row.data,
				      row.cap);
	}
	return r < 0 ? r
		     : tell(key, index_key_of(row.data, (size_t)r), fn, ctx);
}

int store_rescue_put(struct store *s, const struct rescue *rescue, bool add)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf row = {0};
	struct segment_place place;
	int r = rescue_encode(rescue, &row);

	if (r == 0)
		r = index_txn_begin(s->index, true, &t);
	if (r == 0)
		r = index_get_object(&t, &rescue->snapshot, &place);
	if (r == 0)
		r = index_get_object(&t, &rescue->base, &place);
	if (r == 0)
		r = index_put(&t, INDEX_RESCUES,
			      index_key_of(rescue->name, strlen(rescue->name)),
			      index_key_of(row.data, row.len), add);
	return r < 0 ? r : index_txn_commit(&t);
}

static int delete_row(struct store *s, const char *name)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(s->index, true, &t);

	if (r == 0)
		r = index_delete(&t, INDEX_RESCUES,
				 index_key_of(name, strlen(name)));
	return r < 0 ? r : index_txn_commit(&t);
}

/* What is known of the snapshot of a rescue that is deleted. */
struct dropped {
	const char *name;
	struct oid snapshot;
	bool is_known;
	bool is_ours; /* its record was made when it was restored */
	bool is_used;
};

static int take_snapshot(void *ctx, const struct rescue *r)
{
	struct dropped *d = ctx;

	d->snapshot = r->snapshot;
	return 0;
}

static int see_record(void *ctx, const struct snapshot_info *info)
{
	struct dropped *d = ctx;

	d->is_ours = strcmp(info->message, d->name) == 0;
	return 0;
}

static int see_env(void *ctx, const char *name, const struct oid *id)
{
	struct dropped *d = ctx;

	d->is_used = d->is_used || oid_equal(id, &d->snapshot);
	return 0;
}

/* A record that nobody else needs goes with it; it would go by itself, later.
 * One that has got a name stays. */
static void forget_restored(struct store *s, struct dropped *d)
{
	int r = store_snapshot(s, &d->snapshot, see_record, d);

	if (r == 0 && d->is_ours)
		r = store_envs_int(s, see_env, d, NULL);
	if (r == 0 && d->is_ours && !d->is_used)
		(void)!store_snapshot_forget(s, &d->snapshot);
}

int store_rescue_delete(struct store *s, const char *name)
{
	struct dropped d = {.name = name};
	int r = store_rescue(s, name, take_snapshot, &d);

	/* A row that makes no sense can be deleted, too. */
	if (r < 0 && r != -EFSCORRUPTED)
		return r;
	d.is_known = r == 0;
	r = delete_row(s, name);
	if (r == 0 && d.is_known)
		forget_restored(s, &d);
	return r;
}
