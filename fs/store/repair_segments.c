/* SPDX-License-Identifier: MIT */
/*
 * How: records cannot be mended or moved within a segment. So the whole ones
 * of a damaged segment are appended to another, their rows follow in one
 * commit, the file goes to the quarantine as it is, and then its row in `seg`
 * goes. They go into new segments only, as gc's do: an old one with room may
 * be the next damaged one. Objects can be read all the while.
 *
 * A row without a whole record is set to another record of the same object, or
 * deleted: an import of the same bytes then stores them anew. A snapshot whose
 * own object is lost goes with its names; one that has lost something below it
 * stays, and all else in it can be read.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "object/format.h"
#include "store/writer_int.h"

enum { OBJECTS_A_COMMIT = 20000 };
#define SEGMENT_LIMIT (UINT64_C(256) << 20)

struct move {
	struct fsck *f;
	struct store *store;
	struct writer writer;
	struct buf moved; /* of struct fsck_object *, not committed yet */
	struct buf places;
};

/* Its number is never used again (S18), and who has it open lets it go. */
static int drop_segment_row(struct fsck *f, uint32_t number)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct index_gc gc = {0};
	int r = index_txn_begin(f->store->index, true, &t);

	if (r == 0)
		r = index_get_gc(&t, &gc);
	if (r == 0)
		r = index_delete_segment(&t, number);
	gc.generation++;
	gc.next_segment = MAX(gc.next_segment, number + 1);
	if (r == 0)
		r = index_put_gc(&t, &gc);
	return r < 0 ? r : index_txn_commit(&t);
}

/* --- moving whole records ------------------------------------------------ */

static int commit_moved(struct move *m)
{
	const size_t n = m->moved.len / sizeof(struct fsck_object *);
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = n > 0 ? writer_sync(&m->writer) : 0;

	if (r < 0 || n == 0)
		return r;
	r = index_txn_begin(m->store->index, true, &t);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct segment_place place;
		struct fsck_object *o;

		memcpy(&o, m->moved.data + i * sizeof o, sizeof o);
		memcpy(&place, m->places.data + i * sizeof place, sizeof place);
		o->place = place;
		r = index_put_object(&t, &o->id, &place, false);
	}
	if (r == 0)
		r = index_put_segment(&t, m->writer.number,
				      writer_end(&m->writer));
	m->writer.keep_tail = true;
	if (r == 0)
		r = index_txn_commit(&t);
	if (r < 0)
		return r;
	m->writer.keep_tail = false;
	writer_committed(&m->writer);
	buf_clear(&m->moved);
	buf_clear(&m->places);
	return 0;
}

static int move_record(struct move *m, struct fsck_object *o,
		       struct buf *stored)
{
	struct segment_place place;
	int r;

	buf_clear(stored);
	r = segment_read_stored(m->store->segments, &o->place, &o->id, stored);
	if (r == 0)
		r = writer_append_stored(&m->writer, &o->id, o->place.encoding,
					 stored->data, stored->len, &place);
	if (r < 0)
		return r;
	buf_put(&m->moved, &o, sizeof o);
	buf_put(&m->places, &place, sizeof place);
	r = buf_error(&m->moved);
	if (r == 0)
		r = buf_error(&m->places);
	if (r == 0 && (m->places.len / sizeof place >= OBJECTS_A_COMMIT ||
		       writer_end(&m->writer) >= m->writer.limit))
		r = commit_moved(m);
	return r;
}

static int compare_places(const void *a, const void *b)
{
	const struct fsck_object *const *x = a;
	const struct fsck_object *const *y = b;

	return ((*x)->place.offset > (*y)->place.offset) -
	       ((*x)->place.offset < (*y)->place.offset);
}

/* Lists the whole objects of a segment in the order of the file. */
static int list_objects(struct fsck *f, uint32_t number, struct buf *out)
{
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&f->objects, &c))) {
		struct fsck_object *o =
			container_of(n, struct fsck_object, node);

		if (o->state & OBJECT_ROW && o->place.segment == number &&
		    !fsck_is_lost(o))
			buf_put(out, &o, sizeof o);
	}
	if (out->len > 0)
		qsort(out->data, out->len / sizeof(void *), sizeof(void *),
		      compare_places);
	return buf_error(out);
}

