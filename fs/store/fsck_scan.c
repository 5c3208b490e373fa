/* SPDX-License-Identifier: MIT */
/*
 * How: each segment is read once from its header to its committed end, and
 * each record that is whole is looked up among the rows: the one at the place
 * that the row says makes the object whole; one elsewhere is another copy,
 * which repair may use. All are checked against their names and kinds here,
 * where the bytes are at hand.
 *
 * Without an index there are no rows: files are read to their ends.
 */
#include "store/fsck_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"
#include "object/manifest.h"

#define SUM_SEED 0x4d5553 /* any number: sums are not stored */

struct scanning {
	struct fsck *f;
	struct fsck_segment *segment;
	char where[SEGMENT_NAME_BYTES + 64];
	struct buf scratch;
};

/* Names a place in the segment. */
static const char *place_text(struct scanning *s, uint64_t offset)
{
	char name[SEGMENT_NAME_BYTES];

	segment_name(s->segment->number, name);
	(void)snprintf(s->where, sizeof s->where, "segments/%s at %llu", name,
		       (unsigned long long)offset);
	return s->where;
}

/* Compares with another record of the same name. */
static void check_twin(struct scanning *s, const struct frame *fr,
		       struct fsck_object *o, const uint8_t *raw)
{
	const uint64_t sum = oid_checksum(raw, oid_length(&fr->id), SUM_SEED);

	if (o->state & OBJECT_SUMMED && o->sum != sum)
		fsck_damaged(s->f, "S3", place_text(s, fr->place.offset),
			     &fr->id, "another object has the same name");
	o->sum = sum;
	o->state |= OBJECT_SUMMED;
}

static int check_bytes(struct scanning *s, const struct frame *fr,
		       struct fsck_object *o)
{
	const size_t len = oid_length(&fr->id);
	const uint8_t *raw = NULL;
	char what[FSCK_TEXT_BYTES];
	const char *rule = "S6";
	int r;

	fsck_describe(&fr->id, what);
	if (!fr->padded) {
		fsck_damaged(s->f, "S5", place_text(s, fr->place.offset),
			     &fr->id, "its padding is not zero: %s", what);
		s->segment->damaged = true;
	}
	r = fsck_raw_bytes(fr, &s->scratch, &raw);
	if (r == 0)
		r = fsck_form_rule(&fr->id, raw, len, &rule);
	if (r == -ENOMEM)
		return r;
	if (rule) {
		fsck_damaged(s->f, rule, place_text(s, fr->place.offset),
			     &fr->id, "the bytes of this object are wrong: %s",
			     what);
		s->segment->damaged = true;
		return 1;
	}
	if (o && len == FORMAT_CHUNK_BYTES && manifest_is_zero(raw, len))
		o->state |= OBJECT_ZERO;
	if (o)
		check_twin(s, fr, o, raw);
	return 0;
}

static int on_whole(void *ctx, const struct frame *fr)
{
	struct scanning *s = ctx;
	struct fsck_object *o = fsck_find(s->f, &fr->id);
	int bad = fr->payload ? check_bytes(s, fr, o) : 0;

	if (bad < 0)
		return bad;
	if (!o || bad)
		return 0;
	if (o->place.segment == fr->place.segment &&
	    o->place.offset == fr->place.offset &&
	    o->place.stored_len == fr->place.stored_len &&
	    o->place.encoding == fr->place.encoding) {
		o->state |= OBJECT_WHOLE;
	} else {
		o->state |= OBJECT_OTHER;
		o->other = fr->place;
	}
	return 0;
}

static int on_bad(void *ctx, uint64_t from, uint64_t to, const struct oid *name)
{
	struct scanning *s = ctx;
	char what[FSCK_TEXT_BYTES] = "";

	if (name)
		fsck_describe(name, what);
	/* Who committed what is unknown without an index: a tail is no damage
	 * then. */
	if (!s->segment->has_row && to == s->segment->size) {
		fsck_say(s->f, FSCK_NOTE, place_text(s, from),
			 "%llu bytes at the end are no whole record",
			 (unsigned long long)(to - from));
		return 0;
	}
	s->segment->damaged = true;
	fsck_damaged(s->f, name ? "S6" : "S5", place_text(s, from), name,
		     "%llu bytes are no whole record%s%s",
		     (unsigned long long)(to - from), name ? ": " : "", what);
	return 0;
}

