/* SPDX-License-Identifier: MIT */
/*
 * How: a file is its own blocks over what still shows of the base. A write
 * goes in place into own blocks and into fresh ones elsewhere; where it covers
 * a fresh block in part, the rest is filled from the base. Data first, then
 * the record that makes it show.
 *
 * Invariant: bytes of an own block beyond the end of the file are garbage.
 * Whoever makes the file longer zeroes them first (grow_tail), before the
 * record: a kill in between leaves garbage where garbage may be.
 */
#include "env/env_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_OF(offset) ((offset) >> ENV_BLOCK_SHIFT)
#define POS_OF(block)	 ((block) << ENV_BLOCK_SHIFT)

/* --- reading -------------------------------------------------------------- */

static int read_run(struct env *e, const struct inode *in, struct run run,
		    void *data, size_t n, uint64_t offset)
{
	if (run.kind == RUN_DATA)
		return data_read(e, data, n,
				 POS_OF(run.block) + offset % ENV_BLOCK);
	if (run.kind == RUN_BASE)
		return base_read(&e->base, &in->content, in->base_size, data, n,
				 offset);
	memset(data, 0, n);
	return 0;
}

/* Reads n bytes whatever the size says: own blocks, base, zeros. */
static int read_blocks(struct env *e, const struct inode *in, uint8_t *data,
		       size_t n, uint64_t offset)
{
	while (n) {
		uint64_t blocks = BLOCK_OF(offset % ENV_BLOCK + n - 1) + 1;
		struct run run = map_run(in, BLOCK_OF(offset), blocks);
		size_t part = MIN(n, POS_OF(run.count) - offset % ENV_BLOCK);
		int r = read_run(e, in, run, data, part, offset);

		if (r < 0)
			return r;
		data += part;
		offset += part;
		n -= part;
	}
	return 0;
}

ssize_t file_read_locked(struct env *e, uint64_t ino, void *data, size_t n,
			 uint64_t offset)
{
	const struct inode *in = itable_find(e, ino);
	struct base_node b;
	uint64_t size;
	int r = 0;

	if (!in)
		r = base_find(&e->base, ino, &b);
	if (r < 0)
		return r;
	if (!S_ISREG(in ? in->a.mode : b.mode))
		return -EINVAL;
	size = in ? in->a.size : b.size;
	if (offset >= size)
		return 0;
	n = MIN(n, size - offset);
	r = in ? read_blocks(e, in, data, n, offset)
	       : base_read(&e->base, &b.content, size, data, n, offset);
	return r < 0 ? r : (ssize_t)n;
}

ssize_t env_read(struct env *e, uint64_t ino, void *data, size_t n,
		 uint64_t offset)
{
	ssize_t r;

	mutex_lock(&e->lock);
	r = file_read_locked(e, ino, data, n, offset);
	mutex_unlock(&e->lock);
	return r;
}

/* --- writing -------------------------------------------------------------- */

/* Zeroes the garbage between the end of the file and the end of its block, as
 * far as it is to show. */
static int grow_tail(struct env *e, const struct inode *in, uint64_t size,
		     uint64_t until)
{
	static const uint8_t zeros[ENV_BLOCK];
	uint64_t end = MIN(ALIGN_UP(size, ENV_BLOCK), until);
	struct run run;

	if (size % ENV_BLOCK == 0 || end <= size)
		return 0;
	run = map_run(in, BLOCK_OF(size), 1);
	if (run.kind != RUN_DATA)
		return 0; /* the base is cut at base_size */
	return data_write(e, zeros, end - size,
			  POS_OF(run.block) + size % ENV_BLOCK);
}

/* Writes bytes that lie in one block into a fresh one, filled from what shows
 * now. */
static int write_partial(struct env *e, const struct inode *in, uint64_t block,
			 const void *data, size_t n, uint64_t offset)
{
	uint8_t whole[ENV_BLOCK];
	uint64_t start = offset - offset % ENV_BLOCK;
	size_t in_block = offset % ENV_BLOCK;
	bool based = in->base_size > start;
	int r = 0;

	/* where nothing of the base shows it is zeros, as fresh blocks are */
	if (!based && block >= e->data.op_start)
		return data_write(e, data, n, POS_OF(block) + in_block);
	if (based)
		r = read_blocks(e, in, whole, ENV_BLOCK, start);
	else
		memset(whole, 0, sizeof whole);
	if (r < 0)
		return r;
	memcpy(whole + in_block, data, n);
	return data_write(e, whole, ENV_BLOCK, POS_OF(block));
}

