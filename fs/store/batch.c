/* SPDX-License-Identifier: MIT */
/*
 * How a put works: the hash finds, the bytes decide. The name is looked up
 * among what this batch has put, then in the index; on a hit the bytes are
 * compared, and bytes that differ get the next counter. What is not found is
 * appended to the batch's own segment and noted as pending.
 *
 * A hit that cannot be read (its record or row is damaged) is put again under
 * the same name: an import that said "done" while its bytes are unreadable
 * would break the first promise, and it heals older snapshots as well.
 *
 * A batch that has grown beyond a limit, or filled its segment, commits its
 * objects and goes on: memory stays bounded, and objects that nothing names
 * are harmless. A shared lock on STORE/lock keeps gc away (gate.c).
 *
 * The first error sticks: what follows it might name an object that is lost.
 */
#include "store/batch_int.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "object/format.h"

enum { COUNTER_MAX = 255 };

struct batch_seam_int batch_seam_int = {
	.name = oid_of,
	.segment_bytes = UINT64_C(256) << 20,
	.pending = 256 << 10,
};

/* --- begin and end ------------------------------------------------------ */

int batch_begin(struct store *s, struct batch **ret_batch)
{
	_cleanup_close_ int lock = -1;
	struct batch *b;
	int r;

	if (index_is_read_only(s->index))
		return -EROFS;
	r = gate_enter_int(s, &lock);
	if (r == 0)
		r = index_check_current(s->index);
	if (r < 0)
		return r;
	b = calloc(1, sizeof *b);
	if (!b)
		return -ENOMEM;
	b->store = s;
	r = writer_open(s->segments, s->index, batch_seam_int.segment_bytes,
			&b->writer);
	if (r < 0) {
		free(b);
		return r;
	}
	b->lock_fd = TAKE_FD(lock);
	*ret_batch = b;
	return 0;
}

void batch_forget_int(struct batch *b)
{
	hmap_fini(&b->pending);
	while (b->blocks) {
		struct batch_block *next = b->blocks->next;

		free(b->blocks);
		b->blocks = next;
	}
}

void batch_abort(struct batch *b)
{
	if (!b)
		return;
	writer_close(&b->writer);
	batch_forget_int(b);
	buf_fini(&b->scratch);
	buf_fini(&b->scratch2);
	(void)close(b->lock_fd);
	free(b);
}

/* --- comparing ---------------------------------------------------------- */

bool batch_is_damage_int(int err)
{
	return err == -EFSBADCRC || err == -EFSCORRUPTED || err == -EIO;
}

static struct batch_entry *find_pending(const struct batch *b,
					const struct oid *id)
{
	struct hnode *n =
		b->pending.count ? hmap_first(&b->pending, oid_hash(id)) : NULL;

	for (; n; n = hmap_next(n)) {
		struct batch_entry *e =
			container_of(n, struct batch_entry, node);

		if (oid_equal(&e->id, id))
			return e;
	}
	return NULL;
}

int batch_read_int(struct batch *b, const struct batch_entry *e, void *raw)
{
	const uint8_t *p = writer_peek(&b->writer, &e->place);

	if (!p)
		return segment_read(b->store->segments, &e->place, &e->id, raw);
	if (e->place.stored_len > 0)
		memcpy(raw, p, e->place.stored_len);
	return 0;
}

/* Makes room for n bytes that are about to be overwritten. */
static int fit(struct buf *b, size_t n)
{
	buf_clear(b);
	return buf_reserve(b, n + 1);
}

int batch_same_int(struct batch *b, const struct segment_place *place,
		   const struct oid *id, const void *data)
{
	const size_t n = oid_length(id);
	int r = fit(&b->scratch, n);

	if (r == 0)
		r = segment_read(b->store->segments, place, id,
				 b->scratch.data);
	if (r < 0)
		return r;
	return n == 0 || memcmp(b->scratch.data, data, n) == 0;
}

static int same_pending(struct batch *b, const struct batch_entry *e,
			const void *data)
{
	const uint8_t *p = writer_peek(&b->writer, &e->place);
	const size_t n = oid_length(&e->id);

	if (p)
		return n == 0 || memcmp(p, data, n) == 0;
	return batch_same_int(b, &e->place, &e->id, data);
}

