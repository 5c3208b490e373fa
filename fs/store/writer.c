/* SPDX-License-Identifier: MIT */
/*
 * How: a segment in the index's table is free for the taking when its flock is.
 * Its committed end is read *after* the lock was won (before, another writer
 * could still have moved it), and bytes beyond are a torn tail, cut before the
 * first append. A segment whose header, size or table row does not fit is left
 * alone for fsck: to cut by a wrong end would destroy objects.
 *
 * A new segment is written, synced and entered into the table before its first
 * record. So every segment file that the table does not know is either empty
 * or not ours to touch, and a killed first import leaves nothing that the next
 * one does not reclaim. It costs one more commit for each 256 MiB.
 *
 * Records go through a buffer, for one pwrite a megabyte instead of one an
 * object; a record that is larger than the buffer goes straight to the file.
 */
#include "store/writer_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/io.h"

int writer_open(struct segments *g, struct index *x, uint64_t limit,
		struct writer *ret_writer)
{
	uint8_t *buffer = malloc(WRITER_BUFFER_BYTES);

	if (!buffer)
		return -ENOMEM;
	*ret_writer = (struct writer){
		.segments = g,
		.index = x,
		.fd = -1,
		.limit = limit,
		.buffer = buffer,
	};
	return 0;
}

/* Lets the segment go; its flock goes with the descriptor. */
static void leave_segment(struct writer *w)
{
	if (w->fd < 0)
		return;
	/* Gives the space of dropped records back now. When it fails, the next
	 * writer cuts. */
	if (w->dirty && !w->keep_tail &&
	    io_truncate(w->fd, w->committed) < 0)
		w->keep_tail = true;
	(void)close(w->fd);
	w->fd = -1;
	w->used = 0;
	w->dirty = false;
}

void writer_close(struct writer *w)
{
	leave_segment(w);
	free(TAKE_PTR(w->buffer));
}

/* --- choosing a segment ------------------------------------------------- */

static int open_locked(struct writer *w, uint32_t number, int flags)
{
	_cleanup_close_ int fd = -1;
	char name[SEGMENT_NAME_BYTES];
	int r;

	segment_name(number, name);
	fd = io_open_file(segments_fd(w->segments), name, O_RDWR | flags);
	if (fd < 0)
		return fd;
	r = io_lock(fd, LOCK_EX | LOCK_NB);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Says whether a locked file is the segment that its name and row promise. */
static int check_segment(int fd, uint32_t number, uint64_t end)
{
	uint8_t want[SEGMENT_HEADER_BYTES];
	uint8_t have[SEGMENT_HEADER_BYTES];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	if (end < SEGMENT_HEADER_BYTES || end % SEGMENT_ALIGN != 0 ||
	    (uint64_t)st.st_size < end)
		return -EFSCORRUPTED;
	n = io_pread(fd, have, sizeof have, 0);
	if (n < 0)
		return (int)n;
	segment_header_encode(number, want);
	if (n != sizeof have || memcmp(have, want, sizeof want) != 0)
		return -EFSCORRUPTED;
	return (uint64_t)st.st_size > end ? io_truncate(fd, end) : 0;
}

static int committed_end(struct index *x, uint32_t number, uint64_t *ret_end)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(x, false, &t);

	return r < 0 ? r : index_get_segment(&t, number, ret_end);
}

/* Takes an existing segment; any error means: not this one. */
static int take_existing(struct writer *w, uint32_t number)
{
	_cleanup_close_ int fd = open_locked(w, number, 0);
	uint64_t end = 0;
	int r;

	if (fd < 0)
		return fd;
	r = committed_end(w->index, number, &end);
	if (r == 0 && end >= w->limit)
		r = -ENOSPC;
	if (r == 0)
		r = check_segment(fd, number, end);
	if (r < 0)
		return r;
	w->number = number;
	w->committed = w->flushed = w->started = end;
	w->fd = TAKE_FD(fd);
	return 0;
}

static int enter_segment(struct index *x, uint32_t number)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = index_txn_begin(x, true, &t);

	if (r == 0)
		r = index_put_segment(&t, number, SEGMENT_HEADER_BYTES);
	return r < 0 ? r : index_txn_commit(&t);
}

/* Writes the header of a new segment; it and its name are durable then. */
static int write_new(struct writer *w, int fd, const uint8_t *header)
{
	const int dirfd = segments_fd(w->segments);
	int r = io_pwrite(fd, header, SEGMENT_HEADER_BYTES, 0);

	if (r == 0)
		r = io_sync_data(fd);
	return r < 0 ? r : io_sync_dir(dirfd);
}

static int make_segment(struct writer *w, uint32_t number)
{
	_cleanup_close_ int fd = open_locked(w, number, O_CREAT | O_EXCL);
	char name[SEGMENT_NAME_BYTES];
	uint8_t header[SEGMENT_HEADER_BYTES];
	int r;

	if (fd < 0)
		return fd;
	segment_header_encode(number, header);
	r = write_new(w, fd, header);
	if (r < 0) {
		segment_name(number, name);
		(void)unlinkat(segments_fd(w->segments), name, 0);
		return r;
	}
	r = enter_segment(w->index, number);
	if (r < 0)
		return r;
	w->number = number;
	w->committed = w->flushed = w->started = SEGMENT_HEADER_BYTES;
	w->fd = TAKE_FD(fd);
	return 0;
}

