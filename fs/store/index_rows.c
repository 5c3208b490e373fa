/* SPDX-License-Identifier: MIT */
/*
 * What the rows of each table look like (docs/format.md, "Store", has the byte
 * tables). Rows of a fixed size are built in a small array, the snapshot's in
 * a struct buf. Segment numbers are big-endian keys, so that the table is in
 * numeric order. A value that passed its checksum is still decoded with bounds:
 * it may come from a program with a fault.
 */
#include "store/index_int.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "object/format.h"

enum {
	OBJECT_ROW = 20,
	SEGMENT_ROW = 8,
	GC_ROW = 12,
	EPOCH_ROW = 8,
};
static const char gc_key[] = "gc";

static struct index_key oid_key(const struct oid *id)
{
	return index_key_of(id->b, OID_BYTES);
}

static struct index_key ref_key(const char *ref)
{
	return index_key_of(ref, strlen(ref));
}

/* Gets a row of exactly n bytes. */
static int get_exact(struct index_txn *t, enum index_table table,
		     struct index_key key, uint8_t *ret, int n)
{
	int len = index_get(t, table, key, ret, (size_t)n);

	if (len < 0)
		return len;
	return len == n ? 0 : -EFSCORRUPTED;
}

/* --- objects ------------------------------------------------------------ */

int index_decode_object(const void *row, size_t len,
			struct segment_place *ret_place)
{
	const uint8_t *p = row;
	struct segment_place place;

	if (len != OBJECT_ROW)
		return -EFSCORRUPTED;
	place = (struct segment_place){
		.segment = bytes_load_u32(p),
		.stored_len = bytes_load_u32(p + 4),
		.offset = bytes_load_u64(p + 8),
		.encoding = p[16],
	};
	if ((bytes_load_u32(p + 16) >> 8) != 0 ||
	    place.offset > INT64_MAX / 2 ||
	    place.stored_len > FORMAT_MAX_OBJECT)
		return -EFSCORRUPTED;
	*ret_place = place;
	return 0;
}

int index_get_object(struct index_txn *t, const struct oid *id,
		     struct segment_place *ret_place)
{
	uint8_t row[OBJECT_ROW];
	int r = get_exact(t, INDEX_OBJECTS, oid_key(id), row, sizeof row);

	return r < 0 ? r : index_decode_object(row, sizeof row, ret_place);
}

struct each_object {
	index_object_fn fn;
	void *ctx;
};

static int each_object(void *ctx, struct index_key key, struct index_key value)
{
	const struct each_object *e = ctx;
	struct segment_place place;
	struct oid id;
	int r;

	if (key.len != OID_BYTES)
		return -EFSCORRUPTED;
	memcpy(id.b, key.data, OID_BYTES);
	r = index_decode_object(value.data, value.len, &place);
	return r < 0 ? r : e->fn(e->ctx, &id, &place);
}

int index_each_object(struct index_txn *t, index_object_fn fn, void *ctx)
{
	struct each_object e = {fn, ctx};

	return index_each(t, INDEX_OBJECTS, each_object, &e);
}

int index_delete_object(struct index_txn *t, const struct oid *id)
{
	int r = index_delete(t, INDEX_OBJECTS, oid_key(id));

	return r < 0 ? r : index_end_epoch(t);
}

int index_put_object(struct index_txn *t, const struct oid *id,
		     const struct segment_place *place, bool add)
{
	uint8_t row[OBJECT_ROW] = {0};

	bytes_store_u32(row, place->segment);
	bytes_store_u32(row + 4, place->stored_len);
	bytes_store_u64(row + 8, place->offset);
	row[16] = place->encoding;
	return index_put(t, INDEX_OBJECTS, oid_key(id),
			 index_key_of(row, sizeof row), add);
}

int index_lookup(struct index *x, const struct oid *id,
		 struct segment_place *ret_place)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(x, false, &t);

	return r < 0 ? r : index_get_object(&t, id, ret_place);
}

/* --- segments ----------------------------------------------------------- */

