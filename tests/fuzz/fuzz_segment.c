/* SPDX-License-Identifier: MIT */
/*
 * The input is what a segment has behind its header. It is scanned as it is,
 * and with the checksums of the records that it seems to hold set right: what
 * comes then is read as a program with a fault could have written it.
 */
#include "fuzz.h"

#include "base/bytes.h"
#include "base/io.h"
#include "store/fsck_int.h"

#include <sys/mman.h>
#include <unistd.h>

enum { NUMBER = 1, LEN_AT = 8, SUM_AT = 40, SIZE_MAX_LOG = 20 };

struct seen {
	uint64_t at; /* everything before it was told */
	uint64_t end;
	struct buf scratch;
};

static int on_whole(void *ctx, const struct frame *f)
{
	struct seen *s = ctx;
	const uint8_t *raw = NULL;
	const char *rule;

	FUZZ_CHECK(f->place.offset == s->at && f->end > s->at);
	FUZZ_CHECK(f->end <= s->end);
	s->at = f->end;
	/* Nobody has so much memory for so small an input. */
	if (!f->payload || oid_length(&f->id) >> SIZE_MAX_LOG)
		return 0;
	if (fsck_raw_bytes(f, &s->scratch, &raw) == 0)
		(void)!fsck_form_rule(&f->id, raw, oid_length(&f->id),
				      &rule);
	return 0;
}

static int on_bad(void *ctx, uint64_t from, uint64_t to, const struct oid *name)
{
	struct seen *s = ctx;

	FUZZ_CHECK(from == s->at && to > from && to <= s->end);
	s->at = to;
	return 0;
}

static void scan(int fd, uint64_t end, unsigned flags)
{
	struct seen s = {.at = SEGMENT_HEADER_BYTES, .end = end};
	const struct frames_sink sink = {on_whole, on_bad, &s};

	FUZZ_CHECK(frames_scan(fd, NUMBER, end, flags, &sink) == 0);
	FUZZ_CHECK(s.at == end);
	buf_fini(&s.scratch);
}

static void seal(struct buf *b)
{
	size_t at = SEGMENT_HEADER_BYTES;

	while (b->len - at >= SEGMENT_RECORD_BYTES) {
		uint8_t again[SEGMENT_RECORD_BYTES];
		uint8_t *h = b->data + at;
		const uint32_t len = bytes_load_u32(h + LEN_AT);
		struct oid id;

		if (len > b->len - at - SEGMENT_RECORD_BYTES)
			return;
		memcpy(id.b, h + 16, OID_BYTES);
		segment_record_encode(&id, h[4] & 1, h + SEGMENT_RECORD_BYTES,
				      len, again);
		if (memcmp(again, h, SUM_AT) == 0)
			memcpy(h + SUM_AT, again + SUM_AT, 8);
		if (segment_record_bytes(len) > b->len - at)
			return;
		at += segment_record_bytes(len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	_cleanup_buf_ struct buf b = {0};
	uint8_t header[SEGMENT_HEADER_BYTES];
	bool sound = false;

	if (fd < 0)
		fd = memfd_create("segment", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	segment_header_encode(NUMBER, header);
	buf_put(&b, header, sizeof header);
	buf_put(&b, data, size);
	FUZZ_CHECK(buf_error(&b) == 0);
	for (int i = 0; i < 2; i++) {
		FUZZ_CHECK(io_pwrite(fd, b.data, b.len, 0) == 0);
		FUZZ_CHECK(ftruncate(fd, (off_t)b.len) == 0);
		FUZZ_CHECK(frames_check_header(fd, NUMBER, &sound) == 0);
		FUZZ_CHECK(sound);
		scan(fd, b.len, 0);
		scan(fd, b.len, FRAMES_FAST);
		seal(&b);
	}
	return 0;
}
