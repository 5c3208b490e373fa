/* SPDX-License-Identifier: MIT */
/*
 * How: an operation composes its items in e->tx; tx_commit frames them (magic,
 * length, sequence number, checksum), appends the frame with one write and
 * then applies the same bytes that replay would read. So the delta *is* the
 * journal replayed: there is no second way to change state.
 *
 * A write that fails is cut off again and nothing has changed. Where applying
 * fails for want of memory, everything is replayed at once. When even that
 * fails, file and memory may differ: the journal is broken, and only reading
 * goes on until the next replay.
 *
 * A server that is killed leaves at most one frame that is not whole, the last;
 * a machine that dies may leave a gap of zeros. Both are cut off. A bad frame
 * with whole ones behind it is damage: nothing is opened and nothing cut, for
 * that would lose what was acknowledged.
 */
#include "env/env_int.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* So that files can be deleted on a full disk, the host has always promised
 * room for a few hundred more records; only what frees something takes it. */
enum { SPARE_BYTES = 32 << 10 };
/* Beyond that, room is taken ahead: little for an environment with one changed
 * byte, more at a time for one that writes a lot. */
enum { AHEAD_MIN = 8 << 10, AHEAD_MAX = 256 << 10 };

enum {
	FRAME_BYTES = 24,  /* magic, length, sequence, checksum */
	FRAME_MAX = 4 << 20,
};

static void put_time(struct buf *b, struct timespec t)
{
	buf_put_u64(b, (uint64_t)t.tv_sec);
	buf_put_u32(b, (uint32_t)t.tv_nsec);
}

void tx_begin(struct env *e)
{
	if (e->tx.failed || e->tx.cap > (1 << 20))
		buf_fini(&e->tx);
	buf_clear(&e->tx);
	e->journal.frees = false;
	/* room for the frame, filled by tx_commit */
	for (int i = 0; i < FRAME_BYTES / 8; i++)
		buf_put_u64(&e->tx, 0);
}

void tx_frees(struct env *e)
{
	e->journal.frees = true;
}

void tx_inode(struct env *e, const struct iattr *a)
{
	struct buf *b = &e->tx;

	buf_put_u8(b, ITEM_INODE);
	buf_put_u64(b, a->ino);
	buf_put_u64(b, a->parent);
	buf_put_u64(b, a->rdev);
	buf_put_u64(b, a->size);
	buf_put_u32(b, a->mode);
	buf_put_u32(b, a->uid);
	buf_put_u32(b, a->gid);
	buf_put_u32(b, a->nlink);
	put_time(b, a->atime);
	put_time(b, a->mtime);
	put_time(b, a->ctime);
	put_time(b, a->btime);
}

void tx_times(struct env *e, uint64_t ino, uint64_t size, struct timespec t)
{
	buf_put_u8(&e->tx, ITEM_TIMES);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, size);
	put_time(&e->tx, t);
}

void tx_dent(struct env *e, uint64_t parent, const char *name, size_t len,
	     uint64_t ino, uint64_t cookie)
{
	buf_put_u8(&e->tx, ITEM_DENT);
	buf_put_u64(&e->tx, parent);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, cookie);
	buf_put_block(&e->tx, name, len);
}

void tx_gone(struct env *e, uint64_t parent, const char *name, size_t len)
{
	buf_put_u8(&e->tx, ITEM_GONE);
	buf_put_u64(&e->tx, parent);
	buf_put_block(&e->tx, name, len);
}

void tx_map(struct env *e, uint64_t ino, uint64_t fblock, uint64_t count,
	    uint64_t block)
{
	while (count) {
		uint64_t part = MIN(count, (uint64_t)TX_MAP_MOST);

		buf_put_u8(&e->tx, ITEM_MAP);
		buf_put_u64(&e->tx, ino);
		buf_put_u64(&e->tx, fblock);
		buf_put_u64(&e->tx, part);
		buf_put_u64(&e->tx, block);
		if (block >= BLOCK_FIRST)
			block += part;
		fblock += part;
		count -= part;
	}
}

void tx_cut(struct env *e, uint64_t ino, uint64_t size)
{
	buf_put_u8(&e->tx, ITEM_CUT);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, size);
}

