/* SPDX-License-Identifier: MIT */
/*
 * Records in segments: every single flipped bit of one is seen, both encodings
 * are read, segments that do not fit the index are left alone, and threads may
 * read at once.
 */
#include "store_case.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "object/zip.h"
#include "store/batch_int.h"
#include "store/store.h"

#define SEGMENT_1 "segments/00000001.seg"

static struct oid put_one(struct store *s, const void *data, size_t len)
{
	struct oid id = {0};
	struct batch *b;

	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_BLOB, data, len, &id));
	assert_ok(batch_commit(b, NULL, NULL));
	return id;
}

static int open_rw(struct store *s, const char *name)
{
	const int fd = openat(store_fd(s), name, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

TEST(every_flipped_bit_of_a_record_is_seen)
{
	static const char text[] = "these bytes are exact";
	struct store *s = make_store(state);
	const struct oid id = put_one(s, text, sizeof text);
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	char raw[sizeof text];

	for (size_t i = 0; i < SEGMENT_RECORD_BYTES + sizeof text; i++) {
		for (int bit = 0; bit < 8; bit++) {
			uint8_t good;
			uint8_t bad;

			assert_int_equal(io_pread(fd, &good, 1, 16 + i), 1);
			bad = good ^ (uint8_t)(1 << bit);
			assert_ok(io_pwrite(fd, &bad, 1, 16 + i));
			memset(raw, 'x', sizeof raw);
			assert_int_equal(store_read(s, &id, raw), -EFSBADCRC);
			for (size_t k = 0; k < sizeof raw; k++)
				assert_int_equal(raw[k], 0);
			assert_ok(io_pwrite(fd, &good, 1, 16 + i));
		}
	}
	assert_ok(store_read(s, &id, raw));
	assert_string_equal(raw, text);
	store_close(s);
}

TEST(a_truncated_or_missing_segment_is_damage)
{
	struct store *s = make_store(state);
	const struct oid id = put_one(s, "0123456789", 10);
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	char raw[10];

	for (off_t n = 16 + 57; n >= 0; n -= 3) {
		assert_ok(ftruncate(fd, n));
		assert_int_equal(store_read(s, &id, raw), -EFSBADCRC);
	}
	store_close(s);
	s = make_store(state);
	assert_ok(unlinkat(store_fd(s), SEGMENT_1, 0));
	assert_int_equal(store_read(s, &id, raw), -EFSCORRUPTED);
	store_close(s);
}

TEST(a_record_of_another_object_is_refused)
{
	struct store *s = make_store(state);
	const struct oid a = put_one(s, "aaaa", 4);
	const struct oid b = put_one(s, "bbbb", 4);
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	uint8_t record[56];
	char raw[4];

	assert_int_equal(io_pread(fd, record, 56, 16 + 56), 56);
	assert_ok(io_pwrite(fd, record, 56, 16));
	assert_int_equal(store_read(s, &a, raw), -EFSBADCRC);
	assert_ok(store_read(s, &b, raw));
	assert_memory_equal(raw, "bbbb", 4);
	store_close(s);
}

/* Writes the record anew as `cowfs gc --compress` will: deflated. */
static void deflate_record(struct store *s, const struct oid *id,
			   const void *data, size_t len)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	_cleanup_buf_ struct buf zip = {0};
	uint8_t header[SEGMENT_RECORD_BYTES] = {0};
	struct segment_place place = {
		.segment = 1,
		.offset = 1 << 20,
		.encoding = SEGMENT_DEFLATE,
	};

	assert_ok(zip_deflate(data, len, &zip));
	place.stored_len = (uint32_t)zip.len;
	bytes_store_u32(header, 0x31525743);
	header[4] = SEGMENT_DEFLATE;
	bytes_store_u32(header + 8, place.stored_len);
	bytes_store_u32(header + 12, (uint32_t)len);
	memcpy(header + 16, id->b, OID_BYTES);
	bytes_store_u64(header + 40,
			oid_checksum(zip.data, zip.len,
				     oid_checksum(header, 40, 0x31525743)));
	assert_ok(io_pwrite(fd, header, sizeof header, place.offset));
	assert_ok(
		io_pwrite(fd, zip.data, zip.len, place.offset + sizeof header));
	assert_ok(index_txn_begin(s->index, true, &t));
	assert_ok(index_put_object(&t, id, &place, false));
	assert_ok(index_txn_commit(&t));
}

TEST(a_deflated_record_is_read)
{
	_cleanup_free_ char *data = calloc(1, 100000);
	_cleanup_free_ char *raw = calloc(1, 100000);
	struct store *s = make_store(state);
	struct oid id;

	memset(data, 'z', 50000);
	id = put_one(s, data, 100000);
	deflate_record(s, &id, data, 100000);
	assert_ok(store_read(s, &id, raw));
	assert_memory_equal(raw, data, 100000);
	store_close(s);
}

TEST(an_unknown_encoding_is_refused)
{
	struct store *s = make_store(state);
	struct oid id = put_one(s, "abc", 3);
	struct segment_place place;
	char raw[3];

	assert_ok(index_lookup(s->index, &id, &place));
	place.encoding = 7;
	assert_int_equal(segment_read(s->segments, &place, &id, raw),
			 -EFSCORRUPTED);
	store_close(s);
}

TEST(a_torn_tail_is_cut_before_the_next_append)
{
	struct store *s = make_store(state);
	const struct oid a = put_one(s, "aaaa", 4);
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	struct oid b;
	struct stat st;
	char raw[4];

	assert_ok(io_pwrite(fd, "half a record", 13, 16 + 56));
	b = put_one(s, "bbbb", 4);
	assert_ok(fstat(fd, &st));
	assert_int_equal(st.st_size, 16 + 2 * 56);
	assert_ok(store_read(s, &a, raw));
	assert_memory_equal(raw, "aaaa", 4);
	assert_ok(store_read(s, &b, raw));
	assert_memory_equal(raw, "bbbb", 4);
	store_close(s);
}

/* Appends after something has been done to segment 1, and says whether the
 * writer has left it alone. */
static void expect_left_alone(struct store *s, const char *what, off_t size)
{
	struct stat st;
	struct oid id = put_one(s, what, strlen(what));
	struct segment_place place;

	assert_ok(index_lookup(s->index, &id, &place));
	assert_int_not_equal(place.segment, 1);
	assert_ok(fstatat(store_fd(s), SEGMENT_1, &st, 0));
	assert_int_equal(st.st_size, size);
}

TEST(a_segment_that_does_not_fit_is_left_alone)
{
	struct store *s = make_store(state);
	const struct oid a = put_one(s, "aaaa", 4);
	_cleanup_close_ int fd = open_rw(s, SEGMENT_1);
	char raw[4];

	/* A header that is damaged. */
	assert_ok(io_pwrite(fd, "X", 1, 0));
	expect_left_alone(s, "header", 72);
	assert_ok(store_read(s, &a, raw));
	/* Shorter than the index says. */
	assert_ok(io_pwrite(fd, "C", 1, 0));
	assert_ok(ftruncate(fd, 70));
	expect_left_alone(s, "shorter", 70);
	store_close(s);
}

TEST(a_file_that_the_index_does_not_know_is_left_alone)
{
	struct store *s = make_store(state);
	_cleanup_close_ int fd = -1;

	fd = openat(store_fd(s), SEGMENT_1, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_ok(io_pwrite(fd, "unknown", 7, 0));
	expect_left_alone(s, "next", 7);
	store_close(s);
}

/* --- threads ------------------------------------------------------------ */

enum { THREADS = 4, OBJECTS = 16 };

struct reader {
	struct store *store;
	const struct oid *ids;
	unsigned seed;
	int errors;
};

static void *read_many(void *arg)
{
	struct reader *rd = arg;
	unsigned x = rd->seed;
	char want[64];
	char raw[64];

	for (int i = 0; i < 3000; i++) {
		unsigned n;

		x = x * 1103515245 + 12345;
		n = (x >> 8) % OBJECTS;
		(void)snprintf(want, sizeof want, "object %05u", n);
		if (store_read(rd->store, &rd->ids[n], raw) < 0 ||
		    memcmp(raw, want, 12) != 0)
			rd->errors++;
	}
	return NULL;
}

static void read_in_threads(struct store *s, const struct oid *ids)
{
	struct reader readers[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){s, ids, i, 0};
		assert_ok(pthread_create(&threads[i], NULL, read_many,
					 &readers[i]));
	}
	/* A writer at the same time. */
	for (int i = 0; i < 20; i++)
		(void)put_one(s, &i, sizeof i);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_ok(pthread_join(threads[i], NULL));
		assert_int_equal(readers[i].errors, 0);
	}
}

