/* SPDX-License-Identifier: MIT */
/*
 * How: a file's own blocks hang in leaves of 512 entries, sorted by place; a
 * leaf grows from one entry as blocks are set, so that a small file costs one
 * word and a gigabyte of random writes stays O(1) per block. Extents would be
 * smaller for sequential files, and slow for databases.
 */
#include "env/env_int.h"

#include <errno.h>
#include <string.h>

/* Finds the place of a leaf: its own or where it would stand. */
static size_t leaf_place(const struct inode *in, uint64_t index)
{
	size_t lo = 0, hi = in->leaf_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (in->leaves[mid]->index < index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t leaf_get(const struct inode *in, size_t place, uint64_t fblock)
{
	const struct leaf *l;
	uint64_t slot = fblock % ENV_LEAF_BLOCKS;

	if (place == in->leaf_count)
		return BLOCK_NONE;
	l = in->leaves[place];
	if (l->index != fblock / ENV_LEAF_BLOCKS || slot >= l->cap)
		return BLOCK_NONE;
	return l->b[slot];
}

static enum run_kind kind_of(uint64_t block)
{
	return block == BLOCK_NONE   ? RUN_BASE
	       : block == BLOCK_HOLE ? RUN_HOLE
				     : RUN_DATA;
}

/* Returns how many blocks from fblock on no leaf says anything about. */
static uint64_t gap_len(const struct inode *in, size_t place, uint64_t fblock)
{
	uint64_t index = fblock / ENV_LEAF_BLOCKS;

	if (place < in->leaf_count && in->leaves[place]->index == index) {
		if (fblock % ENV_LEAF_BLOCKS < in->leaves[place]->cap)
			return 0;
		place++;
	}
	if (place == in->leaf_count)
		return UINT64_MAX;
	return in->leaves[place]->index * ENV_LEAF_BLOCKS - fblock;
}

struct run map_run(const struct inode *in, uint64_t fblock, uint64_t max)
{
	size_t place = leaf_place(in, fblock / ENV_LEAF_BLOCKS);
	uint64_t gap = gap_len(in, place, fblock);
	struct run run = {.count = 0};
	uint64_t first;

	if (gap) {
		run.kind = RUN_BASE;
		run.count = MIN(gap, max);
		return run;
	}
	first = leaf_get(in, place, fblock);
	run.kind = kind_of(first);
	run.block = first;
	while (run.count < max) {
		uint64_t at = fblock + run.count, block;

		if (place < in->leaf_count &&
		    at / ENV_LEAF_BLOCKS > in->leaves[place]->index)
			place++;
		if (gap_len(in, place, at))
			break;
		block = leaf_get(in, place, at);
		if (kind_of(block) != run.kind ||
		    (run.kind == RUN_DATA && block != first + run.count))
			break;
		run.count++;
	}
	return run;
}

/* Finds or makes the leaf of a block, with room for its slot. */
static int leaf_need(struct inode *in, uint64_t fblock, struct leaf **ret_leaf)
{
	uint64_t index = fblock / ENV_LEAF_BLOCKS;
	uint32_t need = (uint32_t)(fblock % ENV_LEAF_BLOCKS) + 1, cap;
	size_t place = leaf_place(in, index);
	struct leaf *l = NULL, **p;
	bool is_new = place == in->leaf_count ||
		      in->leaves[place]->index != index;

	if (!is_new) {
		l = in->leaves[place];
		if (l->cap >= need) {
			*ret_leaf = l;
			return 0;
		}
	} else {
		p = realloc(in->leaves, (in->leaf_count + 1) * sizeof *p);
		if (!p)
			return -ENOMEM;
		in->leaves = p;
	}
	cap = l ? MAX(need, MIN(l->cap * 2, (uint32_t)ENV_LEAF_BLOCKS)) : need;
	l = realloc(l, sizeof *l + cap * sizeof l->b[0]);
	if (!l)
		return -ENOMEM;
	if (is_new) {
		memmove(&in->leaves[place + 1], &in->leaves[place],
			(in->leaf_count - place) * sizeof *in->leaves);
		in->leaf_count++;
		l->index = index;
		l->cap = 0;
	}
	memset(&l->b[l->cap], 0, (cap - l->cap) * sizeof l->b[0]);
	l->cap = cap;
	in->leaves[place] = l;
	*ret_leaf = l;
	return 0;
}

/* Gives blocks back one by one, joined by data_free. */
static void slot_set(struct env *e, struct inode *in, uint64_t *slot,
		     uint64_t block)
{
	if (*slot >= BLOCK_FIRST) {
		data_free(e, *slot, 1);
		in->private_blocks--;
	}
	if (block >= BLOCK_FIRST)
		in->private_blocks++;
	*slot = block;
}

int map_set(struct env *e, struct inode *in, uint64_t fblock, uint64_t count,
	    uint64_t block)
{
	while (count) {
		uint64_t slot = fblock % ENV_LEAF_BLOCKS;
		uint64_t part = MIN(count, ENV_LEAF_BLOCKS - slot);
		struct leaf *l;
		/* the last slot first: one growth, not many */
		int r = leaf_need(in, fblock + part - 1, &l);

		if (r < 0)
			return r;
		for (uint64_t i = 0; i < part; i++)
			slot_set(e, in, &l->b[slot + i],
				 block < BLOCK_FIRST ? block : block + i);
		if (block >= BLOCK_FIRST)
			block += part;
		fblock += part;
		count -= part;
	}
	return 0;
}

void map_cut(struct env *e, struct inode *in, uint64_t fblock)
{
	uint64_t index = fblock / ENV_LEAF_BLOCKS;

	while (in->leaf_count) {
		struct leaf *l = in->leaves[in->leaf_count - 1];
		uint32_t keep = 0;

		if (l->index < index)
			break;
		if (l->index == index)
			keep = MIN(l->cap, (uint32_t)(fblock % ENV_LEAF_BLOCKS));
		for (uint32_t i = keep; i < l->cap; i++)
			slot_set(e, in, &l->b[i], BLOCK_NONE);
		if (keep)
			break;
		free(l);
		in->leaf_count--;
	}
}

void map_free(struct env *e, struct inode *in)
{
	for (size_t i = 0; i < in->leaf_count; i++)
		free(in->leaves[i]);
	free(in->leaves);
	in->leaves = NULL;
	in->leaf_count = 0;
}