void tx_xattr(struct env *e, uint64_t ino, const char *name, const void *value,
	      size_t len)
{
	buf_put_u8(&e->tx, ITEM_XATTR);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, name, strlen(name));
	buf_put_block(&e->tx, value, len);
}

void tx_xgone(struct env *e, uint64_t ino, const char *name)
{
	buf_put_u8(&e->tx, ITEM_XGONE);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, name, strlen(name));
}

void tx_target(struct env *e, uint64_t ino, const char *target)
{
	buf_put_u8(&e->tx, ITEM_TARGET);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, target, strlen(target));
}

/* --- writing -------------------------------------------------------------- */

/* The salt keeps a frame that somebody planted in a file or an xattr from being
 * taken for one of ours when a torn tail is searched for whole frames. */
static uint64_t frame_checksum(const struct env *e, const uint8_t *frame,
			       size_t len)
{
	uint64_t seq = bytes_load_u64(frame + 8);

	return oid_checksum(frame + FRAME_BYTES, len,
			    e->journal.salt ^ seq ^ bytes_load_u32(frame + 4));
}

/* Makes the file with its header, at the first change. */
static int journal_create(struct env *e)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_close_ int fd = -1;
	uint64_t salt;
	int r;

	if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
		return -EIO;
	buf_put_u32(&b, FORMAT_JOURNAL_MAGIC);
	buf_put_u32(&b, FORMAT_VERSION);
	buf_put(&b, e->info.snapshot.b, OID_BYTES);
	buf_put_u64(&b, salt);
	buf_put_u64(&b, oid_checksum(b.data, b.len, 0));
	r = buf_error(&b);
	if (r < 0)
		return r;
	fd = io_open_file(e->dirfd, "journal", O_RDWR | O_CREAT | O_TRUNC);
	if (fd < 0)
		return fd;
	r = io_pwrite(fd, b.data, b.len, 0);
	if (r < 0)
		return r;
	e->journal.fd = TAKE_FD(fd);
	e->journal.salt = salt;
	e->journal.end = e->journal.allocated = JOURNAL_HEADER_BYTES;
	e->dir_synced = false;
	return 0;
}

/* Sees to it that the host has room for n bytes more and the spare ones. */
static int journal_reserve(struct env *e, uint64_t n)
{
	struct journal *j = &e->journal;
	uint64_t want = j->end + n + SPARE_BYTES;
	uint64_t more = want + MIN(MAX(j->end / 2, AHEAD_MIN), AHEAD_MAX);
	int r;

	if (want <= j->allocated)
		return 0;
	/* the size stays: what is beyond it is not there for a replay */
	r = io_allocate(j->fd, FALLOC_FL_KEEP_SIZE, j->end, more - j->end);
	if (r == -ENOSPC) {
		data_punch(e);
		more = want;
		r = io_allocate(j->fd, FALLOC_FL_KEEP_SIZE, j->end,
				want - j->end);
	}
	if (r >= 0)
		j->allocated = more;
	else if (r == -ENOSPC && !j->frees)
		return r;
	return 0; /* or the write itself will tell */
}

static int journal_append(struct env *e)
{
	struct journal *j = &e->journal;
	uint8_t *frame = e->tx.data;
	size_t len = e->tx.len - FRAME_BYTES;
	int r = 0;

	if (j->fd < 0)
		r = journal_create(e);
	if (r >= 0)
		r = journal_reserve(e, e->tx.len);
	if (r < 0)
		return r;
	bytes_store_u32(frame, FORMAT_JOURNAL_MAGIC);
	bytes_store_u32(frame + 4, (uint32_t)len);
	bytes_store_u64(frame + 8, j->seq);
	bytes_store_u64(frame + 16, frame_checksum(e, frame, len));
	r = io_pwrite(j->fd, frame, e->tx.len, j->end);
	if (r < 0) {
		j->allocated = j->end;
		if (io_truncate(j->fd, j->end) < 0)
			j->broken = true;
		return r;
	}
	j->end += e->tx.len;
	j->seq++;
	return 0;
}

static int journal_replay(struct env *e, uint64_t size, struct diag *diag);

