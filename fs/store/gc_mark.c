/* SPDX-License-Identifier: MIT */
/*
 * Marking: which objects does a snapshot reach?
 *
 * The whole table of objects is read into an array first, 48 bytes each; LMDB
 * gives it sorted by name. Names are hashes, evenly spread, so a table of where
 * each 16-bit prefix begins leaves some steps of a binary search. The mark is a
 * number in the array, and what was reached and not yet looked into is a stack
 * of indexes: depth and size of a tree cost no recursion.
 *
 * What cannot be read or found ends the marking: below it there may be anything
 * that is still needed.
 *
 * With sharing, an object that a second owner reaches becomes everybody's, and
 * is looked into once more so that all below it does too. So each object is
 * looked into twice at most, however many snapshots there are.
 */
#include "store/gc_int.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "object/format.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"

/* --- the table ----------------------------------------------------------- */

void mark_fini(struct mark *m)
{
	free(m->objects);
	free(m->first);
	buf_fini(&m->stack);
	buf_fini(&m->bytes);
}

static size_t prefix_of(const struct oid *id)
{
	return (size_t)id->b[0] << 8 | id->b[1];
}

static int load_one(void *ctx, const struct oid *id,
		    const struct segment_place *place)
{
	struct mark *m = ctx;
	struct mark_object *o = &m->objects[m->count];

	/* Out of order: a page of the index is damaged. */
	if (m->count == m->room ||
	    (m->count > 0 && oid_compare(&o[-1].id, id) >= 0))
		return -EFSCORRUPTED;
	*o = (struct mark_object){
		.id = *id,
		.segment = place->segment,
		.offset = place->offset,
		.stored_len = place->stored_len,
		.encoding = place->encoding,
	};
	m->count++;
	m->first[prefix_of(id) + 1]++;
	return 0;
}

static int load(struct mark *m)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	uint64_t count = 0;
	int r = index_txn_begin(m->store->index, false, &t);

	if (r == 0)
		r = index_count(&t, INDEX_OBJECTS, &count);
	if (r == 0 && count >= UINT32_MAX)
		r = -EOVERFLOW;
	if (r < 0)
		return r;
	m->room = (size_t)count;
	m->objects = calloc(m->room + 1, sizeof *m->objects);
	m->first = calloc(MARK_PREFIXES + 1, sizeof *m->first);
	if (!m->objects || !m->first)
		return -ENOMEM;
	r = index_each_object(&t, load_one, m);
	if (r < 0)
		return r;
	for (size_t i = 0; i < MARK_PREFIXES; i++)
		m->first[i + 1] += m->first[i];
	return m->count == m->room ? 0 : -EFSCORRUPTED;
}

int mark_load(struct mark *m, struct store *s, struct diag *diag)
{
	int r;

	m->store = s;
	m->diag = diag;
	r = load(m);
	if (r == -EFSCORRUPTED || r == -EFSBADCRC)
		return diag_fail(diag, r,
				 "the index of %s is damaged: cowfs fsck tells "
				 "more",
				 s->path);
	return r;
}

static struct mark_object *find(const struct mark *m, const struct oid *id)
{
	const size_t prefix = prefix_of(id);
	size_t low = m->first[prefix];
	size_t high = m->first[prefix + 1];

	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		const int c = oid_compare(&m->objects[mid].id, id);

		if (c == 0)
			return &m->objects[mid];
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* --- the walk ------------------------------------------------------------ */

static int fail_at(struct mark *m, const struct oid *id, int err,
		   const char *why)
{
	char hex[OID_HEX + 1];

	oid_to_hex(id, hex);
	return diag_fail(
		m->diag, err,
		"object %s, which is needed, %s: cowfs fsck tells more", hex,
		why);
}

static bool has_children(const struct oid *id)
{
	const enum oid_kind kind = oid_kind(id);

	return kind == OID_TREE || kind == OID_MANIFEST || kind == OID_SNAP;
}

static int visit(struct mark *m, const struct oid *id, uint32_t owner)
{
	struct mark_object *o;
	uint32_t i;

	if (oid_is_null(id))
		return 0;
	o = find(m, id);
	if (!o)
		return fail_at(m, id, -EFSCORRUPTED, "is not there");
	if (o->owner == owner || o->owner == MARK_SHARED)
		return 0;
	if (o->owner != MARK_NONE && !m->sharing)
		return 0;
	o->owner = o->owner == MARK_NONE ? owner : MARK_SHARED;
	if (!has_children(id))
		return 0;
	i = (uint32_t)(o - m->objects);
	buf_put(&m->stack, &i, sizeof i);
	return buf_error(&m->stack);
}

static int visit_tree(struct mark *m, uint32_t owner)
{
	struct tree_entry e;
	struct tree t;
	int r = tree_open(m->bytes.data, m->bytes.len, &t);

	for (uint32_t i = 0; r == 0 && i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		r = visit(m, &e.content, owner);
		if (r == 0)
			r = visit(m, &e.xattrs, owner);
	}
	return r;
}

static int visit_manifest(struct mark *m, uint32_t owner)
{
	struct manifest f;
	int r = manifest_open(m->bytes.data, m->bytes.len, &f);

	for (uint64_t i = 0; r == 0 && i < f.count; i++) {
		const struct oid chunk = manifest_chunk(&f, i);

		r = visit(m, &chunk, owner);
	}
	return r;
}

static int visit_snap(struct mark *m, uint32_t owner)
{
	struct snap s;
	int r = snap_decode(m->bytes.data, m->bytes.len, &s);

	if (r == 0)
		r = visit(m, &s.tree, owner);
	if (r == 0)
		r = visit(m, &s.xattrs, owner);
	if (r == 0)
		r = visit(m, &s.links, owner);
	return r;
}

static int look_into(struct mark *m, const struct mark_object *o,
		     uint32_t owner)
{
	const size_t told = m->diag ? m->diag->count : 0;
	int r;

	buf_clear(&m->bytes);
	r = store_get(m->store, &o->id, &m->bytes);
	if (r == 0 && oid_kind(&o->id) == OID_TREE)
		r = visit_tree(m, owner);
	else if (r == 0 && oid_kind(&o->id) == OID_MANIFEST)
		r = visit_manifest(m, owner);
	else if (r == 0)
		r = visit_snap(m, owner);
	if (r == 0 || r == -ENOMEM || (m->diag && m->diag->count > told))
		return r;
	return fail_at(m, &o->id, r, "cannot be read");
}

int mark_root(struct mark *m, const struct oid *root, uint32_t owner)
{
	int r = visit(m, root, owner);

	while (r == 0 && m->stack.len > 0) {
		uint32_t i;

		m->stack.len -= sizeof i;
		memcpy(&i, m->stack.data + m->stack.len, sizeof i);
		r = look_into(m, &m->objects[i], owner);
	}
	return r;
}
