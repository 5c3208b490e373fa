/* SPDX-License-Identifier: MIT */
/*
 * Tests of object/tree.h: reading. One sample with every type is encoded, and
 * then damaged in each way that the format knows. test_tree_builder.c has what
 * the builder refuses.
 */
#include "test.h"

#include "tree_sample.h"

#include "base/bytes.h"
#include "base/err.h"

#include <errno.h>

static int open_it(const struct buf *b)
{
	struct tree t;

	return tree_open(b->data, b->len, &t);
}

TEST(every_field_of_every_type_comes_back)
{
	_cleanup_buf_ struct buf b = {0};
	struct tree_entry want[SAMPLE_COUNT];
	struct tree_entry got;
	struct tree t;

	sample_encode(&b);
	sample_entries(want);
	assert_ok(tree_open(b.data, b.len, &t));
	assert_int_equal(t.count, SAMPLE_COUNT);
	assert_int_equal(t.subdirs, 2);
	assert_int_equal(t.total, SAMPLE_TOTAL);
	for (uint32_t i = 0; i < t.count; i++) {
		tree_entry_at(&t, i, &got);
		sample_expect_equal(&got, &want[i]);
	}
}

TEST(starts_are_preorder_positions)
{
	static const uint64_t want[SAMPLE_COUNT] = {1,	2,  3,	14,
						    15, 16, 17, 18};
	_cleanup_buf_ struct buf b = {0};
	struct tree_entry e;
	struct tree t;

	sample_encode(&b);
	assert_ok(tree_open(b.data, b.len, &t));
	for (uint32_t i = 0; i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		assert_int_equal(e.start, want[i]);
	}
}

TEST(names_are_found_and_others_are_not)
{
	_cleanup_buf_ struct buf b = {0};
	struct tree_entry e;
	struct tree t;
	uint32_t at;

	sample_encode(&b);
	assert_ok(tree_open(b.data, b.len, &t));
	for (uint32_t i = 0; i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		assert_ok(tree_lookup(&t, e.name, e.name_len, &at));
		assert_int_equal(at, i);
		assert_int_equal(
			tree_lookup(&t, e.name, (size_t)e.name_len - 1, &at),
			-ENOENT);
	}
	assert_int_equal(tree_lookup(&t, "\xff", 1, &at), -ENOENT);
	assert_int_equal(tree_lookup(&t, "", 0, &at), -ENOENT);
	assert_int_equal(tree_lookup(&t, "bigg", 4, &at), -ENOENT);
}

TEST(every_position_belongs_to_the_entry_above_it)
{
	_cleanup_buf_ struct buf b = {0};
	struct tree_entry e;
	struct tree t;
	uint32_t at;

	sample_encode(&b);
	assert_ok(tree_open(b.data, b.len, &t));
	for (uint64_t p = 1; p <= t.total; p++) {
		assert_ok(tree_find_start(&t, p, &at));
		tree_entry_at(&t, at, &e);
		assert_true(e.start <= p && p <= e.start + e.below);
	}
	assert_int_equal(tree_find_start(&t, 0, &at), -ENOENT);
	assert_int_equal(tree_find_start(&t, t.total + 1, &at), -ENOENT);
	assert_int_equal(tree_find_start(&t, UINT64_MAX, &at), -ENOENT);
}

TEST(the_bytes_of_a_small_tree_are_pinned)
{
	static const char want[] =
		"CWT1\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" /* header */
		"\x1c\0\0\0"				       /* offset */
		"\1\0\0\0\0\0\0\0"			       /* start */
		"\xff\xff\xff\xff\xff\xff\xff\xff"	       /* mtime */
		"\2\0\0\0\0\0\0\0"			       /* size */
		"\7\0\0\0\xff\xa1\0\0\1\0\0\0\2\0\0\0"
		"\1\0\2\0\0" /* lengths, flags */
		"abc";
	struct tree_entry e = {.name = "a",
			       .name_len = 1,
			       .mode = S_IFLNK | 0777,
			       .uid = 1,
			       .gid = 2,
			       .mtime_sec = -1,
			       .mtime_nsec = 7,
			       .size = 2,
			       .target = "bc",
			       .target_len = 2};
	struct tree_builder builder = {0};
	_cleanup_buf_ struct buf b = {0};

	assert_ok(tree_builder_add(&builder, &e));
	assert_ok(tree_builder_finish(&builder, &b));
	tree_builder_fini(&builder);
	assert_int_equal(b.len, sizeof want - 1);
	assert_memory_equal(b.data, want, sizeof want - 1);
}