/* Applying stopped half-way, for want of memory: all state is made anew from
 * the file, the new frame with it, and takes the place of the old one only when
 * it is whole. No operation holds on to an inode beyond its commit. Orphans that
 * were reaped come back, and go at the next open. */
static int journal_rebuild(struct env *e, int err)
{
	struct journal *j = &e->journal;
	const struct journal was = *j;
	struct hmap old = e->inodes;
	struct hmap fresh;
	int r;

	e->inodes = (struct hmap){0};
	j->end = JOURNAL_HEADER_BYTES;
	j->seq = 0;
	r = journal_replay(e, was.end, NULL);
	if (r == 0 && j->seq == was.seq) {
		fresh = e->inodes;
		e->inodes = old;
		itable_free_all(e);
		e->inodes = fresh;
		return 0;
	}
	itable_free_all(e);
	e->inodes = old;
	*j = was;
	j->broken = true;
	return err;
}

int tx_commit(struct env *e)
{
	int r = buf_error(&e->tx);

	if (r < 0)
		return r;
	if (e->read_only)
		return -EROFS;
	if (e->journal.broken)
		return -EIO;
	if (e->tx.len - FRAME_BYTES > FRAME_MAX)
		return -E2BIG;
	r = journal_append(e);
	if (r < 0)
		return r;
	r = apply_items(e, e->tx.data + FRAME_BYTES, e->tx.len - FRAME_BYTES);
	return r < 0 ? journal_rebuild(e, r) : 0;
}

/* --- replay --------------------------------------------------------------- */

bool journal_is_header(const uint8_t h[JOURNAL_HEADER_BYTES],
		       const struct oid *snapshot)
{
	return bytes_load_u32(h) == FORMAT_JOURNAL_MAGIC &&
	       bytes_load_u64(h + 40) == oid_checksum(h, 40, 0) &&
	       memcmp(h + 8, snapshot->b, OID_BYTES) == 0;
}

static int header_check(struct env *e, uint64_t size, struct diag *diag)
{
	uint8_t h[JOURNAL_HEADER_BYTES];
	ssize_t n = io_pread(e->journal.fd, h, sizeof h, 0);

	if (n < 0)
		return (int)n;
	if (size < sizeof h) { /* killed while it was made: nothing is in it */
		e->journal.end = 0;
		return 0;
	}
	if (!journal_is_header(h, &e->info.snapshot))
		return diag_fail(diag, -EFSCORRUPTED,
				 "%s: its journal is damaged at byte 0",
				 e->name);
	if (bytes_load_u32(h + 4) != FORMAT_VERSION)
		return diag_fail(diag, -EPROTONOSUPPORT,
				 "%s: its journal is of a later version",
				 e->name);
	e->journal.salt = bytes_load_u64(h + 32);
	e->journal.end = JOURNAL_HEADER_BYTES;
	return 0;
}

/* Reads the frame at e->journal.end into e->tx: 1, or 0 at the end or at a
 * torn frame. */
static int frame_read(struct env *e, uint64_t size)
{
	struct journal *j = &e->journal;
	uint8_t h[FRAME_BYTES];
	uint32_t len;
	ssize_t n;
	int r;

	if (size - j->end < FRAME_BYTES)
		return 0;
	n = io_pread(j->fd, h, sizeof h, j->end);
	if (n < 0)
		return (int)n;
	len = bytes_load_u32(h + 4);
	if (n < FRAME_BYTES || bytes_load_u32(h) != FORMAT_JOURNAL_MAGIC ||
	    bytes_load_u64(h + 8) != j->seq || len > FRAME_MAX ||
	    len > size - j->end - FRAME_BYTES)
		return 0;
	buf_clear(&e->tx);
	r = buf_resize(&e->tx, FRAME_BYTES + len);
	if (r < 0)
		return r;
	n = io_pread(j->fd, e->tx.data, FRAME_BYTES + len, j->end);
	if (n < 0)
		return (int)n;
	return (size_t)n == FRAME_BYTES + len &&
	       bytes_load_u64(h + 16) == frame_checksum(e, e->tx.data, len);
}