/* Writes into a run of blocks that the file does not own yet. */
static int write_fresh(struct env *e, const struct inode *in,
		       const uint8_t *data, size_t n, uint64_t offset)
{
	uint64_t first = BLOCK_OF(offset), last = BLOCK_OF(offset + n - 1);
	uint64_t block, to;
	int r = grow_take(e, POS_OF(last - first + 1), 0);

	if (r < 0)
		return r;
	to = block = data_alloc(e, last - first + 1);
	tx_map(e, in->a.ino, first, last - first + 1, block);
	if (offset % ENV_BLOCK || n < ENV_BLOCK) {
		size_t part = MIN(n, ENV_BLOCK - offset % ENV_BLOCK);

		r = write_partial(e, in, to++, data, part, offset);
		data += part;
		offset += part;
		n -= part;
	}
	if (r >= 0 && n >= ENV_BLOCK) {
		size_t part = n - n % ENV_BLOCK;

		r = data_write(e, data, part, POS_OF(to));
		to += BLOCK_OF(part);
		data += part;
		offset += part;
		n -= part;
	}
	if (r >= 0 && n)
		r = write_partial(e, in, to, data, n, offset);
	return r;
}

static int write_blocks(struct env *e, const struct inode *in,
			const uint8_t *data, size_t n, uint64_t offset)
{
	while (n) {
		uint64_t blocks = BLOCK_OF(offset % ENV_BLOCK + n - 1) + 1;
		struct run run = map_run(in, BLOCK_OF(offset), blocks);
		size_t part = MIN(n, POS_OF(run.count) - offset % ENV_BLOCK);
		int r;

		if (run.kind == RUN_DATA)
			r = data_write(e, data, part,
				       POS_OF(run.block) + offset % ENV_BLOCK);
		else
			r = write_fresh(e, in, data, part, offset);
		if (r < 0)
			return r;
		data += part;
		offset += part;
		n -= part;
	}
	return 0;
}

/* Prepares a change of content: the inode in the table, the data file open. */
static int file_begin(struct env *e, uint64_t ino, uint64_t end,
		      struct inode **ret_inode)
{
	int r;

	if (e->read_only)
		return -EROFS;
	if (end > FORMAT_MAX_FILE)
		return -EFBIG;
	r = itable_need(e, ino, ret_inode);
	if (r < 0)
		return r;
	if (!S_ISREG((*ret_inode)->a.mode))
		return -EINVAL;
	data_begin(e);
	return data_need(e);
}

static int write_locked(struct env *e, uint64_t ino, const void *data, size_t n,
			uint64_t offset, bool kill_suidgid)
{
	struct inode *in;
	struct iattr a;
	uint64_t size;
	int r = file_begin(e, ino, offset + n, &in);

	if (r < 0 || !n)
		return r;
	tx_begin(e);
	a = in->a;
	size = MAX(a.size, offset + n);
	if (offset > a.size)
		r = grow_tail(e, in, a.size, offset);
	if (r >= 0)
		r = write_blocks(e, in, data, n, offset);
	if (r >= 0) {
		meta_kill_privs(e, &a, kill_suidgid);
		if (a.mode != in->a.mode)
			tx_inode(e, &a);
		tx_times(e, ino, size, clock_now());
		r = tx_commit(e);
	}
	if (r < 0)
		data_undo(e);
	return r;
}

int env_write(struct env *e, uint64_t ino, const void *data, size_t n,
	      uint64_t offset, bool kill_suidgid)
{
	if (offset > FORMAT_MAX_FILE || n > FORMAT_MAX_FILE - offset)
		return -EFBIG;
	return WITH_ROOM(e,
			 write_locked(e, ino, data, n, offset, kill_suidgid));
}

