/* SPDX-License-Identifier: MIT */
/* Tests of object/manifest.h. */
#include "test.h"

#include "base/bytes.h"
#include "base/err.h"
#include "object/format.h"
#include "object/manifest.h"

enum { CHUNK = FORMAT_CHUNK_BYTES, HEADER = 16 };

static uint8_t chunk_bytes[CHUNK];

/* A file of two chunks and a rest of 5; the one in the middle is a hole. */
static void encode(struct buf *out)
{
	struct oid id;

	memset(chunk_bytes, 7, sizeof chunk_bytes);
	manifest_begin(out, 2 * CHUNK + 5);
	id = oid_of(OID_BLOB, chunk_bytes, CHUNK);
	manifest_add(out, &id);
	id = (struct oid){0};
	manifest_add(out, &id);
	id = oid_of(OID_BLOB, chunk_bytes, 5);
	manifest_add(out, &id);
	assert_ok(buf_error(out));
}

static int open_it(const struct buf *b)
{
	struct manifest m;

	return manifest_open(b->data, b->len, &m);
}

TEST(chunks_come_back_in_order_with_the_size)
{
	_cleanup_buf_ struct buf b = {0};
	struct manifest m;
	struct oid want;
	struct oid got;

	encode(&b);
	assert_ok(manifest_open(b.data, b.len, &m));
	assert_int_equal(m.size, 2 * CHUNK + 5);
	assert_int_equal(m.count, 3);
	want = oid_of(OID_BLOB, chunk_bytes, CHUNK);
	got = manifest_chunk(&m, 0);
	assert_true(oid_equal(&got, &want));
	got = manifest_chunk(&m, 1);
	assert_true(oid_is_null(&got));
	want = oid_of(OID_BLOB, chunk_bytes, 5);
	got = manifest_chunk(&m, 2);
	assert_true(oid_equal(&got, &want));
}

TEST(the_header_is_pinned)
{
	_cleanup_buf_ struct buf b = {0};

	encode(&b);
	assert_memory_equal(b.data, "CWM1\x11\0\0\0\5\0\4\0\0\0\0\0", HEADER);
	assert_int_equal(b.len, HEADER + 3 * OID_BYTES);
}

TEST(every_other_length_is_refused)
{
	_cleanup_buf_ struct buf b = {0};
	size_t len;

	encode(&b);
	len = b.len;
	for (b.len = 0; b.len < len; b.len++)
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
	buf_put_u8(&b, 0);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
}

TEST(magic_and_chunk_size_must_fit)
{
	_cleanup_buf_ struct buf b = {0};

	encode(&b);
	for (size_t i = 0; i < 8; i++) {
		b.data[i] ^= 1;
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
		b.data[i] ^= 1;
	}
	assert_ok(open_it(&b));
}

TEST(a_size_that_a_blob_can_hold_or_nothing_can_is_refused)
{
	static const uint64_t bad[] = {0,	   1,
				       CHUNK,	   FORMAT_MAX_FILE + 1,
				       UINT64_MAX, UINT64_MAX - CHUNK};
	_cleanup_buf_ struct buf b = {0};
	struct oid hole = {0};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		buf_clear(&b);
		manifest_begin(&b, bad[i]);
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
		manifest_add(&b, &hole);
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
	}
	buf_clear(&b);
	manifest_begin(&b, CHUNK + 1);
	manifest_add(&b, &hole);
	manifest_add(&b, &hole);
	assert_ok(open_it(&b));
}

TEST(a_chunk_must_be_a_blob_of_its_exact_length)
{
	_cleanup_buf_ struct buf b = {0};
	struct oid id;

	encode(&b);
	id = oid_of(OID_BLOB, chunk_bytes, CHUNK - 1);
	memcpy(b.data + HEADER, id.b, OID_BYTES);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
	id = oid_of(OID_MANIFEST, chunk_bytes, CHUNK);
	memcpy(b.data + HEADER, id.b, OID_BYTES);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
	id = oid_of(OID_BLOB, chunk_bytes, CHUNK);
	memcpy(b.data + HEADER, id.b, OID_BYTES);
	memcpy(b.data + HEADER + 2 * OID_BYTES, id.b, OID_BYTES);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
}

TEST(a_file_of_whole_chunks_has_no_rest)
{
	_cleanup_buf_ struct buf b = {0};
	struct manifest m;
	struct oid id = oid_of(OID_BLOB, chunk_bytes, CHUNK);

	manifest_begin(&b, 2 * CHUNK);
	manifest_add(&b, &id);
	manifest_add(&b, &id);
	assert_ok(manifest_open(b.data, b.len, &m));
	assert_int_equal(m.count, 2);
}

TEST(zeros_are_told_from_a_single_set_bit_at_any_place)
{
	static uint8_t z[200];

	for (size_t len = 0; len <= sizeof z; len++) {
		assert_true(manifest_is_zero(z, len));
		for (size_t i = 0; i < len; i++) {
			z[i] = 1;
			assert_false(manifest_is_zero(z, len));
			z[i] = 0;
		}
	}
	assert_true(manifest_is_zero(NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(chunks_come_back_in_order_with_the_size),
		RUN(the_header_is_pinned),
		RUN(every_other_length_is_refused),
		RUN(magic_and_chunk_size_must_fit),
		RUN(a_size_that_a_blob_can_hold_or_nothing_can_is_refused),
		RUN(a_chunk_must_be_a_blob_of_its_exact_length),
		RUN(a_file_of_whole_chunks_has_no_rest),
		RUN(zeros_are_told_from_a_single_set_bit_at_any_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
