/* SPDX-License-Identifier: MIT */
/*
 * How: a record says its own length, so the next one is found from it. Where a
 * header makes no sense or the checksum does not fit, the scan looks on: first
 * where the record would end by its own words, then at each multiple of 8 for
 * the magic of a record that is whole. Bytes of a user's file that look like a
 * record (a segment that was imported) may be taken for one within a damaged
 * record only, and are then an object under its right name: harmless.
 *
 * Reads go through one window of at least a megabyte, moved forward; a record
 * that is larger makes it larger.
 */
#include "store/frames_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "object/format.h"

enum { WINDOW_BYTES = 1 << 20 };

struct scan {
	int fd;
	uint32_t number;
	uint64_t end;
	bool fast;
	struct buf window;
	uint64_t at; /* file offset of the window */
};

int frames_check_header(int fd, uint32_t number, bool *ret_sound)
{
	uint8_t want[SEGMENT_HEADER_BYTES];
	uint8_t have[SEGMENT_HEADER_BYTES];
	const ssize_t n = io_pread(fd, have, sizeof have, 0);

	if (n < 0)
		return (int)n;
	segment_header_encode(number, want);
	*ret_sound = n == (ssize_t)sizeof have &&
		     memcmp(have, want, sizeof want) == 0;
	return 0;
}

/* Returns n bytes at a place, or NULL with an error when they cannot be read.
 * The caller has made sure that they lie below the end. */
static const uint8_t *look(struct scan *s, uint64_t pos, uint64_t n, int *r)
{
	const uint64_t want = MIN(MAX(n, (uint64_t)WINDOW_BYTES), s->end - pos);
	ssize_t k;

	if (pos >= s->at && pos + n <= s->at + s->window.len)
		return s->window.data + (pos - s->at);
	*r = buf_resize(&s->window, want);
	if (*r < 0)
		return NULL;
	k = io_pread(s->fd, s->window.data, want, pos);
	/* The file is at least as long as the scan goes. */
	*r = k < 0 ? (int)k : (uint64_t)k < n ? -EIO : 0;
	s->window.len = k < 0 ? 0 : (size_t)k;
	s->at = pos;
	return *r < 0 ? NULL : s->window.data;
}

/* Reads what a header says; false when it cannot be one. */
static bool header_makes_sense(const struct scan *s, const uint8_t *h,
			       uint64_t pos, struct frame *f)
{
	const uint32_t raw = bytes_load_u32(h + 12);

	*f = (struct frame){.place = {.segment = s->number,
				      .stored_len = bytes_load_u32(h + 8),
				      .offset = pos,
				      .encoding = h[4]},
			    .padded = true};
	memcpy(f->id.b, h + 16, OID_BYTES);
	if (bytes_load_u32(h) != FORMAT_RECORD_MAGIC ||
	    h[4] > SEGMENT_DEFLATE || bytes_load_u32(h + 4) >> 8 != 0 ||
	    !oid_is_valid(&f->id) || raw != oid_length(&f->id) ||
	    f->place.stored_len > FORMAT_MAX_OBJECT ||
	    (h[4] == SEGMENT_RAW && f->place.stored_len != raw))
		return false;
	f->end = pos + segment_record_bytes(f->place.stored_len);
	return true;
}

uint64_t frames_end_of(int fd, uint64_t pos)
{
	const struct scan s = {.fd = fd};
	uint8_t header[SEGMENT_RECORD_BYTES];
	struct frame f;

	if (io_pread(fd, header, sizeof header, pos) != sizeof header ||
	    !header_makes_sense(&s, header, pos, &f))
		return 0;
	return f.end;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	while (n > 0 && p[n - 1] == 0)
		n--;
	return n == 0;
}

/* Reads the record at a place: 1, or 0 when there is no whole one; then `f`
 * holds what it says of itself if *ret_sense. */
static int read_frame(struct scan *s, uint64_t pos, struct frame *f,
		      bool *ret_sense)
{
	const uint8_t *p;
	uint8_t header[SEGMENT_RECORD_BYTES];
	int r = 0;

	*ret_sense = false;
	if (s->end - pos < SEGMENT_RECORD_BYTES)
		return 0;
	p = look(s, pos, SEGMENT_RECORD_BYTES, &r);
	if (!p)
		return r;
	memcpy(header, p, sizeof header);
	if (!header_makes_sense(s, header, pos, f))
		return 0;
	*ret_sense = true;
	if (f->end > s->end)
		return 0;
	if (s->fast)
		return 1;
	p = look(s, pos, f->end - pos, &r);
	if (!p)
		return r;
	f->payload = p + SEGMENT_RECORD_BYTES;
	if (!segment_record_is_sound(p, f->payload, f->place.stored_len))
		return 0;
	f->padded = is_zero((const uint8_t *)f->payload + f->place.stored_len,
			    f->end - pos - SEGMENT_RECORD_BYTES -
				    f->place.stored_len);
	return 1;
}

/* Finds the next whole record behind a bad one, or the end. */
static int resync(struct scan *s, uint64_t pos, uint64_t said, uint64_t *ret)
{
	struct frame f;
	bool sense;
	int r;

	if (said == s->end) {
		*ret = said;
		return 0;
	}
	if (said > pos && said < s->end) {
		r = read_frame(s, said, &f, &sense);
		*ret = said;
		if (r != 0)
			return r < 0 ? r : 0;
	}
	for (pos += SEGMENT_ALIGN; pos < s->end; pos += SEGMENT_ALIGN) {
		const uint8_t *p;

		if (s->end - pos < SEGMENT_RECORD_BYTES)
			break;
		p = look(s, pos, SEGMENT_RECORD_BYTES, &r);
		if (!p)
			return r;
		if (bytes_load_u32(p) != FORMAT_RECORD_MAGIC)
			continue;
		r = read_frame(s, pos, &f, &sense);
		*ret = pos;
		if (r != 0)
			return r < 0 ? r : 0;
	}
	*ret = s->end;
	return 0;
}

static int scan_from(struct scan *s, const struct frames_sink *sink)
{
	uint64_t pos = SEGMENT_HEADER_BYTES;
	int r = 0;

	while (r == 0 && pos < s->end) {
		struct frame f = {0};
		uint64_t next = 0;
		bool sense;

		r = read_frame(s, pos, &f, &sense);
		if (r < 0)
			return r;
		if (r > 0) {
			r = sink->whole(sink->ctx, &f);
			pos = f.end;
			continue;
		}
		r = resync(s, pos, sense ? f.end : 0, &next);
		if (r == 0)
			r = sink->bad(sink->ctx, pos, next,
				      sense ? &f.id : NULL);
		pos = next;
	}
	return r;
}

int frames_scan(int fd, uint32_t number, uint64_t end, unsigned flags,
		const struct frames_sink *sink)
{
	struct scan s = {.fd = fd,
			 .number = number,
			 .end = end,
			 .fast = flags & FRAMES_FAST};
	int r = scan_from(&s, sink);

	buf_fini(&s.window);
	return r;
}