/* --- size and space ------------------------------------------------------- */

int file_resize(struct env *e, struct iattr *a, uint64_t size)
{
	struct inode *in;
	int r = file_begin(e, a->ino, size, &in);

	if (r < 0)
		return r;
	if (size > a->size)
		r = grow_tail(e, in, a->size, size);
	else if (size < a->size)
		tx_cut(e, a->ino, size);
	if (size < a->size)
		tx_frees(e);
	a->size = size;
	return r;
}

/* Writes zeros over a part of one block, where it is not zeros already. */
static int zero_bytes(struct env *e, const struct inode *in, uint64_t from,
		      uint64_t to)
{
	static const uint8_t zeros[ENV_BLOCK];
	struct run run;

	if (from >= to)
		return 0;
	run = map_run(in, BLOCK_OF(from), 1);
	if (run.kind == RUN_HOLE ||
	    (run.kind == RUN_BASE && from >= in->base_size))
		return 0;
	return write_blocks(e, in, zeros, to - from, from);
}

/* Says whether a byte is in a hole and how far that goes. */
static int hole_run(struct env *e, const struct inode *in, uint64_t offset,
		    uint64_t size, bool *ret_hole, uint64_t *ret_len)
{
	uint64_t blocks = BLOCK_OF(size - 1) + 1 - BLOCK_OF(offset);
	struct run run = map_run(in, BLOCK_OF(offset), blocks);
	uint64_t end = MIN(POS_OF(BLOCK_OF(offset) + run.count), size);
	int r;

	*ret_hole = run.kind != RUN_DATA;
	*ret_len = end - offset;
	if (run.kind != RUN_BASE || offset >= in->base_size)
		return 0;
	r = base_run(&e->base, &in->content, in->base_size, offset, ret_hole,
		     ret_len);
	*ret_len = MIN(*ret_len, end - offset);
	return r;
}

static void map_hole(struct env *e, const struct inode *in, uint64_t from,
		     uint64_t to)
{
	if (from < to)
		tx_map(e, in->a.ino, BLOCK_OF(from),
		       BLOCK_OF(to - 1) + 1 - BLOCK_OF(from), BLOCK_HOLE);
}

/* Makes holes where data shows, and only there: a hole in a hole costs memory
 * for nothing. */
static int punch_blocks(struct env *e, const struct inode *in, uint64_t from,
			uint64_t to)
{
	uint64_t start = from, len;
	bool hole;

	while (from < to) {
		int r = hole_run(e, in, from, in->a.size, &hole, &len);

		if (r < 0)
			return r;
		/* the base may end within a block */
		len = ALIGN_UP(len, ENV_BLOCK);
		if (hole) {
			map_hole(e, in, start, from);
			start = from + len;
		}
		from += len;
	}
	map_hole(e, in, start, to);
	return 0;
}

static int punch(struct env *e, const struct inode *in, uint64_t from,
		 uint64_t to)
{
	uint64_t first = ALIGN_UP(from, ENV_BLOCK), last;
	int r;

	to = MIN(to, in->a.size);
	if (from >= to)
		return 0;
	/* what lies beyond the end may go with the last block */
	last = to == in->a.size ? ALIGN_UP(to, ENV_BLOCK) : to - to % ENV_BLOCK;
	r = zero_bytes(e, in, from, MIN(first, to));
	if (r >= 0 && last >= first)
		r = zero_bytes(e, in, last, to);
	if (r >= 0 && last > first)
		r = punch_blocks(e, in, first, MIN(last, in->a.size));
	return r;
}

/* Takes blocks for a range that has none, so that later writes find room. */
static int reserve(struct env *e, const struct inode *in, uint64_t from,
		   uint64_t to)
{
	uint64_t fblock = BLOCK_OF(from), end = BLOCK_OF(to - 1) + 1;

	while (fblock < end) {
		struct run run = map_run(in, fblock, end - fblock);
		uint64_t block;
		int r;

		if (run.kind == RUN_BASE && POS_OF(fblock) < in->base_size) {
			/* the base's bytes are there */
			run.count = MIN(run.count, BLOCK_OF(in->base_size - 1) +
							   1 - fblock);
		} else if (run.kind != RUN_DATA) {
			/* the host would fill its disk before it fails */
			r = grow_take(e, POS_OF(run.count), 0);
			if (r < 0)
				return r;
			block = data_alloc_fresh(e, run.count);
			r = io_allocate(e->data.fd, FALLOC_FL_KEEP_SIZE,
					POS_OF(block), POS_OF(run.count));
			if (r < 0)
				return r;
			tx_map(e, in->a.ino, fblock, run.count, block);
		}
		fblock += run.count;
	}
	return 0;
}

