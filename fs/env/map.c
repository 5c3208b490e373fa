/* SPDX-License-Identifier: MIT */
/*
 * How: a file's own blocks hang in leaves of 512 entries, sorted by place; a
 * leaf whose blocks follow each other (or are all holes) is only their first
 * one and a count, so that a sequential file, a reserved range and a huge hole
 * cost a few words each 2 MiB; at the first write out of order it becomes an
 * array, so that random writes stay O(1) per block. Extents would be smaller
 * still, and slow for databases.
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

static uint64_t block_after(uint64_t block, uint64_t n)
{
	return block < BLOCK_FIRST ? block : block + n;
}

static uint64_t leaf_get(const struct leaf *l, uint64_t slot)
{
	if (slot >= l->cap)
		return BLOCK_NONE;
	return l->run ? block_after(l->run, slot) : l->b[slot];
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

/* Returns how many slots of a leaf from slot on go on with a run that has
 * reached this block. */
static uint64_t leaf_run(const struct leaf *l, uint64_t slot, uint64_t block)
{
	uint64_t n = 0;

	if (l->run)
		return leaf_get(l, slot) == block ? l->cap - slot : 0;
	while (slot + n < l->cap && l->b[slot + n] == block_after(block, n))
		n++;
	return n;
}

struct run map_run(const struct inode *in, uint64_t fblock, uint64_t max)
{
	size_t place = leaf_place(in, fblock / ENV_LEAF_BLOCKS);
	uint64_t gap = gap_len(in, place, fblock);
	struct run run = {.count = 0};

	if (gap) {
		run.kind = RUN_BASE;
		run.count = MIN(gap, max);
		return run;
	}
	run.block = leaf_get(in->leaves[place], fblock % ENV_LEAF_BLOCKS);
	run.kind = kind_of(run.block);
	while (run.count < max) {
		uint64_t at = fblock + run.count, n;

		if (place < in->leaf_count &&
		    at / ENV_LEAF_BLOCKS > in->leaves[place]->index)
			place++;
		if (gap_len(in, place, at))
			break;
		n = leaf_run(in->leaves[place], at % ENV_LEAF_BLOCKS,
			     block_after(run.block, run.count));
		if (!n)
			break;
		run.count += MIN(n, max - run.count);
	}
	return run;
}

/* Gives the blocks of slots back; joined by data_free. */
static void leaf_release(struct env *e, struct inode *in, const struct leaf *l,
			 uint64_t slot, uint64_t end)
{
	end = MIN(end, l->cap);
	while (slot < end) {
		uint64_t block = leaf_get(l, slot);
		uint64_t n = MIN(leaf_run(l, slot, block), end - slot);

		if (block >= BLOCK_FIRST) {
			data_free(e, block, n);
			in->private_blocks -= n;
			use_add(&e->use.bytes, -(n << ENV_BLOCK_SHIFT));
		}
		slot += n;
	}
}

/* Makes room for a new leaf and puts it there. */
static int leaf_insert(struct inode *in, size_t place, struct leaf *l)
{
	struct leaf **p = realloc(in->leaves, (in->leaf_count + 1) * sizeof *p);

	if (!p)
		return -ENOMEM;
	in->leaves = p;
	memmove(&p[place + 1], &p[place], (in->leaf_count - place) * sizeof *p);
	p[place] = l;
	in->leaf_count++;
	return 0;
}

/* Makes a leaf an array with room for `need` slots. */
static int leaf_expand(struct leaf **leaf, uint32_t need)
{
	struct leaf *l = *leaf;
	uint32_t cap = l->cap;

	if (!l->run && cap >= need)
		return 0;
	if (need > cap)
		cap = MAX(need, MIN(cap * 2, (uint32_t)ENV_LEAF_BLOCKS));
	l = realloc(l, sizeof *l + cap * sizeof l->b[0]);
	if (!l)
		return -ENOMEM;
	if (l->run)
		for (uint32_t i = 0; i < l->cap; i++)
			l->b[i] = block_after(l->run, i);
	l->run = BLOCK_NONE;
	for (uint32_t i = l->cap; i < cap; i++)
		l->b[i] = BLOCK_NONE;
	l->cap = cap;
	*leaf = l;
	return 0;
}

/* Sets slots [slot, end) of one leaf to blocks from `block` on. */
static int leaf_set(struct env *e, struct inode *in, size_t place,
		    uint64_t slot, uint64_t end, uint64_t block)
{
	struct leaf *l = in->leaves[place];
	int r;

	if (l->run && slot == l->cap && block == block_after(l->run, slot)) {
		l->cap = (uint32_t)end;
	} else if (slot == 0 && end >= l->cap) {
		leaf_release(e, in, l, 0, end);
		l->run = block;
		l->cap = (uint32_t)end;
		l = realloc(l, sizeof *l); /* an array's memory goes */
		if (l)
			in->leaves[place] = l;
	} else {
		r = leaf_expand(&in->leaves[place], (uint32_t)end);
		if (r < 0)
			return r;
		l = in->leaves[place];
		leaf_release(e, in, l, slot, end);
		for (uint64_t i = slot; i < end; i++)
			l->b[i] = block_after(block, i - slot);
	}
	if (block >= BLOCK_FIRST) {
		in->private_blocks += end - slot;
		use_add(&e->use.bytes, (end - slot) << ENV_BLOCK_SHIFT);
	}
	return 0;
}

int map_set(struct env *e, struct inode *in, uint64_t fblock, uint64_t count,
	    uint64_t block)
{
	while (count) {
		uint64_t slot = fblock % ENV_LEAF_BLOCKS;
		uint64_t part = MIN(count, ENV_LEAF_BLOCKS - slot);
		uint64_t index = fblock / ENV_LEAF_BLOCKS;
		size_t place = leaf_place(in, index);
		int r = 0;

		if (place == in->leaf_count ||
		    in->leaves[place]->index != index) {
			struct leaf *l = calloc(1, sizeof *l);

			if (!l)
				return -ENOMEM;
			l->index = index;
			r = leaf_insert(in, place, l);
			if (r < 0)
				free(l);
		}
		if (r >= 0)
			r = leaf_set(e, in, place, slot, slot + part, block);
		if (r < 0)
			return r;
		block = block_after(block, part);
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
			keep = MIN(l->cap,
				   (uint32_t)(fblock % ENV_LEAF_BLOCKS));
		leaf_release(e, in, l, keep, l->cap);
		l->cap = keep;
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

uint64_t map_count(const struct inode *in)
{
	uint64_t n = 0;

	for (size_t i = 0; i < in->leaf_count; i++)
		for (uint64_t slot = 0; slot < in->leaves[i]->cap; slot++)
			n += leaf_get(in->leaves[i], slot) >= BLOCK_FIRST;
	return n;
}
