/* SPDX-License-Identifier: MIT */
/*
 * How: fixed-size entries sorted by position, searched by bisection. Opening
 * checks each group from its members: every member must find its first
 * position in the table, that one must be its own first, and the members
 * counted there must be as many as each of them says. A scratch array of
 * counters keeps this at O(n log n).
 */
#include "object/links.h"

#include "base/bytes.h"
#include "base/err.h"
#include "object/form_int.h"

enum { AT_COUNT = 8 };

static uint64_t position_at(const struct links *l, uint64_t i)
{
	return bytes_load_u64(l->data + FORM_LINKS_HEADER +
			      i * FORM_LINKS_ENTRY);
}

/* Finds the index of a position; count: not there. */
static uint64_t find(const struct links *l, uint64_t position)
{
	uint64_t low = 0;
	uint64_t high = l->count;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		uint64_t here = position_at(l, mid);

		if (here == position)
			return mid;
		if (here < position)
			low = mid + 1;
		else
			high = mid;
	}
	return l->count;
}

/* Positions ascend, below the limit; the root, 0, is a directory and so has
 * one name. */
static bool order_is_right(const struct links *l)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < l->count; i++) {
		uint64_t position = position_at(l, i);

		if (position <= last || position > FORMAT_MAX_INODE)
			return false;
		last = position;
	}
	return true;
}

/* Counts the members of each group at the index of its first position. */
static bool groups_are_right(const struct links *l, uint32_t *members)
{
	struct links_entry e;
	struct links_entry head;

	for (uint64_t i = 0; i < l->count; i++) {
		uint64_t at;

		links_at(l, i, &e);
		at = e.first <= e.position ? find(l, e.first) : l->count;
		if (at == l->count)
			return false;
		links_at(l, at, &head);
		if (head.first != e.first || head.count != e.count)
			return false;
		members[at]++;
	}
	for (uint64_t i = 0; i < l->count; i++) {
		links_at(l, i, &e);
		if (e.count < 2 ||
		    (e.first == e.position && members[i] != e.count))
			return false;
	}
	return true;
}

int links_open(const void *data, size_t len, struct links *ret_links)
{
	_cleanup_free_ uint32_t *members = NULL;
	struct links l = {.data = data};
	size_t room;

	if (len < FORM_LINKS_HEADER || len > FORMAT_MAX_OBJECT ||
	    bytes_load_u32(l.data) != FORMAT_LINKS_MAGIC ||
	    bytes_load_u32(l.data + 4) != 0)
		return -EFSCORRUPTED;
	l.count = bytes_load_u64(l.data + AT_COUNT);
	room = len - FORM_LINKS_HEADER;
	if (room % FORM_LINKS_ENTRY != 0 ||
	    l.count != room / FORM_LINKS_ENTRY || !order_is_right(&l))
		return -EFSCORRUPTED;
	members = calloc(l.count + 1, sizeof *members);
	if (!members)
		return -ENOMEM;
	if (!groups_are_right(&l, members))
		return -EFSCORRUPTED;
	*ret_links = l;
	return 0;
}

void links_at(const struct links *l, uint64_t i, struct links_entry *ret_entry)
{
	const uint8_t *p = l->data + FORM_LINKS_HEADER + i * FORM_LINKS_ENTRY;

	ret_entry->position = bytes_load_u64(p);
	ret_entry->first = bytes_load_u64(p + 8);
	ret_entry->count = bytes_load_u32(p + 16);
}

bool links_find(const struct links *l, uint64_t position,
		struct links_entry *ret_entry)
{
	uint64_t i = find(l, position);

	if (i == l->count)
		return false;
	links_at(l, i, ret_entry);
	return true;
}

void links_begin(struct buf *out, uint64_t count)
{
	buf_put_u32(out, FORMAT_LINKS_MAGIC);
	buf_put_u32(out, 0);
	buf_put_u64(out, count);
}

void links_add(struct buf *out, const struct links_entry *e)
{
	buf_put_u64(out, e->position);
	buf_put_u64(out, e->first);
	buf_put_u32(out, e->count);
}
