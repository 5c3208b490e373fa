/* SPDX-License-Identifier: MIT */
/*
 * How: one file per environment, handed out in blocks of 4 KiB, at its end or
 * from what is free. A block that a record frees is free only when a commit
 * covers that record: until then a machine that dies comes back to a state in
 * which the block has its old owner and its old bytes. Some free blocks are
 * kept as they are, to be used again; what is beyond that is punched out, so
 * that the host gets its space back.
 *
 * Which blocks were written since the last commit is noted, as long as they are
 * few: a commit copies them into the journal then instead of syncing two files.
 */
#include "env/env_int.h"

#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>

/* Spare blocks that stay: a part of what is used, at least a few. */
enum { SPARE_PART = 8, SPARE_MIN = (512 << 10) / ENV_BLOCK };

int data_open(struct env *e)
{
	const int fd = io_open_file(e->dirfd, "data",
				    e->read_only ? O_RDONLY : O_RDWR);

	e->data.fd = MAX(fd, -1);
	return fd < 0 && fd != -ENOENT ? fd : 0;
}

int data_need(struct env *e)
{
	int fd;

	if (e->data.fd >= 0)
		return 0;
	fd = io_open_file(e->dirfd, "data", O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	e->data.fd = fd;
	e->dir_synced = false;
	return 0;
}

/* --- taking --------------------------------------------------------------- */

void data_begin(struct env *e)
{
	e->data.op_start = e->data.next_block;
	e->data.taken_len = 0;
}

static void note_taken(struct data *d, uint64_t block, uint64_t count)
{
	struct range *last = d->taken_len ? &d->taken[d->taken_len - 1] : NULL;

	if (last && last->block + last->count == block)
		last->count += count;
	else if (d->taken_len < DATA_TAKEN_MOST)
		d->taken[d->taken_len++] = (struct range){block, count};
	/* else it is lost until the next open, should the operation fail */
}

void data_undo(struct env *e)
{
	struct data *d = &e->data;

	if (e->journal.broken)
		return;
	for (unsigned i = 0; i < d->taken_len; i++) {
		data_punch(d->fd, &d->taken[i]);
		data_free(e, d->taken[i].block, d->taken[i].count);
	}
	d->taken_len = 0;
}

uint64_t data_alloc_fresh(struct env *e, uint64_t count)
{
	struct data *d = &e->data;
	uint64_t block = d->next_block;

	d->next_block += count;
	note_taken(d, block, count);
	return block;
}

uint64_t data_alloc(struct env *e, uint64_t count)
{
	struct data *d = &e->data;
	uint64_t block = ranges_take(&d->spare, &d->spare_at, count);
	size_t at = 0;

	if (block == BLOCK_NONE)
		block = ranges_take(&d->holes, &at, count);
	if (block == BLOCK_NONE)
		return data_alloc_fresh(e, count);
	note_taken(d, block, count);
	return block;
}

/* --- giving back ---------------------------------------------------------- */

void data_free(struct env *e, uint64_t block, uint64_t count)
{
	ranges_add(&e->data.freed, block, count);
}

void data_freeing(struct env *e)
{
	ranges_move(&e->data.freeing, &e->data.freed);
}

void data_freed(struct env *e)
{
	struct data *d = &e->data;

	if (!d->freeing.len)
		return;
	ranges_move(&d->spare, &d->freeing);
	ranges_sort(&d->spare);
	d->spare_at = 0;
}

uint64_t data_used(const struct env *e)
{
	const struct data *d = &e->data;

	return d->next_block - BLOCK_FIRST - d->freed.blocks -
	       d->freeing.blocks - d->spare.blocks - d->holes.blocks;
}

size_t data_take_spare(struct env *e, bool all, struct range *v, size_t max)
{
	struct data *d = &e->data;
	uint64_t keep = MAX(data_used(e) / SPARE_PART, (uint64_t)SPARE_MIN);
	size_t n = 0;

	while (n < max && d->spare.len && d->spare.blocks > (all ? 0 : keep)) {
		struct range *last = &d->spare.v[--d->spare.len];

		if (!last->count)
			continue;
		d->spare.blocks -= last->count;
		v[n++] = *last;
	}
	return n;
}

void data_punched(struct env *e, const struct range *v, size_t len, bool last)
{
	for (size_t i = 0; i < len; i++)
		ranges_add(&e->data.holes, v[i].block, v[i].count);
	if (last && len)
		ranges_sort(&e->data.holes);
}

void data_punch(int fd, const struct range *r)
{
	/* a failure only costs space */
	(void)!io_allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   r->block << ENV_BLOCK_SHIFT,
			   r->count << ENV_BLOCK_SHIFT);
}