static int fallocate_locked(struct env *e, uint64_t ino, int mode,
			    uint64_t offset, uint64_t len)
{
	uint64_t end = offset + len;
	struct inode *in;
	struct iattr a;
	int r = file_begin(e, ino, end, &in);

	if (r < 0)
		return r;
	tx_begin(e);
	a = in->a;
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > a.size) {
		r = grow_tail(e, in, a.size, end);
		a.size = end;
	}
	if (r >= 0 && (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		r = punch(e, in, offset, end);
	else if (r >= 0 && MIN(end, a.size) > offset)
		r = reserve(e, in, offset, MIN(end, a.size));
	if (r >= 0) {
		meta_kill_privs(e, &a, false);
		a.mtime = a.ctime = clock_now();
		tx_inode(e, &a);
		r = tx_commit(e);
	}
	if (r < 0)
		data_undo(e);
	return r;
}

int env_fallocate(struct env *e, uint64_t ino, int mode, uint64_t offset,
		  uint64_t len)
{
	if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE &&
	    mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) &&
	    mode != FALLOC_FL_ZERO_RANGE &&
	    mode != (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if (offset > FORMAT_MAX_FILE || len > FORMAT_MAX_FILE - offset)
		return -EFBIG;
	return WITH_ROOM(e, fallocate_locked(e, ino, mode, offset, len));
}

/* --- holes ---------------------------------------------------------------- */

static int seek_locked(struct env *e, uint64_t ino, uint64_t offset, int whence,
		       uint64_t *ret_offset)
{
	struct inode tmp = {0};
	const struct inode *in = itable_find(e, ino);
	struct base_node b;
	uint64_t size, len;
	bool hole;
	int r;

	if (!in) {
		r = base_find(&e->base, ino, &b);
		if (r < 0)
			return r;
		inode_from_base(&b, &tmp.a);
		tmp.content = b.content;
		tmp.base_size = b.size;
		in = &tmp;
	}
	size = in->a.size;
	if (offset >= size)
		return -ENXIO;
	while (offset < size) {
		r = hole_run(e, in, offset, size, &hole, &len);
		if (r < 0)
			return r;
		if (hole == (whence == SEEK_HOLE))
			break;
		offset += len;
	}
	if (offset >= size && whence == SEEK_DATA)
		return -ENXIO;
	*ret_offset = MIN(offset, size);
	return 0;
}

int env_seek(struct env *e, uint64_t ino, uint64_t offset, int whence,
	     uint64_t *ret_offset)
{
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	mutex_lock(&e->lock);
	r = seek_locked(e, ino, offset, whence, ret_offset);
	mutex_unlock(&e->lock);
	return r;
}

/* --- copies --------------------------------------------------------------- */

ssize_t env_copy_range(struct env *e, uint64_t in, uint64_t in_offset,
		       uint64_t out, uint64_t out_offset, size_t n)
{
	enum { STEP = 256 << 10, MOST = 16 << 20 };
	_cleanup_free_ uint8_t *step = malloc(STEP);
	size_t done = 0;

	if (!step)
		return -ENOMEM;
	n = MIN(n, (size_t)MOST);
	while (done < n) {
		ssize_t got = env_read(e, in, step, MIN(n - done, (size_t)STEP),
				       in_offset + done);
		int r;

		if (got <= 0)
			return done ? (ssize_t)done : got;
		r = env_write(e, out, step, (size_t)got, out_offset + done,
			      false);
		if (r < 0)
			return done ? (ssize_t)done : r;
		done += (size_t)got;
	}
	return (ssize_t)done;
}