static int move_objects(struct fsck *f, uint32_t number)
{
	struct move m = {.f = f, .store = f->store};
	_cleanup_buf_ struct buf list = {0};
	_cleanup_buf_ struct buf raw = {0};
	int r = list_objects(f, number, &list);

	if (r < 0 || list.len == 0)
		return r;
	r = writer_open(f->store->segments, f->store->index, SEGMENT_LIMIT,
			&m.writer);
	if (r < 0)
		return r;
	m.writer.fresh = true;
	for (size_t i = 0; r == 0 && i < list.len;
	     i += sizeof(struct fsck_object *)) {
		struct fsck_object *o;

		memcpy(&o, list.data + i, sizeof o);
		r = move_record(&m, o, &raw);
	}
	if (r == 0)
		r = commit_moved(&m);
	writer_close(&m.writer);
	buf_fini(&m.moved);
	buf_fini(&m.places);
	return r;
}

static int repair_segment(struct fsck *f, const struct fsck_segment *s)
{
	char name[SEGMENT_NAME_BYTES];
	char path[SEGMENT_NAME_BYTES + 16];
	int r = s->has_file ? move_objects(f, s->number) : 0;

	segment_name(s->number, name);
	(void)snprintf(path, sizeof path, "segments/%s", name);
	if (r == 0 && s->has_file)
		r = fsck_set_aside(f, path);
	return r < 0 ? r : drop_segment_row(f, s->number);
}

/* --- rows of what is lost ------------------------------------------------ */

static int fix_rows(struct fsck *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct hmap_cursor c = {0};
	struct hnode *n;
	size_t fixed = 0;
	int r = index_txn_begin(f->store->index, true, &t);

	while (r == 0 && (n = hmap_each(&f->objects, &c))) {
		struct fsck_object *o =
			container_of(n, struct fsck_object, node);

		if (!(o->state & OBJECT_ROW) || !fsck_is_lost(o))
			continue;
		fixed++;
		if (o->state & OBJECT_OTHER) {
			r = index_put_object(&t, &o->id, &o->other, false);
			o->place = o->other;
			o->state = OBJECT_ROW | OBJECT_WHOLE;
		} else {
			r = index_delete_object(&t, &o->id);
		}
	}
	if (r < 0 || fixed == 0)
		return r;
	return index_txn_commit(&t);
}

static int drop_snapshot(struct fsck *f, struct index_txn *t,
			 const struct oid *id)
{
	char hex[OID_HEX + 1];
	int r = index_delete(t, INDEX_SNAPSHOTS,
			     index_key_of(id->b, OID_BYTES));

	oid_to_hex(id, hex);
	for (size_t i = 0; r == 0 && i < f->refs.len;
	     i += sizeof(struct fsck_ref)) {
		struct fsck_ref ref;

		memcpy(&ref, f->refs.data + i, sizeof ref);
		if (!oid_equal(&ref.id, id))
			continue;
		fsck_say(f, FSCK_NOTE, hex, "it had the name %s", ref.name);
		r = index_delete_ref(t, ref.name);
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		fsck_say(f, FSCK_NOTE, hex,
			 "the snapshot itself is lost, and its row goes");
	return r;
}

static int drop_snapshots(struct fsck *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	size_t dropped = 0;
	int r = index_txn_begin(f->store->index, true, &t);

	for (size_t i = 0; r == 0 && i < f->snapshots.len;
	     i += sizeof(struct fsck_snapshot)) {
		const struct fsck_object *o;
		struct fsck_snapshot s;

		memcpy(&s, f->snapshots.data + i, sizeof s);
		o = fsck_find(f, &s.id);
		if (o && !fsck_is_lost(o))
			continue;
		dropped++;
		r = drop_snapshot(f, &t, &s.id);
	}
	return r < 0 || dropped == 0 ? r : index_txn_commit(&t);
}

/* Deletes names of no snapshot: rows that never should have been. */
static int drop_refs(struct fsck *f)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	size_t dropped = 0;
	int r = index_txn_begin(f->store->index, true, &t);

	for (size_t i = 0; r == 0 && i < f->refs.len;
	     i += sizeof(struct fsck_ref)) {
		struct fsck_ref ref;

		memcpy(&ref, f->refs.data + i, sizeof ref);
		r = index_has_snapshot(&t, &ref.id);
		if (r != 0) {
			r = r > 0 ? 0 : r;
			continue;
		}
		r = index_delete_ref(&t, ref.name);
		/* Gone with its snapshot already. */
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		dropped++;
		fsck_say(f, FSCK_NOTE, ref.name,
			 "the name of no snapshot goes");
	}
	return r < 0 || dropped == 0 ? r : index_txn_commit(&t);
}

int repair_segments(struct fsck *f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < fsck_segment_count(f); i++)
		if (fsck_segment_at(f, i)->damaged)
			r = repair_segment(f, fsck_segment_at(f, i));
	if (r == 0)
		r = fix_rows(f);
	if (r == 0)
		r = drop_snapshots(f);
	if (r == 0)
		r = drop_refs(f);
	if (r == 0)
		r = repair_rescues(f);
	return r < 0 ? r : repair_leases(f);
}
