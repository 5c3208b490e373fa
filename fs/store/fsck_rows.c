/* SPDX-License-Identifier: MIT */
/*
 * How: the tables are read once, in one reading transaction, so that commits
 * meanwhile cannot tear them apart, and compared in memory. The index's file and
 * the rows' checksums have been checked by a child already; a row that does not
 * decode here was written so.
 *
 * The copies are compared with the tables as texts of rows, which is what they
 * hold. Only a copy that differs is damage: the index is what counts while it
 * is there.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

enum { COPIES_TRIES = 20 };

/* --- loading ------------------------------------------------------------- */

static int load_object(void *ctx, struct index_key key, struct index_key value)
{
	struct fsck *f = ctx;
	struct segment_place place;
	struct fsck_object *o;
	struct oid id;

	if (key.len == OID_BYTES)
		memcpy(id.b, key.data, OID_BYTES);
	if (key.len != OID_BYTES || !oid_is_valid(&id) ||
	    index_decode_object(value.data, value.len, &place) < 0) {
		fsck_damaged(f, "S12", "index", NULL,
			     "a row of obj makes no sense");
		return 0;
	}
	o = fsck_need(f, &id);
	if (!o)
		return -ENOMEM;
	o->place = place;
	o->state = OBJECT_ROW;
	return 0;
}

static int load_snapshot(void *ctx, struct index_key key,
			 struct index_key value)
{
	_cleanup_buf_ struct buf strings = {0};
	struct fsck_snapshot s = {0};
	struct snapshot_info info;
	struct fsck *f = ctx;
	int r;

	if (key.len == OID_BYTES)
		memcpy(s.id.b, key.data, OID_BYTES);
	r = index_decode_snapshot(&s.id, value.data, value.len, &strings,
				  &info);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || key.len != OID_BYTES || oid_kind(&s.id) != OID_SNAP) {
		fsck_damaged(f, "S13", "index", NULL,
			     "a row of snap makes no sense");
		return 0;
	}
	buf_put(&f->snapshots, &s, sizeof s);
	return buf_error(&f->snapshots);
}

static int load_ref(void *ctx, struct index_key key, struct index_key value)
{
	struct fsck_ref ref = {0};
	struct fsck *f = ctx;
	char again[STORE_REF_MAX];

	if (key.len < sizeof ref.name && value.len == OID_BYTES) {
		memcpy(ref.name, key.data, key.len);
		memcpy(ref.id.b, value.data, OID_BYTES);
	}
	if (store_ref_normalize(ref.name, again, sizeof again) < 0 ||
	    strcmp(again, ref.name) != 0) {
		fsck_damaged(f, "S13", "index", NULL,
			     "a row of ref makes no sense");
		return 0;
	}
	buf_put(&f->refs, &ref, sizeof ref);
	return buf_error(&f->refs);
}

static int load_segment(void *ctx, struct index_key key, struct index_key value)
{
	struct fsck_segment s = {.has_row = true};
	struct fsck *f = ctx;

	if (key.len != 4 || value.len != 8) {
		fsck_damaged(f, "S9", "index", NULL,
			     "a row of seg makes no sense");
		return 0;
	}
	s.number = __builtin_bswap32(bytes_load_u32(key.data));
	s.end = bytes_load_u64(value.data);
	buf_put(&f->segments, &s, sizeof s);
	return buf_error(&f->segments);
}

int fsck_rows_load(struct fsck *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(f->store->index, false, &t);

	if (r == 0)
		r = index_each(&t, INDEX_SEGMENTS, load_segment, f);
	if (r == 0)
		r = index_each(&t, INDEX_OBJECTS, load_object, f);
	if (r == 0)
		r = index_each(&t, INDEX_SNAPSHOTS, load_snapshot, f);
	if (r == 0)
		r = index_each(&t, INDEX_REFS, load_ref, f);
	return r < 0 ? r : fsck_rescues_load(f, &t);
}

/* --- rows with each other ------------------------------------------------ */

