/* SPDX-License-Identifier: MIT */
/*
 * Moving records into new segments, so that old ones can go.
 *
 * Imports and readers are at work meanwhile, since a move changes nothing that
 * they can see: the same bytes have two places, then the index names the new
 * one, then the old one goes. The steps, for a segment:
 *
 *   lock it, as a writer does; who has it already keeps it for this time
 *   look whether its committed end is the one that was seen when marking: if
 *     so, no row can have come that points into it
 *   copy what is kept, each record checked; write and sync
 *   one transaction: new places, the new segment's end, the old one's row gone
 *   unlink
 *
 * Killed before the transaction the copies are a torn tail; after it the old
 * file is one that the index does not know, and the next gc removes it. A row
 * that has changed since it was copied (healed by an import, or deleted by
 * another gc) is left as it is.
 *
 * New segments only: an old one with room may be the next to be rewritten.
 * A number is never used again, since others may have the old file open.
 *
 * Deflating moves single records and leaves the rest of their segment alone;
 * how much that is decides whether it is rewritten.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"
#include "object/zip.h"
#include "store/batch_int.h"
#include "store/gc_int.h"
#include "store/space.h"

enum {
	MOVES_PER_COMMIT = 1 << 16,
	PACK_MIN = 256, /* below it the frame outweighs the gain */
	ROOM_LEFT = 1 << 20,
};

struct gc_move {
	struct oid id;
	struct segment_place from;
	struct segment_place to;
};

/* --- into the index ------------------------------------------------------ */

static int apply_move(struct index_txn *t, const struct gc_move *m)
{
	struct segment_place now;
	int r = index_get_object(t, &m->id, &now);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (now.segment != m->from.segment || now.offset != m->from.offset)
		return 0;
	return index_put_object(t, &m->id, &m->to, false);
}

static int drop_row(struct index_txn *t, uint32_t number)
{
	struct index_gc gc = {0};
	int r = index_get_gc(t, &gc);

	if (r == 0)
		r = index_delete_segment(t, number);
	if (r < 0 || gc.next_segment > number)
		return r;
	gc.next_segment = number + 1;
	return index_put_gc(t, &gc);
}

/* Makes the moves so far durable; drop, when not NULL, has nothing left. */
static int commit(struct gc *g, const struct gc_segment *drop)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct gc_move m;
	int r = writer_sync(&g->writer);

	if (r == 0 && g->moves.len == 0 && !drop)
		return 0;
	if (r == 0)
		r = index_txn_begin(g->store->index, true, &t);
	for (size_t i = 0; r == 0 && i < g->moves.len; i += sizeof m) {
		memcpy(&m, g->moves.data + i, sizeof m);
		r = apply_move(&t, &m);
	}
	if (r == 0 && g->moves.len > 0)
		r = index_put_segment(&t, g->writer.number,
				      writer_end(&g->writer));
	if (r == 0 && drop)
		r = drop_row(&t, drop->number);
	if (r < 0)
		return r;
	g->writer.keep_tail = true;
	r = index_txn_commit(&t);
	if (r < 0)
		return r;
	g->writer.keep_tail = false;
	writer_committed(&g->writer);
	buf_clear(&g->moves);
	return 0;
}

/* --- copying ------------------------------------------------------------- */

static int append(struct gc *g, struct mark_object *o,
		  enum segment_encoding encoding, const struct buf *payload)
{
	struct gc_move m = {.id = o->id, .from = mark_place(o)};
	int r = writer_append_stored(&g->writer, &o->id, encoding,
				     payload->data, payload->len, &m.to);

	if (r < 0)
		return r;
	buf_put(&g->moves, &m, sizeof m);
	r = buf_error(&g->moves);
	if (r < 0)
		return r;
	o->segment = m.to.segment;
	o->offset = m.to.offset;
	o->stored_len = m.to.stored_len;
	o->encoding = m.to.encoding;
	g->appended += segment_record_bytes(m.to.stored_len);
	if (g->moves.len / sizeof m >= MOVES_PER_COMMIT ||
	    writer_end(&g->writer) >= g->writer.limit)
		return commit(g, NULL);
	return 0;
}

static int read_stored(struct gc *g, const struct mark_object *o)
{
	const struct segment_place place = mark_place(o);

	buf_clear(&g->stored);
	return segment_read_stored(g->store->segments, &place, &o->id,
				   &g->stored);
}

/* --- rewriting ----------------------------------------------------------- */

int gc_lock_segment(struct gc *g, uint32_t number, int flags)
{
	_cleanup_close_ int fd = -1;
	char name[SEGMENT_NAME_BYTES];
	struct stat st;
	int r;

	segment_name(number, name);
	fd = io_open_file(segments_fd(g->store->segments), name, flags);
	if (fd < 0)
		return fd;
	r = io_lock(fd, LOCK_EX | LOCK_NB);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink > 0 ? TAKE_FD(fd) : -ENOENT;
}