/* Says whether a whole later frame begins at pos. */
static int frame_whole(struct env *e, uint64_t pos, uint64_t size)
{
	uint8_t h[FRAME_BYTES];
	uint64_t seq, left = size - pos;
	ssize_t n = io_pread(e->journal.fd, h, sizeof h, pos);
	uint32_t len;
	int r;

	if (n < FRAME_BYTES)
		return n < 0 ? (int)n : 0;
	len = bytes_load_u32(h + 4);
	seq = bytes_load_u64(h + 8);
	if (len > FRAME_MAX || len > left - FRAME_BYTES ||
	    seq <= e->journal.seq || seq - e->journal.seq > size)
		return 0;
	buf_clear(&e->tx);
	r = buf_resize(&e->tx, FRAME_BYTES + len);
	if (r < 0)
		return r;
	n = io_pread(e->journal.fd, e->tx.data, FRAME_BYTES + len, pos);
	if (n < 0)
		return (int)n;
	return (size_t)n == FRAME_BYTES + len &&
	       bytes_load_u64(h + 16) == frame_checksum(e, e->tx.data, len);
}

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n && !p[n - 1])
		n--;
	return n == 0;
}

/* Looks behind a bad frame: 1 when it is damage, 0 when it is a torn tail. */
static int tail_is_damage(struct env *e, uint64_t size)
{
	enum { STEP = 64 << 10, MAGIC = 4 };
	_cleanup_free_ uint8_t *p = malloc(STEP);
	uint64_t pos = e->journal.end;

	if (!p)
		return -ENOMEM;
	while (size - pos >= FRAME_BYTES) {
		ssize_t n = io_pread(e->journal.fd, p, STEP, pos);

		if (n < FRAME_BYTES)
			return n < 0 ? (int)n : 0;
		if (pos == e->journal.end && all_zero(p, FRAME_BYTES))
			return 0;
		for (ssize_t i = 0; i + MAGIC <= n; i++) {
			int r;

			if (bytes_load_u32(p + i) != FORMAT_JOURNAL_MAGIC ||
			    size - pos - (uint64_t)i < FRAME_BYTES)
				continue;
			r = frame_whole(e, pos + (uint64_t)i, size);
			if (r)
				return r;
		}
		pos += (uint64_t)n - (MAGIC - 1);
	}
	return 0;
}

static int journal_replay(struct env *e, uint64_t size, struct diag *diag)
{
	struct journal *j = &e->journal;
	int r;

	while ((r = frame_read(e, size)) > 0) {
		r = apply_items(e, e->tx.data + FRAME_BYTES,
				e->tx.len - FRAME_BYTES);
		if (r < 0)
			return diag_fail(diag, r,
					 "%s: its journal makes no sense at "
					 "byte %llu",
					 e->name, (unsigned long long)j->end);
		j->end += e->tx.len;
		j->seq++;
	}
	if (r < 0)
		return r;
	if (j->end == size)
		return 0;
	r = tail_is_damage(e, size);
	if (r > 0)
		return diag_fail(diag, -EFSBADCRC,
				 "%s: its journal is damaged at byte %llu, and "
				 "whole records follow",
				 e->name, (unsigned long long)j->end);
	if (r < 0)
		return r;
	diag_add(diag, "%s: %llu bytes of a record that was never finished "
		       "are left out",
		 e->name, (unsigned long long)(size - j->end));
	if (e->read_only)
		return 0;
	return io_truncate(j->fd, j->end);
}

int journal_open(struct env *e, struct diag *diag)
{
	struct stat st;
	int r = io_open_file(e->dirfd, "journal",
			     e->read_only ? O_RDONLY : O_RDWR);

	e->journal.fd = MAX(r, -1);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (fstat(e->journal.fd, &st) < 0)
		return -errno;
	r = header_check(e, (uint64_t)st.st_size, diag);
	if (r < 0)
		return r;
	if (!e->journal.end) {
		journal_close(e);
		return 0;
	}
	return journal_replay(e, (uint64_t)st.st_size, diag);
}

void journal_close(struct env *e)
{
	if (e->journal.fd >= 0)
		(void)close(e->journal.fd);
	e->journal = (struct journal){.fd = -1};
}
