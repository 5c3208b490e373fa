/* SPDX-License-Identifier: MIT */
/*
 * How: tx_commit frames what an operation has composed (magic, length,
 * sequence number, checksum), appends the frame with one write and then applies
 * the same bytes that replay would read. So the delta *is* the journal
 * replayed: there is no second way to change state.
 *
 * A write that fails is cut off again and nothing has changed. Where applying
 * fails for want of memory, everything is replayed at once. When even that
 * fails, file and memory may differ: the journal is broken, and only reading
 * goes on until the next replay.
 *
 * Before its first frame an open environment appends one with the machine's
 * boot id: what follows was written on this boot (replay.c says what for).
 */
#include "env/env_int.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

/* So that files can be deleted on a full disk, the host has always promised
 * room for a few hundred more records; only what frees something takes it. */
enum { SPARE_BYTES = 32 << 10 };
/* Beyond that, room is taken ahead: little for an environment with one changed
 * byte, more at a time for one that writes a lot. */
enum { AHEAD_MIN = 8 << 10, AHEAD_MAX = 256 << 10 };
/* Likewise, zeros for one that is synced often. */
enum { ZERO_MIN = 64 << 10, ZERO_MAX = 256 << 10, ZERO_STEP = 64 << 10 };

int journal_make(struct env *e, const char *name, int *ret_fd,
		 uint64_t *ret_salt)
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
	fd = io_open_file(e->dirfd, name, O_RDWR | O_CREAT | O_TRUNC);
	if (fd < 0)
		return fd;
	r = io_pwrite(fd, b.data, b.len, 0);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	*ret_salt = salt;
	return 0;
}

/* Makes the file with its header, at the first change. */
static int journal_create(struct env *e)
{
	struct journal *j = &e->journal;
	int r = journal_make(e, "journal", &j->fd, &j->salt);

	if (r < 0)
		return r;
	j->end = j->allocated = j->zeroed = JOURNAL_HEADER_BYTES;
	e->dir_synced = false;
	return 0;
}

int journal_reserve(struct env *e, uint64_t n)
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

void journal_zero_ahead(struct env *e, uint64_t n)
{
	static const uint8_t zeros[ZERO_STEP];
	struct journal *j = &e->journal;
	uint64_t until;

	j->zeroed = MAX(j->zeroed, j->end);
	if (j->fd < 0 || j->zeroed - j->end >= n)
		return;
	until = j->end + n + MIN(MAX(j->end / 4, ZERO_MIN), ZERO_MAX);
	while (j->zeroed < until) {
		size_t part = MIN(until - j->zeroed, (uint64_t)ZERO_STEP);

		if (io_pwrite(j->fd, zeros, part, j->zeroed) < 0)
			break;
		j->zeroed += part;
	}
	j->allocated = MAX(j->allocated, j->zeroed);
}

void journal_cut_zeros(struct env *e)
{
	struct journal *j = &e->journal;

	if (j->fd < 0 || j->zeroed <= j->end)
		return;
	if (io_truncate(j->fd, j->end) >= 0)
		j->zeroed = j->allocated = j->end;
}

uint64_t journal_checksum(uint64_t salt, const uint8_t *frame, size_t len)
{
	uint64_t seq = bytes_load_u64(frame + 8);

	return oid_checksum(frame + JOURNAL_FRAME_BYTES, len,
			    salt ^ seq ^ bytes_load_u32(frame + 4));
}

void journal_frame(uint64_t salt, uint64_t seq, uint8_t *frame, size_t len)
{
	bytes_store_u32(frame, FORMAT_JOURNAL_MAGIC);
	bytes_store_u32(frame + 4, (uint32_t)len);
	bytes_store_u64(frame + 8, seq);
	bytes_store_u64(frame + 16, journal_checksum(salt, frame, len));
}

#ifndef COWFS_JOURNAL_OFF
static int frame_write(struct journal *j, const uint8_t *frame, size_t n)
{
	return io_pwrite(j->fd, frame, n, j->end);
}
#else
/* Only for bench/run --journal-off, which measures what the journal costs. */
static int frame_write(struct journal *j, const uint8_t *frame, size_t n)
{
	return 0;
}
#endif