static void segment_key(uint32_t number, uint8_t ret[4])
{
	bytes_store_u32(ret, __builtin_bswap32(number));
}

int index_get_segment(struct index_txn *t, uint32_t number, uint64_t *ret_end)
{
	uint8_t row[SEGMENT_ROW];
	uint8_t key[4];
	int r;

	segment_key(number, key);
	r = get_exact(t, INDEX_SEGMENTS, index_key_of(key, sizeof key), row,
		      sizeof row);
	if (r < 0)
		return r;
	*ret_end = bytes_load_u64(row);
	return 0;
}

int index_put_segment(struct index_txn *t, uint32_t number, uint64_t end)
{
	uint8_t row[SEGMENT_ROW];
	uint8_t key[4];

	segment_key(number, key);
	bytes_store_u64(row, end);
	return index_put(t, INDEX_SEGMENTS, index_key_of(key, sizeof key),
			 index_key_of(row, sizeof row), false);
}

int index_delete_segment(struct index_txn *t, uint32_t number)
{
	uint8_t key[4];

	segment_key(number, key);
	return index_delete(t, INDEX_SEGMENTS, index_key_of(key, sizeof key));
}

int index_list_segments(struct index_txn *t, struct buf *out)
{
	_cleanup_buf_ struct buf rows = {0};
	struct bytes in;
	int r = index_list(t, INDEX_SEGMENTS, index_key_of(NULL, 0), &rows);

	if (r < 0)
		return r;
	in = bytes_of(rows.data, rows.len);
	while (in.left > 0) {
		struct index_segment s;
		size_t key_len;
		size_t len;
		const uint8_t *key = bytes_block(&in, 4, &key_len);
		const uint8_t *row = bytes_block(&in, SEGMENT_ROW, &len);

		if (in.bad || key_len != 4 || len != SEGMENT_ROW)
			return -EFSCORRUPTED;
		s.number = __builtin_bswap32(bytes_load_u32(key));
		s.end = bytes_load_u64(row);
		buf_put(out, &s, sizeof s);
	}
	return buf_error(out);
}

int index_get_gc(struct index_txn *t, struct index_gc *ret_gc)
{
	uint8_t row[GC_ROW];
	int r = get_exact(t, INDEX_META, ref_key(gc_key), row, sizeof row);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == -ENOENT)
		memset(row, 0, sizeof row);
	*ret_gc = (struct index_gc){
		.generation = bytes_load_u64(row),
		.next_segment = bytes_load_u32(row + 8),
	};
	return 0;
}

int index_put_gc(struct index_txn *t, const struct index_gc *gc)
{
	uint8_t row[GC_ROW];

	bytes_store_u64(row, gc->generation);
	bytes_store_u32(row + 8, gc->next_segment);
	return index_put(t, INDEX_META, ref_key(gc_key),
			 index_key_of(row, sizeof row), false);
}

/* --- snapshots ---------------------------------------------------------- */

static int put_string(struct buf *out, const char *s, size_t max)
{
	size_t n = s ? strlen(s) : 0;

	if (n > max)
		return -E2BIG;
	buf_put_block(out, s, n);
	return 0;
}

static bool has_git(const struct snapshot_info *info)
{
	return (info->git_dir && *info->git_dir) ||
	       (info->git_head && *info->git_head) ||
	       (info->git_commit && *info->git_commit);
}

int index_encode_snapshot(const struct snapshot_info *info, struct buf *out)
{
	int r;

	buf_put_u64(out, (uint64_t)info->time_sec);
	buf_put_u64(out, info->inodes);
	buf_put_u64(out, info->bytes);
	r = put_string(out, info->source, INDEX_MAX_SOURCE);
	if (r == 0)
		r = put_string(out, info->host, INDEX_MAX_HOST);
	if (r == 0)
		r = put_string(out, info->message, INDEX_MAX_MESSAGE);
	if (r < 0 || !has_git(info))
		return r < 0 ? r : buf_error(out);
	r = put_string(out, info->git_dir, INDEX_MAX_SOURCE);
	if (r == 0)
		r = put_string(out, info->git_head, INDEX_MAX_SOURCE);
	if (r == 0)
		r = put_string(out, info->git_commit, INDEX_MAX_HOST);
	return r < 0 ? r : buf_error(out);
}