/* Puts objects first to end - 1, the text of each is its number. */
static void put_numbered(struct store *s, unsigned first, unsigned end,
			 struct oid *ids)
{
	struct batch *b;
	char text[64];

	assert_ok(batch_begin(s, &b));
	for (unsigned i = first; i < end; i++) {
		(void)snprintf(text, sizeof text, "object %05u", i);
		assert_ok(batch_put(b, OID_BLOB, text, 12, &ids[i]));
	}
	assert_ok(batch_commit(b, NULL, NULL));
}

TEST(threads_read_at_once)
{
	struct store *s = make_store(state);
	struct oid ids[OBJECTS];

	put_numbered(s, 0, OBJECTS, ids);
	read_in_threads(s, ids);
	store_close(s);
}

/* Segments 1 to 8, and 256 to 263, which want the same places in the table of
 * open ones. A row for 255 saves making those between. */
TEST(segments_take_turns_in_the_table)
{
	struct store *s = make_store(state);
	struct index_txn t = {0};
	struct oid ids[OBJECTS];
	struct segment_place place;

	batch_seam_int.segment_bytes = 17; /* one record for each segment */
	put_numbered(s, 0, 8, ids);
	assert_ok(index_txn_begin(s->index, true, &t));
	assert_ok(index_put_segment(&t, 255, UINT64_C(1) << 30));
	assert_ok(index_txn_commit(&t));
	put_numbered(s, 8, OBJECTS, ids);
	batch_seam_int.segment_bytes = UINT64_C(256) << 20;
	assert_ok(index_lookup(s->index, &ids[OBJECTS - 1], &place));
	assert_int_equal(place.segment, 263);
	read_in_threads(s, ids);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(every_flipped_bit_of_a_record_is_seen),
		RUN_SCRATCH(a_truncated_or_missing_segment_is_damage),
		RUN_SCRATCH(a_record_of_another_object_is_refused),
		RUN_SCRATCH(a_deflated_record_is_read),
		RUN_SCRATCH(an_unknown_encoding_is_refused),
		RUN_SCRATCH(a_torn_tail_is_cut_before_the_next_append),
		RUN_SCRATCH(a_segment_that_does_not_fit_is_left_alone),
		RUN_SCRATCH(a_file_that_the_index_does_not_know_is_left_alone),
		RUN_SCRATCH(threads_read_at_once),
		RUN_SCRATCH(segments_take_turns_in_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