static int make_next(struct writer *w, uint32_t number)
{
	int r = -EEXIST;

	/* A number may be taken by a writer that is about to enter it. */
	for (; r == -EEXIST || r == -EBUSY; number++) {
		if (number == UINT32_MAX)
			return -EOVERFLOW;
		r = make_segment(w, number);
	}
	return r;
}

static int take_segment(struct writer *w)
{
	_cleanup_buf_ struct buf list = {0};
	struct index_segment s = {0};
	struct index_gc gc = {0};
	uint32_t next;
	int r;

	{
		_cleanup_index_txn_ struct index_txn t = {0};

		r = index_txn_begin(w->index, false, &t);
		if (r == 0)
			r = index_list_segments(&t, &list);
		if (r == 0)
			r = index_get_gc(&t, &gc);
		if (r < 0)
			return r;
	}
	next = MAX(gc.next_segment, 1U);
	/* From the newest: the last one is the likeliest to have room. */
	for (size_t i = list.len / sizeof s; i-- > 0;) {
		memcpy(&s, list.data + i * sizeof s, sizeof s);
		if (s.number >= next)
			next = s.number + 1;
		if (!w->fresh && s.end < w->limit &&
		    take_existing(w, s.number) == 0)
			return 0;
	}
	return make_next(w, next);
}

/* --- appending ---------------------------------------------------------- */

uint64_t writer_end(const struct writer *w)
{
	return w->flushed + w->used;
}

/* Lets the disk begin with what the commit will wait for. It promises nothing,
 * and a file system that cannot do it does not need to. */
static void start_writing(struct writer *w)
{
	if (w->flushed - w->started < WRITER_AHEAD_BYTES)
		return;
	(void)sync_file_range(w->fd, (off_t)w->started,
			      (off_t)(w->flushed - w->started),
			      SYNC_FILE_RANGE_WRITE);
	w->started = w->flushed;
}

int writer_flush(struct writer *w)
{
	int r;

	if (w->used == 0)
		return 0;
	w->dirty = true;
	r = io_pwrite(w->fd, w->buffer, w->used, w->flushed);
	if (r < 0)
		return r;
	w->flushed += w->used;
	w->used = 0;
	start_writing(w);
	return 0;
}

int writer_sync(struct writer *w)
{
	int r = writer_flush(w);

	if (r < 0 || w->fd < 0 || w->flushed == w->committed)
		return r;
	return io_sync_data(w->fd);
}

void writer_committed(struct writer *w)
{
	w->committed = w->flushed;
	w->dirty = false;
	/* Full: the next append takes another one. */
	if (w->fd >= 0 && w->committed >= w->limit)
		leave_segment(w);
}

/* Writes a record that is larger than the buffer, which is empty. */
static int write_through(struct writer *w, const uint8_t *header,
			 const void *data, size_t len)
{
	static const uint8_t zeros[SEGMENT_ALIGN];
	const uint64_t at = w->flushed + SEGMENT_RECORD_BYTES;
	const uint64_t all = segment_record_bytes((uint32_t)len);
	int r;

	w->dirty = true;
	r = io_pwrite(w->fd, header, SEGMENT_RECORD_BYTES, w->flushed);
	if (r == 0)
		r = io_pwrite(w->fd, data, len, at);
	if (r == 0)
		r = io_pwrite(w->fd, zeros, all - SEGMENT_RECORD_BYTES - len,
			      at + len);
	if (r == 0)
		w->flushed += all;
	start_writing(w);
	return r;
}

static void copy_in(struct writer *w, const uint8_t *header, const void *data,
		    size_t len)
{
	uint8_t *out = w->buffer + w->used;
	const size_t all = (size_t)segment_record_bytes((uint32_t)len);

	memcpy(out, header, SEGMENT_RECORD_BYTES);
	out += SEGMENT_RECORD_BYTES;
	if (len > 0)
		memcpy(out, data, len);
	memset(out + len, 0, all - SEGMENT_RECORD_BYTES - len);
	w->used += all;
}

int writer_append(struct writer *w, const struct oid *id, const void *data,
		  size_t len, struct segment_place *ret_place)
{
	return writer_append_stored(w, id, SEGMENT_RAW, data, len, ret_place);
}

int writer_append_stored(struct writer *w, const struct oid *id,
			 enum segment_encoding encoding, const void *data,
			 size_t len, struct segment_place *ret_place)
{
	const uint64_t all = segment_record_bytes((uint32_t)len);
	uint8_t header[SEGMENT_RECORD_BYTES];
	struct segment_place place;
	int r = 0;

	if (w->fd < 0)
		r = take_segment(w);
	if (r == 0 && all > WRITER_BUFFER_BYTES - w->used)
		r = writer_flush(w);
	if (r < 0)
		return r;
	place = (struct segment_place){
		.segment = w->number,
		.stored_len = (uint32_t)len,
		.offset = writer_end(w),
		.encoding = (uint8_t)encoding,
	};
	segment_record_encode(id, encoding, data, (uint32_t)len, header);
	if (all > WRITER_BUFFER_BYTES)
		r = write_through(w, header, data, len);
	else
		copy_in(w, header, data, len);
	if (r == 0)
		*ret_place = place;
	return r;
}

const uint8_t *writer_peek(const struct writer *w,
			   const struct segment_place *p)
{
	if (w->fd < 0 || p->segment != w->number || p->offset < w->flushed)
		return NULL;
	return w->buffer + (p->offset - w->flushed) + SEGMENT_RECORD_BYTES;
}