static int check_segment(struct fsck *f, struct fsck_segment *segment)
{
	_cleanup_close_ int fd = fsck_open_segment(f, segment->number);
	struct scanning s = {.f = f, .segment = segment};
	const struct frames_sink sink = {on_whole, on_bad, &s};
	const uint64_t end = segment->has_row ? segment->end : segment->size;
	bool sound = false;
	int r;

	if (fd < 0)
		return fd;
	r = frames_check_header(fd, segment->number, &sound);
	if (r < 0)
		return r;
	if (!sound) {
		fsck_damaged(f, "S9", place_text(&s, 0), NULL,
			     "the segment's header is damaged");
		segment->damaged = true;
	}
	if (segment->size < end) {
		fsck_damaged(f, "S9", place_text(&s, segment->size), NULL,
			     "the file ends before its committed end, %llu",
			     (unsigned long long)end);
		segment->damaged = true;
	}
	if (end % SEGMENT_ALIGN != 0 || end < SEGMENT_HEADER_BYTES) {
		fsck_damaged(f, "S5", place_text(&s, end), NULL,
			     "the committed end is no end of a record");
		segment->damaged = true;
	}
	r = frames_scan(fd, segment->number, MIN(end, segment->size),
			f->flags & FSCK_FAST ? FRAMES_FAST : 0, &sink);
	buf_fini(&s.scratch);
	return r;
}

/* --- which segments there are -------------------------------------------- */

static struct fsck_segment *find_segment(struct fsck *f, uint32_t number)
{
	for (size_t i = 0; i < fsck_segment_count(f); i++)
		if (fsck_segment_at(f, i)->number == number)
			return fsck_segment_at(f, i);
	return NULL;
}

/* Reads the number of a segment's file name; 0: it is none. */
static uint32_t number_of(const char *name)
{
	char again[SEGMENT_NAME_BYTES];
	const unsigned long n = strtoul(name, NULL, 10);

	if (n == 0 || n > UINT32_MAX)
		return 0;
	segment_name((uint32_t)n, again);
	return strcmp(name, again) == 0 ? (uint32_t)n : 0;
}

static int note_file(struct fsck *f, int dirfd, const char *name)
{
	const uint32_t number = number_of(name);
	struct fsck_segment *known = number ? find_segment(f, number) : NULL;
	struct stat st;

	if (number == 0)
		return 0;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (known) {
		known->has_file = S_ISREG(st.st_mode);
		known->size = (uint64_t)st.st_size;
	} else if (!f->store && S_ISREG(st.st_mode)) {
		const struct fsck_segment s = {.number = number,
					       .has_file = true,
					       .size = (uint64_t)st.st_size};

		buf_put(&f->segments, &s, sizeof s);
	}
	return buf_error(&f->segments);
}

static int list_files(struct fsck *f)
{
	const struct dirent *e;
	DIR *d;
	int r = io_open_names(f->fd, "segments", O_NOFOLLOW, &d);

	if (r < 0)
		return r;
	while (r == 0 && (e = readdir(d)))
		r = note_file(f, dirfd(d), e->d_name);
	(void)closedir(d);
	return r;
}

int fsck_scan_check(struct fsck *f)
{
	int r = list_files(f);

	for (size_t i = 0; r == 0 && i < fsck_segment_count(f); i++) {
		struct fsck_segment *s = fsck_segment_at(f, i);
		char name[SEGMENT_NAME_BYTES];
		char where[SEGMENT_NAME_BYTES + 16];

		if (s->has_file) {
			r = check_segment(f, s);
			continue;
		}
		segment_name(s->number, name);
		(void)snprintf(where, sizeof where, "segments/%s", name);
		s->damaged = true;
		fsck_damaged(f, "S12", where, NULL, "the file is missing");
	}
	return r;
}