static void check_object(struct fsck *f, const struct fsck_object *o)
{
	char what[FSCK_TEXT_BYTES];

	if (!(o->state & OBJECT_ROW) || o->state & OBJECT_WHOLE)
		return;
	f->lost++;
	fsck_describe(&o->id, what);
	fsck_damaged(f, "S12", what, &o->id,
		     "no whole record of it in segment %u at %llu%s",
		     o->place.segment, (unsigned long long)o->place.offset,
		     o->state & OBJECT_OTHER ? "; another copy is whole" : "");
}

static bool has_snapshot(const struct fsck *f, const struct oid *id)
{
	for (size_t i = 0; i < f->snapshots.len;
	     i += sizeof(struct fsck_snapshot)) {
		struct fsck_snapshot s;

		memcpy(&s, f->snapshots.data + i, sizeof s);
		if (oid_equal(&s.id, id))
			return true;
	}
	return false;
}

static void check_snapshots(struct fsck *f)
{
	for (size_t i = 0; i < f->snapshots.len;
	     i += sizeof(struct fsck_snapshot)) {
		struct fsck_snapshot s;
		const struct fsck_object *o;
		char hex[OID_HEX + 1];

		memcpy(&s, f->snapshots.data + i, sizeof s);
		o = fsck_find(f, &s.id);
		oid_to_hex(&s.id, hex);
		s.lost = !o || fsck_is_lost(o);
		memcpy(f->snapshots.data + i, &s, sizeof s);
		if (!o || !(o->state & OBJECT_ROW))
			fsck_damaged(f, "S13", hex, &s.id,
				     "a snapshot without its object");
	}
}

static void check_refs(struct fsck *f)
{
	for (size_t i = 0; i < f->refs.len; i += sizeof(struct fsck_ref)) {
		struct fsck_ref ref;

		memcpy(&ref, f->refs.data + i, sizeof ref);
		if (!has_snapshot(f, &ref.id))
			fsck_damaged(f, "S13", ref.name, &ref.id,
				     "the name of no snapshot");
	}
}

int fsck_rows_check(struct fsck *f)
{
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&f->objects, &c)))
		check_object(f, container_of(n, struct fsck_object, node));
	check_snapshots(f);
	check_refs(f);
	fsck_rescues_check(f);
	return fsck_leases_check(f);
}

/* --- the copies ---------------------------------------------------------- */

/* What the log says, row by row; the later change counts. */
struct copied {
	struct fsck *f;
	size_t differ;
	struct index_txn txn;
	uint64_t
		left[INDEX_TABLES]; /* rows that the log has, less those gone */
	struct hmap seen;
};

struct copied_row {
	struct hnode node;
	enum index_table table;
	bool gone;
	size_t key_len, len;
	uint8_t bytes[]; /* key, value */
};

static struct copied_row *find_row(struct copied *c, enum index_table table,
				   struct index_key key, uint64_t hash)
{
	struct hnode *n = c->seen.count ? hmap_first(&c->seen, hash) : NULL;

	for (; n; n = hmap_next(n)) {
		struct copied_row *row =
			container_of(n, struct copied_row, node);

		if (row->table == table && row->key_len == key.len &&
		    memcmp(row->bytes, key.data, key.len) == 0)
			return row;
	}
	return NULL;
}

static int note_row(void *ctx, enum index_table table, struct index_key key,
		    const struct index_key *value)
{
	struct copied *c = ctx;
	const uint64_t hash = hmap_hash_bytes(key.data, key.len, table);
	struct copied_row *old = find_row(c, table, key, hash);
	const size_t len = value ? value->len : 0;
	struct copied_row *row = malloc(sizeof *row + key.len + len);
	int r;

	if (!row)
		return -ENOMEM;
	if (old) {
		hmap_remove(&c->seen, &old->node);
		free(old);
	}
	row->table = table;
	row->gone = !value;
	row->key_len = key.len;
	row->len = len;
	memcpy(row->bytes, key.data, key.len);
	if (len > 0)
		memcpy(row->bytes + key.len, value->data, len);
	r = hmap_insert(&c->seen, &row->node, hash);
	if (r < 0)
		free(row);
	return r;
}

