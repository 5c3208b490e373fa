/* SPDX-License-Identifier: MIT */
/* Tests of object/snap.h. */
#include "test.h"

#include "base/err.h"
#include "object/format.h"
#include "object/snap.h"
#include "object/tree.h"

#include <sys/stat.h>

enum { SNAP_BYTES = 116 };

static struct snap sample(void)
{
	static const uint8_t bytes[64];

	return (struct snap){
		.mode = S_IFDIR | 0755,
		.uid = 1000,
		.gid = 100,
		.mtime_sec = -5,
		.mtime_nsec = 999999999,
		.subdirs = 2,
		.total = 77,
		.tree = oid_of(OID_TREE, bytes, 64),
		.xattrs = oid_of(OID_XSET, bytes, 20),
		.links = oid_of(OID_LINKS, bytes, 56),
	};
}

static int decode(const struct snap *s)
{
	_cleanup_buf_ struct buf b = {0};
	struct snap got;

	snap_encode(s, &b);
	assert_ok(buf_error(&b));
	return snap_decode(b.data, b.len, &got);
}

TEST(every_field_comes_back)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_buf_ struct buf again = {0};
	struct snap s = sample();
	struct snap got;

	snap_encode(&s, &b);
	assert_int_equal(b.len, SNAP_BYTES);
	assert_ok(snap_decode(b.data, b.len, &got));
	assert_int_equal(got.mode, s.mode);
	assert_int_equal(got.uid, 1000);
	assert_int_equal(got.gid, 100);
	assert_int_equal(got.mtime_sec, -5);
	assert_int_equal(got.mtime_nsec, 999999999);
	assert_int_equal(got.subdirs, 2);
	assert_int_equal(got.total, 77);
	assert_true(oid_equal(&got.tree, &s.tree));
	assert_true(oid_equal(&got.xattrs, &s.xattrs));
	assert_true(oid_equal(&got.links, &s.links));
	snap_encode(&got, &again);
	assert_memory_equal(again.data, b.data, SNAP_BYTES);
}

TEST(the_first_fields_are_pinned)
{
	_cleanup_buf_ struct buf b = {0};
	struct snap s = sample();

	snap_encode(&s, &b);
	assert_memory_equal(b.data,
			    "CWS1\0\0\0\0\xed\x41\0\0\xe8\3\0\0\x64\0\0\0"
			    "\xff\xc9\x9a\x3b\xfb\xff\xff\xff\xff\xff\xff\xff"
			    "\2\0\0\0\x4d\0\0\0\0\0\0\0",
			    44);
}

TEST(attributes_and_links_may_be_null_but_the_tree_may_not)
{
	struct snap s = sample();

	s.xattrs = s.links = (struct oid){0};
	assert_ok(decode(&s));
	s.tree = (struct oid){0};
	assert_int_equal(decode(&s), -EFSCORRUPTED);
}

TEST(names_of_the_wrong_kind_are_refused)
{
	struct snap s = sample();

	s.tree = s.xattrs;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s = sample();
	s.xattrs = s.tree;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s = sample();
	s.links = s.tree;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
}

TEST(the_root_must_be_a_directory_of_known_mode_bits)
{
	struct snap s = sample();

	s.mode = S_IFREG | 0644;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s.mode = S_IFDIR | 0755 | 1U << 20;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s.mode = S_IFDIR | 07777;
	assert_ok(decode(&s));
}

TEST(numbers_out_of_range_are_refused)
{
	struct snap s = sample();

	s.mtime_nsec = 1000000000;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s = sample();
	s.subdirs = 78;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	s = sample();
	s.total = FORMAT_MAX_INODE;
	assert_ok(decode(&s));
	s.total++;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
}

TEST(an_empty_root_has_the_empty_tree_and_only_it_has)
{
	_cleanup_buf_ struct buf empty = {0};
	struct tree_builder b = {0};
	struct snap s = sample();

	s.total = s.subdirs = 0;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	assert_ok(tree_builder_finish(&b, &empty));
	s.tree = oid_of(OID_TREE, empty.data, empty.len);
	assert_ok(decode(&s));
	s.total = 1;
	assert_int_equal(decode(&s), -EFSCORRUPTED);
	tree_builder_fini(&b);
}

TEST(other_lengths_magics_and_flags_are_refused)
{
	_cleanup_buf_ struct buf b = {0};
	struct snap s = sample();

	snap_encode(&s, &b);
	for (size_t len = 0; len < SNAP_BYTES; len++)
		assert_int_equal(snap_decode(b.data, len, &s), -EFSCORRUPTED);
	for (size_t i = 0; i < 8; i++) {
		b.data[i] ^= 4;
		assert_int_equal(snap_decode(b.data, b.len, &s), -EFSCORRUPTED);
		b.data[i] ^= 4;
	}
	buf_put_u8(&b, 0);
	assert_int_equal(snap_decode(b.data, b.len, &s), -EFSCORRUPTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(every_field_comes_back),
		RUN(the_first_fields_are_pinned),
		RUN(attributes_and_links_may_be_null_but_the_tree_may_not),
		RUN(names_of_the_wrong_kind_are_refused),
		RUN(the_root_must_be_a_directory_of_known_mode_bits),
		RUN(numbers_out_of_range_are_refused),
		RUN(an_empty_root_has_the_empty_tree_and_only_it_has),
		RUN(other_lengths_magics_and_flags_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
