/* SPDX-License-Identifier: MIT */
/*
 * How: a window of the journal in memory slides over its frames; a frame that
 * is larger than the window makes it grow. Frames are checked here and nowhere
 * else; what is in them is apply.c's.
 */
#include "env/frames_int.h"

#include "base/bytes.h"
#include "base/io.h"

#include <errno.h>
#include <string.h>

enum { WINDOW = 256 << 10 };

void frames_init(struct frames *f, int fd, uint64_t salt, uint64_t size)
{
	*f = (struct frames){
		.fd = fd,
		.salt = salt,
		.size = size,
		.pos = JOURNAL_HEADER_BYTES,
	};
}

void frames_fini(struct frames *f)
{
	free(f->window);
	f->window = NULL;
}

/* Sees to it that n bytes from pos on are in the window: 1; 0: there are not
 * so many. */
static int frames_need(struct frames *f, uint64_t pos, size_t n)
{
	size_t cap = MAX(n, (size_t)MIN((uint64_t)WINDOW, f->size));
	ssize_t got;

	if (pos > f->size || n > f->size - pos)
		return 0;
	if (pos >= f->at && pos + n <= f->at + f->len)
		return 1;
	if (!f->window || cap > f->cap) {
		free(f->window);
		f->window = malloc(cap);
		f->cap = f->window ? cap : 0;
		if (!f->window)
			return -ENOMEM;
	}
	f->len = 0;
	got = io_pread(f->fd, f->window, f->cap, pos);
	if (got < 0)
		return (int)got;
	f->at = pos;
	f->len = (size_t)got;
	return (size_t)got >= n;
}

int frames_at(struct frames *f, uint64_t pos, const uint8_t **ret_frame,
	      size_t *ret_len)
{
	const uint8_t *h;
	uint32_t len;
	int r = frames_need(f, pos, JOURNAL_FRAME_BYTES);

	if (r <= 0)
		return r;
	h = f->window + (pos - f->at);
	len = bytes_load_u32(h + 4);
	if (bytes_load_u32(h) != FORMAT_JOURNAL_MAGIC ||
	    len > JOURNAL_FRAME_MAX)
		return 0;
	r = frames_need(f, pos, JOURNAL_FRAME_BYTES + (size_t)len);
	if (r <= 0)
		return r;
	h = f->window + (pos - f->at);
	*ret_frame = h;
	*ret_len = len;
	return bytes_load_u64(h + 16) == journal_checksum(f->salt, h, len);
}

int frames_next(struct frames *f, const uint8_t **ret_items, size_t *ret_len)
{
	const uint8_t *frame;
	int r = frames_at(f, f->pos, &frame, ret_len);

	if (r <= 0 || bytes_load_u64(frame + 8) != f->seq)
		return r < 0 ? r : 0;
	f->pos += JOURNAL_FRAME_BYTES + *ret_len;
	f->seq++;
	*ret_items = frame + JOURNAL_FRAME_BYTES;
	return 1;
}

int frames_find(struct frames *f, uint64_t from, uint64_t *ret_pos)
{
	enum { STEP = 64 << 10, MAGIC = 4 };
	_cleanup_free_ uint8_t *p = malloc(STEP);
	uint64_t pos = from;

	if (!p)
		return -ENOMEM;
	while (pos < f->size && f->size - pos >= JOURNAL_FRAME_BYTES) {
		ssize_t n = io_pread(f->fd, p, STEP, pos);

		if (n < JOURNAL_FRAME_BYTES)
			return n < 0 ? (int)n : 0;
		for (ssize_t i = 0; i + MAGIC <= n; i++) {
			const uint8_t *frame;
			size_t len;
			int r;

			if (bytes_load_u32(p + i) != FORMAT_JOURNAL_MAGIC)
				continue;
			r = frames_at(f, pos + (uint64_t)i, &frame, &len);
			if (r < 0)
				return r;
			if (r && bytes_load_u64(frame + 8) > f->seq &&
			    bytes_load_u64(frame + 8) - f->seq <= f->size) {
				*ret_pos = pos + (uint64_t)i;
				return 1;
			}
		}
		pos += (uint64_t)n - (MAGIC - 1);
	}
	return 0;
}
