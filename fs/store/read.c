/* SPDX-License-Identifier: MIT */
/*
 * Reading objects: the index says where, the segment has the bytes.
 *
 * gc moves records while others read (gc_move.c): between the look into the
 * index and the read, the place may have become one in a removed segment. So a
 * read that fails looks once more: another place is read, the same one is
 * damaged indeed.
 *
 * A process that has a removed segment open holds its space. Each commit has a
 * number; a lookup that sees a new one asks for gc's generation, and only a new
 * generation makes it look through its open segments.
 */
#include "store/store_int.h"

#include <errno.h>

#include "base/err.h"
#include "object/format.h"
#include "object/snap.h"

enum { MOVED_TRIES = 16 }; /* each needs a gc in between */

/* A number that is not read again is only looked at once too often. */
static int note_commit(struct store *s, uint64_t seen)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct index_gc gc = {0};
	int r = index_txn_begin(s->index, false, &t);

	if (r == 0)
		r = index_get_gc(&t, &gc);
	if (r < 0)
		return r;
	if (atomic_exchange(&s->generation, gc.generation) != gc.generation)
		segments_drop_removed(s->segments);
	atomic_store(&s->seen, seen);
	return 0;
}

static int lookup(struct store *s, const struct oid *id,
		  struct segment_place *ret_place)
{
	int r = index_lookup(s->index, id, ret_place);
	uint64_t seen = index_seen(s->index);

	if (atomic_load_explicit(&s->seen, memory_order_relaxed) != seen) {
		/* It can be done at the next lookup as well. */
		_unused_ const int ignored = note_commit(s, seen);
	}
	return r;
}

void store_refresh(struct store *s)
{
	segments_drop_removed(s->segments);
}

static bool is_same_place(const struct segment_place *a,
			  const struct segment_place *b)
{
	return a->segment == b->segment && a->offset == b->offset;
}

/* Reads the record at place, or where it has gone since. */
static int read_place(struct store *s, const struct oid *id,
		      struct segment_place place, void *raw)
{
	for (int i = 0; i < MOVED_TRIES; i++) {
		const struct segment_place before = place;
		int r = segment_read(s->segments, &place, id, raw);
		int again;

		if (r != -EFSCORRUPTED && r != -EFSBADCRC)
			return r;
		again = lookup(s, id, &place);
		if (again < 0)
			return again;
		if (is_same_place(&before, &place))
			return r;
	}
	return -EAGAIN;
}

int store_read(struct store *s, const struct oid *id, void *raw)
{
	struct segment_place place;
	int r = lookup(s, id, &place);

	return r < 0 ? r : read_place(s, id, place, raw);
}

int store_get(struct store *s, const struct oid *id, struct buf *out)
{
	struct segment_place place;
	int r = lookup(s, id, &place);

	if (r < 0)
		return r;
	if (oid_length(id) > FORMAT_MAX_OBJECT)
		return -EFSCORRUPTED;
	/* At least one byte, so that there is a place to point to. */
	r = buf_reserve(out, oid_length(id) + 1);
	if (r == 0)
		r = read_place(s, id, place, out->data + out->len);
	if (r == 0)
		out->len += oid_length(id);
	return r;
}

int store_get_snap(struct store *s, const struct oid *id,
		   struct snap *ret_snap)
{
	_cleanup_buf_ struct buf bytes = {0};
	int r = store_get(s, id, &bytes);

	return r < 0 ? r : snap_decode(bytes.data, bytes.len, ret_snap);
}

int store_has(struct store *s, const struct oid *id)
{
	struct segment_place place;
	int r = lookup(s, id, &place);

	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}
