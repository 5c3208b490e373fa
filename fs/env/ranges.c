/* SPDX-License-Identifier: MIT */
/*
 * How: a growing array of ranges. Appending joins with the last one; sorting
 * and joining all is done when a list is handed on, not before. A list that
 * cannot grow loses the blocks for this run of the server: the next open finds
 * them again.
 */
#include "env/env_int.h"

#include "base/grow.h"

#include <string.h>

void ranges_fini(struct ranges *l)
{
	free(l->v);
	*l = (struct ranges){0};
}

static bool ends_at(const struct ranges *l, uint64_t block)
{
	return l->len &&
	       l->v[l->len - 1].block + l->v[l->len - 1].count == block;
}

void ranges_add(struct ranges *l, uint64_t block, uint64_t count)
{
	if (!count)
		return;
	if (ends_at(l, block))
		l->v[l->len - 1].count += count;
	else if (GROW(l->v, l->len, l->cap, 64) < 0)
		return;
	else
		l->v[l->len++] = (struct range){block, count};
	l->blocks += count;
}

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->block < y->block ? -1 : x->block > y->block;
}

void ranges_sort(struct ranges *l)
{
	size_t to = 0;

	if (l->len)
		qsort(l->v, l->len, sizeof *l->v, compare);
	for (size_t i = 0; i < l->len; i++) {
		struct range *last = to ? &l->v[to - 1] : NULL;

		if (!l->v[i].count)
			continue;
		if (last && last->block + last->count == l->v[i].block)
			last->count += l->v[i].count;
		else
			l->v[to++] = l->v[i];
	}
	l->len = to;
}

void ranges_move(struct ranges *to, struct ranges *from)
{
	if (!to->len) {
		struct ranges empty = *to;

		*to = *from;
		*from = empty;
	} else {
		for (size_t i = 0; i < from->len; i++)
			ranges_add(to, from->v[i].block, from->v[i].count);
	}
	from->len = 0;
	from->blocks = 0;
	if (from->cap > 1024) /* a memory of one big removal */
		ranges_fini(from);
}

uint64_t ranges_take(struct ranges *l, size_t *at, uint64_t count)
{
	enum { LOOK_AT = 64 };

	if (l->blocks < count)
		return BLOCK_NONE;
	for (size_t i = 0; i < MIN(l->len, (size_t)LOOK_AT); i++) {
		struct range *r;
		uint64_t block;

		if (*at >= l->len)
			*at = 0;
		r = &l->v[*at];
		if (r->count < count) {
			++*at;
			continue;
		}
		block = r->block;
		r->block += count;
		r->count -= count;
		l->blocks -= count;
		return block;
	}
	return BLOCK_NONE;
}