/* --- what is free, after replay ------------------------------------------- */

static void add_leaf(struct ranges *used, const struct leaf *l)
{
	if (l->run >= BLOCK_FIRST) {
		ranges_add(used, l->run, l->cap);
		return;
	}
	for (uint32_t i = 0; !l->run && i < l->cap; i++)
		if (l->b[i] >= BLOCK_FIRST)
			ranges_add(used, l->b[i], 1);
}

int data_find_free(struct env *e)
{
	struct data *d = &e->data;
	struct ranges used = {0};
	struct hmap_cursor c = {0};
	uint64_t at = BLOCK_FIRST, blocks = 0;
	struct hnode *n;

	/* what replay has freed on its way may have been used again */
	ranges_fini(&d->freed);
	while ((n = hmap_each(&e->inodes, &c))) {
		const struct inode *in = container_of(n, struct inode, node);

		for (size_t i = 0; i < in->leaf_count; i++)
			add_leaf(&used, in->leaves[i]);
		blocks += in->private_blocks;
	}
	if (used.blocks != blocks) { /* out of memory */
		ranges_fini(&used);
		return -ENOMEM;
	}
	ranges_sort(&used);
	for (size_t i = 0; i < used.len; i++) {
		if (used.v[i].block < at) {
			ranges_fini(&used);
			return -EFSCORRUPTED; /* two files have it */
		}
		ranges_add(&d->freed, at, used.v[i].block - at);
		at = used.v[i].block + used.v[i].count;
	}
	ranges_add(&d->freed, at, d->next_block - at);
	ranges_fini(&used);
	return 0;
}

/* --- the file ------------------------------------------------------------- */

void data_close(struct env *e)
{
	struct data *d = &e->data;

	ranges_fini(&d->freed);
	ranges_fini(&d->freeing);
	ranges_fini(&d->spare);
	ranges_fini(&d->holes);
	if (d->fd >= 0)
		(void)close(d->fd);
	*d = (struct data){.fd = -1};
}

int data_read(struct env *e, void *p, size_t n, uint64_t pos)
{
	ssize_t got;

	if (e->data.fd < 0)
		return -EFSCORRUPTED;
	got = io_pread(e->data.fd, p, n, pos);
	if (got < 0)
		return (int)got;
	/* blocks beyond the end of the file were never written */
	memset((uint8_t *)p + got, 0, n - (size_t)got);
	return 0;
}

static void note_dirty(struct data *d, uint64_t block)
{
	for (unsigned i = d->dirty_len; i > 0; i--)
		if (d->dirty[i - 1] == block)
			return;
	if (d->dirty_len == DATA_DIRTY_MOST)
		d->dirty_much = true;
	else
		d->dirty[d->dirty_len++] = block;
}

int data_write(struct env *e, const void *p, size_t n, uint64_t pos)
{
	struct data *d = &e->data;
	uint64_t end = (pos + n + ENV_BLOCK - 1) >> ENV_BLOCK_SHIFT;

	d->unsynced = true;
	for (uint64_t b = pos >> ENV_BLOCK_SHIFT; b < end && !d->dirty_much; b++)
		note_dirty(d, b);
	return io_pwrite(d->fd, p, n, pos);
}
