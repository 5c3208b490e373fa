/* SPDX-License-Identifier: MIT */
/*
 * Room out of segments that cannot be rewritten because the disk has none for
 * the copies, which is when a user needs it most.
 *
 * What is dead in a segment lies in gaps between records that are kept. Some
 * dead records that follow each other become one *filler*: a whole record, of a
 * blob of zeros that no row names, whose payload is a hole in the file. So a
 * segment stays what docs/format.md says, and every program that reads it goes
 * on as before; the next gc that has room rewrites it.
 *
 * A filler's header is written in place, where the file has a block already,
 * then the hole is punched. Killed between the two, one dead record is not
 * whole: fsck tells and mends that, and the next gc does; nothing that is kept
 * is concerned. Where no hole can be punched the old header is put back. A dead
 * record that is larger than a blob may be (a huge directory's) is left alone.
 *
 * The rows are read once more before: what was copied and not committed has
 * changed the marks.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"
#include "store/frames_int.h"
#include "store/gc_int.h"

enum {
	FILLER_MIN = 12 << 10, /* two blocks to give back, at least */
	/* Half of it is a multiple of SEGMENT_ALIGN, too. */
	FILLER_MAX = SEGMENT_RECORD_BYTES + FORMAT_CHUNK_BYTES,
	STAT_BLOCK = 512,
};

struct punch {
	struct gc *g;
	int fd;
	uint8_t *zeros; /* FILLER_MAX of them */
};

static int punch_filler(struct punch *p, uint64_t at, uint32_t len)
{
	const uint32_t payload = len - SEGMENT_RECORD_BYTES;
	const struct oid id = oid_of(OID_BLOB, p->zeros, payload);
	uint8_t header[SEGMENT_RECORD_BYTES];
	uint8_t before[SEGMENT_RECORD_BYTES];
	const ssize_t n = io_pread(p->fd, before, sizeof before, at);
	int r;

	if (n != sizeof before)
		return n < 0 ? (int)n : -EFSCORRUPTED;
	segment_record_encode(&id, SEGMENT_RAW, p->zeros, payload, header);
	r = io_pwrite(p->fd, header, sizeof header, at);
	if (r == 0)
		r = io_allocate(p->fd,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				at + SEGMENT_RECORD_BYTES, payload);
	if (r < 0)
		(void)!io_pwrite(p->fd, before, sizeof before, at);
	return r;
}

/* Where a filler ends that begins in the middle of nothing: what stays is long
 * enough for the next one. */
static uint64_t part_end(uint64_t from, uint64_t to)
{
	if (to - from <= FILLER_MAX)
		return to;
	if (to - from >= FILLER_MAX + FILLER_MIN)
		return from + FILLER_MAX;
	return from + FILLER_MAX / 2;
}

/* Where the dead records end that one filler can take the place of, from a
 * place on. A header that makes no sense does not tell. */
static uint64_t group_end(const struct punch *p, uint64_t from, uint64_t to)
{
	uint64_t end = from;

	while (end < to) {
		const uint64_t next = frames_end_of(p->fd, end);

		if (next == 0 || next > to)
			return end > from ? end : part_end(from, to);
		if (next - from > FILLER_MAX)
			return end > from ? end : next;
		end = next;
	}
	return end;
}

static int punch_gap(struct punch *p, uint64_t from, uint64_t to)
{
	int r = 0;

	while (r == 0 && from < to && to - from >= FILLER_MIN) {
		const uint64_t end = group_end(p, from, to);
		const uint64_t len = end - from;

		if (len >= FILLER_MIN && len <= FILLER_MAX)
			r = punch_filler(p, from, (uint32_t)len);
		from = end;
	}
	return r;
}

/* Punches the gaps of a segment; the objects are in the order of the file. */
static int punch_gaps(struct punch *p, const struct gc_segment *s)
{
	const struct mark_object *o = p->g->mark.objects + s->first;
	uint64_t pos = SEGMENT_HEADER_BYTES;
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->count; i++) {
		r = punch_gap(p, pos, o[i].offset);
		pos = MAX(pos, o[i].offset +
				       segment_record_bytes(o[i].stored_len));
	}
	return r < 0 ? r : punch_gap(p, pos, s->end);
}

static int punch_segment(struct punch *p, const struct gc_segment *s)
{
	_cleanup_close_ int fd = gc_lock_segment(p->g, s->number, O_RDWR);
	struct stat before, after;
	int r;

	if (fd < 0)
		return fd == -EBUSY || fd == -ENOENT ? 0 : fd;
	r = gc_is_unchanged(p->g, s);
	if (r <= 0)
		return r;
	if (fstat(fd, &before) < 0)
		return -errno;
	/* A row that lies behind the end is damage, and so no gap is known. */
	if ((uint64_t)before.st_size < s->end || s->end % SEGMENT_ALIGN)
		return 0;
	p->fd = fd;
	r = punch_gaps(p, s);
	if (fstat(fd, &after) == 0 && after.st_blocks < before.st_blocks)
		p->g->result->freed +=
			(uint64_t)(before.st_blocks - after.st_blocks) *
			STAT_BLOCK;
	return r < 0 ? r : io_sync_data(fd);
}

/* What the file system cannot do is no failure: then nothing is freed. */
static bool is_refused(int err)
{
	return err == -EOPNOTSUPP || err == -ENOSYS || err == -EINVAL ||
	       gc_is_full(err);
}

int gc_punch(struct gc *g)
{
	_cleanup_free_ uint8_t *zeros = calloc(1, FILLER_MAX);
	struct punch p = {.g = g, .zeros = zeros};
	const struct gc_segment *all;
	size_t n;
	/* A repair that came before the lock was shared may have put another
	 * index there, with rows of what the old one calls dead. */
	int r = zeros ? index_check_current(g->store->index) : -ENOMEM;

	if (r == 0)
		r = gc_reload(g);
	all = gc_segments(g, &n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = punch_segment(&p, &all[i]);
	return is_refused(r) ? 0 : r;
}
