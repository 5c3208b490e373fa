/* SPDX-License-Identifier: MIT */
/*
 * How: every name of an inode that has several is noted with its new position
 * and a key that is the inode's. An inode that changed, and that shows
 * unchanged below a path that is left out, is two: one key for each. At the
 * end names are grouped by key; one that is alone in its group is no link.
 */
#include "env/freeze_int.h"

#include "base/err.h"
#include "base/grow.h"

#include <stdlib.h>

/* Inode numbers stay below 2^53. */
#define KEY_OF_BASE (UINT64_C(1) << 63)

int freeze_link(struct freeze *f, uint64_t position, uint64_t ino, bool of_base)
{
	bool other = of_base && itable_find(f->e, ino);

	if (GROW(f->members, f->member_count, f->member_cap, 64) < 0)
		return -ENOMEM;
	f->members[f->member_count++] = (struct freeze_member){
		.position = position,
		.key = ino | (other ? KEY_OF_BASE : 0),
	};
	return 0;
}

/* The first entry of the table at a position or behind it. */
static uint64_t lower_bound(const struct links *l, uint64_t position)
{
	uint64_t low = 0, high = l->count;
	struct links_entry e;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		links_at(l, mid, &e);
		if (e.position < position)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int freeze_link_range(struct freeze *f, uint64_t first, uint64_t count,
		      uint64_t to)
{
	const struct links *l = &f->e->base.links;
	struct links_entry e;
	int r = 0;

	for (uint64_t i = lower_bound(l, first); i < l->count && r >= 0; i++) {
		links_at(l, i, &e);
		if (e.position >= first + count)
			break;
		r = freeze_link(f, e.position - first + to, e.first + ENV_ROOT,
				true);
	}
	return r;
}

static int compare_keys(const void *a, const void *b)
{
	const struct freeze_member *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

static int compare_positions(const void *a, const void *b)
{
	const struct freeze_member *x = a, *y = b;

	return x->position < y->position ? -1 : x->position > y->position;
}

/* Sets the groups; returns how many names are in one. */
static uint64_t group(struct freeze *f)
{
	struct freeze_member *m = f->members;
	uint64_t shared = 0;
	size_t end;

	for (size_t i = 0; i < f->member_count; i = end) {
		for (end = i; end < f->member_count && m[end].key == m[i].key;)
			end++;
		for (size_t k = i; k < end; k++) {
			m[k].first = m[i].position;
			m[k].count = (uint32_t)(end - i);
		}
		shared += end - i > 1 ? end - i : 0;
	}
	return shared;
}

int freeze_links_put(struct freeze *f, struct oid *ret_links)
{
	struct freeze_member *m = f->members;
	uint64_t shared;
	int r;

	*ret_links = (struct oid){.b = {0}};
	if (!f->member_count)
		return 0;
	qsort(m, f->member_count, sizeof *m, compare_keys);
	shared = group(f);
	if (!shared)
		return 0;
	qsort(m, f->member_count, sizeof *m, compare_positions);
	buf_clear(&f->object);
	links_begin(&f->object, shared);
	for (size_t i = 0; i < f->member_count; i++)
		if (m[i].count > 1)
			links_add(&f->object, &(struct links_entry){
						      m[i].position, m[i].first,
						      m[i].count});
	r = buf_error(&f->object);
	return r < 0 ? r
		     : batch_put(f->batch, OID_LINKS, f->object.data,
				 f->object.len, ret_links);
}