static void free_rows(struct copied *c)
{
	struct hmap_cursor at = {0};
	struct hnode *n;

	while ((n = hmap_each(&c->seen, &at))) {
		hmap_remove(&c->seen, n);
		free(container_of(n, struct copied_row, node));
	}
	hmap_fini(&c->seen);
	index_txn_end(&c->txn);
}

/* Compares one row with the index's. */
static int compare_row(struct copied *c, const struct copied_row *row,
		       uint8_t *have)
{
	const int n = index_get(&c->txn, row->table,
				index_key_of(row->bytes, row->key_len), have,
				INDEX_MAX_VALUE);

	if (n < 0 && n != -ENOENT)
		return n;
	if (row->gone)
		c->differ += n != -ENOENT;
	else
		c->differ +=
			n == -ENOENT || (size_t)n != row->len ||
			memcmp(have, row->bytes + row->key_len, row->len) != 0;
	c->left[row->table] += !row->gone;
	return 0;
}

static int compare_rows(struct copied *c)
{
	_cleanup_free_ uint8_t *have = malloc(INDEX_MAX_VALUE);
	struct hmap_cursor at = {0};
	struct hnode *n;
	int r = have ? 0 : -ENOMEM;

	while (r == 0 && (n = hmap_each(&c->seen, &at)))
		r = compare_row(c, container_of(n, struct copied_row, node),
				have);
	for (int i = 0; r == 0 && i < INDEX_TABLES; i++) {
		uint64_t count = 0;

		if (!copies_has(i))
			continue;
		r = index_count(&c->txn, i, &count);
		c->differ += r == 0 && count != c->left[i];
	}
	return r;
}

/* Whether a writer has made the log anew since the transaction began: then the
 * one that was read is not the one that the rows belong to. */
static bool has_moved_on(struct fsck *f, uint64_t generation)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	uint64_t now = 0, end = 0;

	return index_txn_begin(f->store->index, false, &t) == 0 &&
	       copies_get_place(&t, &now, &end) == 0 && now != generation;
}

static int check_copied(struct copied *c, bool *ret_again)
{
	struct fsck *f = c->f;
	struct copies_state state = {0};
	uint64_t generation = 0, end = 0;
	int r = index_txn_begin(f->store->index, false, &c->txn);

	if (r == 0)
		r = copies_get_place(&c->txn, &generation, &end);
	/* A store of an earlier revision: there is nothing to compare. */
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = copies_read(f->fd, end, note_row, c, &state);
	if (r < 0 && r != -EFSCORRUPTED)
		return r;
	if (r == 0)
		r = compare_rows(c);
	if (r == 0 && !state.missing && !state.damaged && c->differ == 0 &&
	    state.generation == generation)
		return 0;
	*ret_again = has_moved_on(f, generation);
	if (*ret_again)
		return 0;
	f->copies_bad = true;
	fsck_damaged(f, "S26", "copies/log", NULL, "%s",
		     r == 0 && state.missing ? "it is missing"
		     : r == -EFSCORRUPTED || state.damaged
			     ? "it is damaged"
			     : "it does not say what the index says");
	return r == -EFSCORRUPTED ? 0 : r;
}

static int read_copies_alone(struct copied *c)
{
	struct copies_state state = {0};
	const int r = copies_read(c->f->fd, 0, note_row, c, &state);

	if (r != -EFSCORRUPTED && (r < 0 || !state.damaged))
		return r;
	fsck_damaged(c->f, "S26", "copies/log", NULL, "it is damaged");
	return 0;
}

int fsck_copies_check(struct fsck *f)
{
	bool again = true;
	int r = 0;

	for (int i = 0; r == 0 && again && i < COPIES_TRIES; i++) {
		struct copied c = {.f = f};

		again = false;
		r = f->store ? check_copied(&c, &again) : read_copies_alone(&c);
		free_rows(&c);
	}
	return r;
}