/* What is known of a name: the bytes are there, others are, or none. */
enum match { MATCH_FREE, MATCH_SAME, MATCH_OTHER, MATCH_DAMAGED };

static int match(struct batch *b, const struct oid *id, const void *data)
{
	const struct batch_entry *e = find_pending(b, id);
	const size_t n = oid_length(id);
	int r;

	if (e) {
		r = same_pending(b, e, data);
		return r < 0 ? r : r ? MATCH_SAME : MATCH_OTHER;
	}
	r = fit(&b->scratch, n);
	if (r == 0)
		r = store_read(b->store, id, b->scratch.data);
	if (r == -ENOENT)
		return MATCH_FREE;
	if (r == 0)
		r = n == 0 || memcmp(b->scratch.data, data, n) == 0;
	if (batch_is_damage_int(r))
		return MATCH_DAMAGED;
	return r < 0 ? r : r ? MATCH_SAME : MATCH_OTHER;
}

/* --- putting ------------------------------------------------------------ */

static struct batch_entry *new_entry(struct batch *b)
{
	struct batch_block *k = b->blocks;

	if (!k || k->used == BATCH_BLOCK_ENTRIES) {
		k = malloc(sizeof *k);
		if (!k)
			return NULL;
		k->next = b->blocks;
		k->used = 0;
		b->blocks = k;
	}
	return &k->entries[k->used++];
}

static int append(struct batch *b, const struct oid *id, const void *data,
		  size_t len, bool heal)
{
	struct batch_entry *e = new_entry(b);
	int r;

	if (!e)
		return -ENOMEM;
	*e = (struct batch_entry){.id = *id, .heal = heal};
	r = space_check_int(b->store, &b->room,
			    segment_record_bytes((uint32_t)len));
	if (r == 0)
		r = writer_append(&b->writer, id, data, len, &e->place);
	if (r == 0)
		r = hmap_insert(&b->pending, &e->node, oid_hash(id));
	if (r < 0)
		return r;
	b->written += segment_record_bytes((uint32_t)len);
	if (b->pending.count >= batch_seam_int.pending ||
	    writer_end(&b->writer) >= b->writer.limit)
		r = batch_flush_int(b, NULL, NULL);
	return r;
}

static int put(struct batch *b, enum oid_kind kind, const void *data,
	       size_t len, struct oid *ret_id)
{
	struct oid id = batch_seam_int.name(kind, data, len);
	unsigned counter = 0;
	int r;

	for (;;) {
		r = match(b, &id, data);
		if (r != MATCH_OTHER)
			break;
		if (++counter > COUNTER_MAX)
			return -EOVERFLOW;
		id = oid_with_counter(id, (uint8_t)counter);
	}
	if (r == MATCH_FREE || r == MATCH_DAMAGED)
		r = append(b, &id, data, len, r == MATCH_DAMAGED);
	if (r < 0)
		return r;
	*ret_id = id;
	return 0;
}

int batch_put(struct batch *b, enum oid_kind kind, const void *data, size_t len,
	      struct oid *ret_id)
{
	int r;

	if (kind <= OID_NONE || kind >= OID_KIND_END)
		return -EINVAL;
	if (len > FORMAT_MAX_OBJECT)
		return -EFBIG;
	if (b->err < 0)
		return b->err;
	r = put(b, kind, data, len, ret_id);
	if (r < 0)
		b->err = r;
	return r;
}

int batch_get(struct batch *b, const struct oid *id, struct buf *out)
{
	const struct batch_entry *e = find_pending(b, id);
	int r;

	if (!e)
		return store_get(b->store, id, out);
	r = buf_reserve(out, oid_length(id) + 1);
	if (r == 0)
		r = batch_read_int(b, e, out->data + out->len);
	if (r == 0)
		out->len += oid_length(id);
	return r;
}

/* The shared lock on STORE/lock is what keeps the object. */
int batch_has(struct batch *b, const struct oid *id)
{
	return find_pending(b, id) ? 1 : store_has(b->store, id);
}

void batch_is_urgent(struct batch *b)
{
	b->room.urgent = true;
}

uint64_t batch_bytes_written(const struct batch *b)
{
	return b->written;
}