int gc_is_unchanged(struct gc *g, const struct gc_segment *s)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	uint64_t end = 0;
	int r = index_txn_begin(g->store->index, false, &t);

	if (r == 0)
		r = index_get_segment(&t, s->number, &end);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : end == s->end;
}

static void note_damage(struct gc *g, const struct mark_object *o, int err)
{
	char hex[OID_HEX + 1];

	oid_to_hex(&o->id, hex);
	if (g->damage == 0)
		diag_add(g->notes,
			 "object %s is damaged (%s) and stays where it is: "
			 "cowfs fsck tells more",
			 hex, err_text(err));
	g->damage = g->damage ? g->damage : err;
}

/* Copies what is kept; *ret_bad: something could not be read. */
static int copy_live(struct gc *g, const struct gc_segment *s, bool *ret_bad)
{
	int r = 0;

	*ret_bad = false;
	for (size_t i = s->first; r == 0 && i < s->first + s->count; i++) {
		struct mark_object *o = &g->mark.objects[i];

		/* Deflated, and so moved, before? */
		if (o->segment != s->number)
			continue;
		r = read_stored(g, o);
		if (r == 0) {
			r = append(g, o, o->encoding, &g->stored);
		} else if (batch_is_damage_int(r)) {
			note_damage(g, o, r);
			*ret_bad = true;
			r = 0;
		}
	}
	return r;
}

static int rewrite(struct gc *g, const struct gc_segment *s)
{
	_cleanup_close_ int lock = gc_lock_segment(g, s->number, O_RDONLY);
	char name[SEGMENT_NAME_BYTES];
	struct stat st;
	bool bad;
	int r;

	if (lock < 0)
		return lock == -EBUSY || lock == -ENOENT ? 0 : lock;
	r = gc_is_unchanged(g, s);
	if (r <= 0)
		return r;
	r = copy_live(g, s, &bad);
	if (r == 0)
		r = commit(g, bad ? NULL : s);
	if (r < 0 || bad)
		return r;
	segment_name(s->number, name);
	if (fstat(lock, &st) < 0 ||
	    unlinkat(segments_fd(g->store->segments), name, 0) < 0)
		return -errno;
	g->removed = true;
	g->result->segments++;
	g->result->freed += (uint64_t)st.st_size;
	return 0;
}

int gc_drop_empty(struct gc *g)
{
	size_t n;
	const struct gc_segment *all = gc_segments(g, &n);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (all[i].live == 0)
			r = rewrite(g, &all[i]);
	return r;
}

static int compare_live(const void *a, const void *b)
{
	const struct gc_segment *const *x = a;
	const struct gc_segment *const *y = b;

	return (*x)->live < (*y)->live ? -1 : (*x)->live > (*y)->live;
}

/* Whether the disk has room for a copy, and some more for others. */
static int check_room(struct gc *g, const struct gc_segment *s)
{
	struct space disk;
	int r = space_read(g->store, &disk);

	if (r < 0)
		return r;
	return disk.free < s->live + ROOM_LEFT ? -ENOSPC : 0;
}

/* Those with the least to copy come first: each makes room for the next. */
int gc_rewrite(struct gc *g)
{
	size_t n, chosen = 0;
	struct gc_segment *all = gc_segments(g, &n);
	_cleanup_free_ struct gc_segment **order =
		calloc(n + 1, sizeof(void *));
	int r = order ? gc_drop_empty(g) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (all[i].chosen && all[i].live > 0)
			order[chosen++] = &all[i];
	qsort(order, chosen, sizeof(void *), compare_live);
	for (size_t i = 0; r == 0 && i < chosen; i++) {
		r = check_room(g, order[i]);
		if (r == 0)
			r = rewrite(g, order[i]);
	}
	return r;
}

/* --- deflating ----------------------------------------------------------- */

/* A fifth must be saved, and reading must not inflate more than a chunk. */
static int pack_one(struct gc *g, struct gc_segment *s, struct mark_object *o)
{
	const uint64_t before = segment_record_bytes(o->stored_len);
	int r = read_stored(g, o);

	if (batch_is_damage_int(r)) {
		note_damage(g, o, r);
		return 0;
	}
	buf_clear(&g->packed);
	if (r == 0)
		r = zip_deflate(g->stored.data, g->stored.len, &g->packed);
	if (r < 0 ||
	    segment_record_bytes((uint32_t)g->packed.len) * 5 > before * 4)
		return r;
	r = append(g, o, SEGMENT_DEFLATE, &g->packed);
	if (r < 0)
		return r;
	s->live -= before;
	g->result->compressed++;
	return 0;
}

int gc_compress(struct gc *g)
{
	size_t n;
	struct gc_segment *all = gc_segments(g, &n);
	int r = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; r == 0 && k < all[i].count; k++) {
			struct mark_object *o =
				&g->mark.objects[all[i].first + k];

			if (o->owner == OWNER_REST &&
			    o->encoding == SEGMENT_RAW &&
			    o->stored_len >= PACK_MIN &&
			    o->stored_len <= FORMAT_CHUNK_BYTES)
				r = pack_one(g, &all[i], o);
		}
	return r < 0 ? r : commit(g, NULL);
}