/* Appends what is in b behind room for the frame. */
static int append(struct env *e, struct buf *b)
{
	struct journal *j = &e->journal;
	int r = journal_reserve(e, b->len);

	if (r < 0)
		return r;
	journal_frame(j->salt, j->seq, b->data, b->len - JOURNAL_FRAME_BYTES);
	r = frame_write(j, b->data, b->len);
	if (r < 0) {
		j->allocated = j->zeroed = j->end;
		if (io_truncate(j->fd, j->end) < 0)
			j->broken = true;
		return r;
	}
	j->end += b->len;
	j->seq++;
	return 0;
}

/* Says on which boot what follows was written. */
static int append_boot(struct env *e)
{
	char id[BOOT_ID_BYTES + 1];
	struct buf tx = e->tx;
	bool frees = e->journal.frees;
	int r = boot_id(id);

	if (r < 0)
		return r;
	e->tx = (struct buf){0};
	tx_begin(e);
	e->journal.frees = frees;
	tx_boot(e, id);
	r = buf_error(&e->tx);
	if (r >= 0)
		r = append(e, &e->tx);
	buf_fini(&e->tx);
	e->tx = tx;
	e->journal.booted = r >= 0;
	return r;
}

static int journal_append(struct env *e)
{
	struct journal *j = &e->journal;
	int r = 0;

	if (j->fd < 0)
		r = journal_create(e);
	if (r >= 0 && !j->booted)
		r = append_boot(e);
	return r < 0 ? r : append(e, &e->tx);
}

/* Drops what replay has brought back although it was reaped. */
static void drop_reaped(struct env *e, struct hmap *old)
{
	struct hmap fresh = e->inodes;
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&fresh, &c))) {
		struct inode *in = container_of(n, struct inode, node);
		bool known;

		e->inodes = *old;
		known = itable_find(e, in->a.ino);
		e->inodes = fresh;
		/* the newest may be one that is just being made */
		if (!in->a.nlink && !known && in->a.ino + 1 < e->next_ino) {
			itable_drop(e, in);
			fresh = e->inodes;
		}
	}
}

/* Applying stopped half-way, for want of memory: all state is made anew from
 * the file, the new frame with it, and takes the place of the old one only when
 * it is whole. No operation holds on to an inode beyond its commit. What replay
 * frees on its way was free before, or is in use again. */
static int journal_rebuild(struct env *e, int err)
{
	struct journal *j = &e->journal;
	const struct journal was = *j;
	const struct ranges freed = e->data.freed;
	struct hmap old = e->inodes, fresh;
	int r;

	e->inodes = (struct hmap){0};
	e->data.freed = (struct ranges){0};
	j->seq = 0;
	r = journal_replay_prefix(e, was.end);
	if (r == 0 && j->seq == was.seq) {
		drop_reaped(e, &old);
		fresh = e->inodes;
		e->inodes = old;
		itable_free_all(e);
		e->inodes = fresh;
		*j = was;
	} else {
		itable_free_all(e);
		e->inodes = old;
		*j = was;
		j->broken = true;
		r = err;
	}
	ranges_fini(&e->data.freed);
	e->data.freed = freed;
	return r;
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
	if (e->tx.len - JOURNAL_FRAME_BYTES > JOURNAL_FRAME_MAX)
		return -E2BIG;
	r = journal_append(e);
	if (r < 0)
		return r;
	r = apply_items(e, e->tx.data + JOURNAL_FRAME_BYTES,
			e->tx.len - JOURNAL_FRAME_BYTES);
	if (r < 0)
		r = journal_rebuild(e, r);
	commit_note_change(e);
	return r;
}

int journal_append_commit(struct env *e)
{
	int r = buf_error(&e->tx);

	return r < 0 ? r : journal_append(e);
}

bool journal_is_header(const uint8_t h[JOURNAL_HEADER_BYTES],
		       const struct oid *snapshot)
{
	return bytes_load_u32(h) == FORMAT_JOURNAL_MAGIC &&
	       bytes_load_u64(h + 40) == oid_checksum(h, 40, 0) &&
	       memcmp(h + 8, snapshot->b, OID_BYTES) == 0;
}

void journal_close(struct env *e)
{
	if (e->journal.fd >= 0)
		(void)close(e->journal.fd);
	e->journal = (struct journal){.fd = -1};
}