/* Copies a block as a string; returns its place in strings. */
static size_t take_string(struct bytes *in, size_t max, struct buf *strings)
{
	const size_t at = strings->len;
	size_t n;
	const uint8_t *s = bytes_block(in, max, &n);

	if (n > 0 && memchr(s, '\0', n))
		in->bad = true;
	buf_put(strings, s, n);
	buf_put_u8(strings, 0);
	return at;
}

int index_decode_snapshot(const struct oid *id, const void *data, size_t len,
			  struct buf *strings, struct snapshot_info *ret_info)
{
	struct bytes in = bytes_of(data, len);
	struct snapshot_info info = {.id = *id};
	size_t source;
	size_t host;
	size_t message;
	size_t git[3];
	bool more;
	int r;

	buf_clear(strings);
	info.time_sec = (int64_t)bytes_u64(&in);
	info.inodes = bytes_u64(&in);
	info.bytes = bytes_u64(&in);
	source = take_string(&in, INDEX_MAX_SOURCE, strings);
	host = take_string(&in, INDEX_MAX_HOST, strings);
	message = take_string(&in, INDEX_MAX_MESSAGE, strings);
	/* A row of what is no repository ends here: the source's NUL is "". */
	more = in.left > 0;
	for (size_t i = 0; i < ARRAY_SIZE(git); i++)
		git[i] = more ? take_string(&in, INDEX_MAX_SOURCE, strings)
			      : host - 1;
	r = buf_error(strings);
	if (r < 0)
		return r;
	/* Bytes behind these are of a later revision: left alone. */
	if (in.bad)
		return -EFSCORRUPTED;
	info.source = (const char *)strings->data + source;
	info.host = (const char *)strings->data + host;
	info.message = (const char *)strings->data + message;
	info.git_dir = (const char *)strings->data + git[0];
	info.git_head = (const char *)strings->data + git[1];
	info.git_commit = (const char *)strings->data + git[2];
	*ret_info = info;
	return 0;
}

int index_has_snapshot(struct index_txn *t, const struct oid *id)
{
	_cleanup_buf_ struct buf row = {0};
	int r = buf_reserve(&row, INDEX_MAX_VALUE);

	if (r == 0)
		r = index_get(t, INDEX_SNAPSHOTS, oid_key(id), row.data,
			      row.cap);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : 1;
}

/* --- refs --------------------------------------------------------------- */

int index_get_ref(struct index_txn *t, const char *ref, struct oid *ret_id)
{
	struct oid id;
	int r = get_exact(t, INDEX_REFS, ref_key(ref), id.b, OID_BYTES);

	if (r == 0)
		*ret_id = id;
	return r;
}

int index_put_ref(struct index_txn *t, const char *ref, const struct oid *id)
{
	return index_put(t, INDEX_REFS, ref_key(ref), oid_key(id), false);
}

int index_delete_ref(struct index_txn *t, const char *ref)
{
	return index_delete(t, INDEX_REFS, ref_key(ref));
}

/* --- epoch -------------------------------------------------------------- */

static struct index_key epoch_key(void)
{
	return index_key_of("epoch", 5);
}

int index_get_epoch(struct index_txn *t, uint64_t *ret_epoch)
{
	uint8_t row[EPOCH_ROW];
	int r = get_exact(t, INDEX_META, epoch_key(), row, sizeof row);

	if (r < 0)
		return r;
	*ret_epoch = bytes_load_u64(row);
	return 0;
}

int index_put_epoch(struct index_txn *t, uint64_t epoch)
{
	uint8_t row[EPOCH_ROW];

	bytes_store_u64(row, epoch);
	return index_put(t, INDEX_META, epoch_key(),
			 index_key_of(row, sizeof row), false);
}

int index_end_epoch(struct index_txn *t)
{
	int r = index_delete(t, INDEX_META, epoch_key());

	return r == -ENOENT ? 0 : r;
}
