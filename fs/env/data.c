/* SPDX-License-Identifier: MIT */
/*
 * How: one file per environment, handed out append-only in blocks of 4 KiB. A
 * block is never given to another file again: what is freed is collected,
 * joined and punched out, so that fresh blocks always read as zeros and the
 * host gets its space back. File offsets are as good as endless.
 */
#include "env/env_int.h"

#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

enum { PUNCH_AT_BLOCKS = (16 << 20) / ENV_BLOCK, PUNCH_AT_RANGES = 4096 };

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
	e->data.fd = MAX(fd, -1);
	return MIN(fd, 0);
}

uint64_t data_alloc(struct env *e, uint64_t count)
{
	uint64_t block = e->data.next_block;

	e->data.next_block += count;
	return block;
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->block < y->block ? -1 : x->block > y->block;
}

void data_punch(struct env *e)
{
	struct data *d = &e->data;
	size_t to = 0;

	if (!d->freed_len || d->fd < 0 || e->read_only)
		return;
	qsort(d->freed, d->freed_len, sizeof *d->freed, range_compare);
	for (size_t i = 1; i < d->freed_len; i++) {
		struct range *last = &d->freed[to];

		if (last->block + last->count == d->freed[i].block)
			last->count += d->freed[i].count;
		else
			d->freed[++to] = d->freed[i];
	}
	for (size_t i = 0; i <= to; i++)
		(void)!io_allocate(d->fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   d->freed[i].block << ENV_BLOCK_SHIFT,
				   d->freed[i].count << ENV_BLOCK_SHIFT);
	d->freed_len = 0;
	d->freed_blocks = 0;
}

void data_free(struct env *e, uint64_t block, uint64_t count)
{
	struct data *d = &e->data;
	struct range *last;

	if (!count)
		return;
	d->freed_blocks += count;
	last = d->freed_len ? &d->freed[d->freed_len - 1] : NULL;
	if (last && last->block + last->count == block) {
		last->count += count;
	} else {
		if (!d->freed || d->freed_len == d->freed_cap) {
			size_t cap = d->freed_cap ? d->freed_cap * 2 : 64;
			struct range *p = realloc(d->freed, cap * sizeof *p);

			if (!p)
				return; /* space is lost until the end */
			d->freed = p;
			d->freed_cap = cap;
		}
		d->freed[d->freed_len++] = (struct range){block, count};
	}
	if (d->freed_blocks >= PUNCH_AT_BLOCKS ||
	    d->freed_len >= PUNCH_AT_RANGES)
		data_punch(e);
}

bool data_has_room(struct env *e, uint64_t n)
{
	struct statvfs v;

	/* one that does not say has to find out by itself */
	if (fstatvfs(e->data.fd, &v) < 0 || !v.f_frsize)
		return true;
	return n / v.f_frsize < v.f_bavail;
}

void data_close(struct env *e)
{
	data_punch(e);
	free(e->data.freed);
	if (e->data.fd >= 0)
		(void)close(e->data.fd);
	e->data = (struct data){.fd = -1};
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

int data_write(struct env *e, const void *p, size_t n, uint64_t pos)
{
	int r = io_pwrite(e->data.fd, p, n, pos);

	if (r == -ENOSPC && e->data.freed_len) {
		data_punch(e);
		r = io_pwrite(e->data.fd, p, n, pos);
	}
	return r;
}