TEST(the_name_of_the_sample_is_pinned)
{
	_cleanup_buf_ struct buf b = {0};
	char hex[OID_HEX + 1];
	struct oid id;

	sample_encode(&b);
	id = oid_of(OID_TREE, b.data, b.len);
	oid_to_hex(&id, hex);
	assert_string_equal(hex, "8c22e4f92df341ca76226eb1c61976344f02000000000300");
}

TEST(an_empty_tree_has_nothing)
{
	_cleanup_buf_ struct buf b = {0};
	struct tree_builder builder = {0};
	struct tree t;
	uint32_t at;

	assert_ok(tree_builder_finish(&builder, &b));
	assert_ok(tree_open(b.data, b.len, &t));
	assert_int_equal(t.count, 0);
	assert_int_equal(t.total, 0);
	assert_int_equal(tree_lookup(&t, "a", 1, &at), -ENOENT);
	assert_int_equal(tree_find_start(&t, 1, &at), -ENOENT);
	tree_builder_fini(&builder);
}

TEST(every_other_length_is_refused)
{
	_cleanup_buf_ struct buf b = {0};
	size_t len;

	sample_encode(&b);
	len = b.len;
	for (b.len = 0; b.len < len; b.len++)
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
	buf_put_u8(&b, 0);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
}

TEST(every_changed_byte_of_header_and_offsets_is_refused)
{
	_cleanup_buf_ struct buf b = {0};

	sample_encode(&b);
	for (size_t i = 0; i < 24 + 4 * SAMPLE_COUNT; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(open_it(&b), -EFSCORRUPTED);
			b.data[i] ^= (uint8_t)(1 << bit);
		}
	}
	assert_ok(open_it(&b));
}

/* Where entry i begins. */
static uint8_t *entry(struct buf *b, uint32_t i)
{
	return b->data + bytes_load_u32(b->data + 24 + (size_t)i * 4);
}

/* Sets one byte of entry i, opens, sets it back. */
static int open_changed(struct buf *b, uint32_t i, size_t at, uint8_t value)
{
	uint8_t *p = entry(b, i) + at;
	uint8_t old = *p;
	int r;

	*p = value;
	r = open_it(b);
	*p = old;
	return r;
}

TEST(wrong_fields_of_an_entry_are_refused)
{
	_cleanup_buf_ struct buf b = {0};

	sample_encode(&b);
	/* start: of the first, of one in the middle, of the last */
	assert_int_equal(open_changed(&b, 0, 0, 0), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 0, 0, 2), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 3, 0, 15), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 7, 7, 1), -EFSCORRUPTED);
	/* nanoseconds, mode bits, type, unknown flag */
	assert_int_equal(open_changed(&b, 0, 27, 0x7f), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 0, 30, 1), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 0, 29, 0xc1), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 0, 44, 8), -EFSCORRUPTED);
	/* what may be anything */
	assert_ok(open_changed(&b, 0, 8, 99));
	assert_ok(open_changed(&b, 0, 32, 99));
	assert_ok(open_changed(&b, 0, 36, 99));
}

TEST(an_optional_field_that_is_null_is_refused)
{
	_cleanup_buf_ struct buf b = {0};
	const uint32_t big = 0;
	const uint32_t device = 1;

	sample_encode(&b);
	/* big: 45 fixed, content, xattrs; device: 45 fixed, rdev */
	memset(entry(&b, big) + 45 + OID_BYTES, 0, OID_BYTES);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
	buf_clear(&b);
	sample_encode(&b);
	memset(entry(&b, device) + 45, 0, 8);
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
}

TEST(illegal_and_unsorted_names_are_refused)
{
	_cleanup_buf_ struct buf b = {0};
	uint8_t *name;

	sample_encode(&b);
	/* "empty" (no optional field) sorts between "dir" and "fifo" */
	name = entry(&b, 3) + 45;
	assert_memory_equal(name, "empty", 5);
	assert_int_equal(open_changed(&b, 3, 45, 'z'), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 3, 45, 'a'), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 3, 47, '/'), -EFSCORRUPTED);
	assert_int_equal(open_changed(&b, 3, 47, 0), -EFSCORRUPTED);
	assert_ok(open_changed(&b, 3, 47, 'q'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(every_field_of_every_type_comes_back),
		RUN(starts_are_preorder_positions),
		RUN(names_are_found_and_others_are_not),
		RUN(every_position_belongs_to_the_entry_above_it),
		RUN(the_bytes_of_a_small_tree_are_pinned),
		RUN(the_name_of_the_sample_is_pinned),
		RUN(an_empty_tree_has_nothing),
		RUN(every_other_length_is_refused),
		RUN(every_changed_byte_of_header_and_offsets_is_refused),
		RUN(wrong_fields_of_an_entry_are_refused),
		RUN(an_optional_field_that_is_null_is_refused),
		RUN(illegal_and_unsorted_names_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
