/* SPDX-License-Identifier: MIT */
/*
 * Tests of object/tree.h: building. Whatever the builder takes must open; what
 * it refuses must leave it as it was.
 */
#include "test.h"

#include "tree_sample.h"

#include <errno.h>

/* Adds one entry to a new builder; when it is taken, the tree must open. */
static int add_alone(const struct tree_entry *e)
{
	_cleanup_buf_ struct buf out = {0};
	struct tree_builder b = {0};
	struct tree t;
	int r = tree_builder_add(&b, e);

	assert_int_equal(b.count, r == 0);
	assert_ok(tree_builder_finish(&b, &out));
	assert_ok(tree_open(out.data, out.len, &t));
	tree_builder_fini(&b);
	return r;
}

TEST(a_finished_builder_is_empty_again)
{
	_cleanup_buf_ struct buf one = {0};
	_cleanup_buf_ struct buf two = {0};
	struct tree_entry e = sample_file("a");
	struct tree_builder b = {0};

	assert_ok(tree_builder_add(&b, &e));
	assert_ok(tree_builder_finish(&b, &one));
	assert_ok(tree_builder_add(&b, &e));
	assert_ok(tree_builder_finish(&b, &two));
	tree_builder_fini(&b);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
}

TEST(the_tree_is_appended_to_the_buffer)
{
	_cleanup_buf_ struct buf out = {0};
	struct tree_builder b = {0};
	struct tree t;

	buf_put(&out, "head", 4);
	assert_ok(tree_builder_finish(&b, &out));
	assert_memory_equal(out.data, "head", 4);
	assert_ok(tree_open(out.data + 4, out.len - 4, &t));
	tree_builder_fini(&b);
}

TEST(names_must_ascend_by_bytes_shorter_first)
{
	static const char *const order[] = {"B", "a", "a.", "a0", "aa", "\xff"};
	struct tree_builder b = {0};
	struct tree_entry e;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		e = sample_file(order[i]);
		assert_ok(tree_builder_add(&b, &e));
		assert_int_equal(tree_builder_add(&b, &e), -EINVAL);
		e = sample_file("A");
		assert_int_equal(tree_builder_add(&b, &e), -EINVAL);
	}
	assert_int_equal(b.count, ARRAY_SIZE(order));
	tree_builder_fini(&b);
}

TEST(names_that_are_no_components_are_refused)
{
	static const char *const bad[] = {"", ".", "..", "a/b"};
	struct tree_entry e;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		e = sample_file(bad[i]);
		assert_int_equal(add_alone(&e), -EINVAL);
	}
	e = sample_file("ab");
	assert_ok(add_alone(&e));
	e.name = "a\0";
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(content_of_a_file_must_fit_its_size)
{
	const size_t chunk = FORMAT_CHUNK_BYTES;
	struct tree_entry e = sample_file("f");

	assert_ok(add_alone(&e));
	e.content = sample_oid(OID_BLOB, 0);
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = 5;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.content = sample_oid(OID_BLOB, 5);
	assert_ok(add_alone(&e));
	e.content = sample_oid(OID_TREE, 5);
	assert_int_equal(add_alone(&e), -EINVAL);
	e.content = (struct oid){0};
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = chunk + 1;
	e.content = sample_oid(OID_MANIFEST, 16 + 2 * OID_BYTES);
	assert_ok(add_alone(&e));
	e.size = chunk;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = 2 * chunk + 1;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = FORMAT_MAX_FILE + 1;
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(a_directory_has_a_tree_and_no_more_subdirectories_than_inodes)
{
	struct tree_entry e = sample_file("d");

	e.mode = S_IFDIR | 0755;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.content = sample_oid(OID_TREE, 24);
	assert_ok(add_alone(&e));
	e.below = 1;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.content = sample_oid(OID_TREE, 74);
	assert_ok(add_alone(&e));
	e.size = 1;
	assert_ok(add_alone(&e));
	e.size = 2;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = 0;
	e.below = 0;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.below = 1;
	e.content = sample_oid(OID_BLOB, 74);
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(a_symlink_has_a_target_of_its_size)
{
	char target[FORMAT_MAX_TARGET + 1];
	struct tree_entry e = sample_file("l");

	memset(target, 't', sizeof target);
	e.mode = S_IFLNK | 0777;
	e.target = target;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = e.target_len = FORMAT_MAX_TARGET;
	assert_ok(add_alone(&e));
	e.size--;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = e.target_len = FORMAT_MAX_TARGET + 1;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.size = e.target_len = 2;
	target[1] = '\0';
	assert_int_equal(add_alone(&e), -EINVAL);
	target[1] = 't';
	e.content = sample_oid(OID_BLOB, 2);
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(only_devices_have_a_device_number)
{
	static const uint32_t types[] = {S_IFCHR, S_IFBLK};
	struct tree_entry e = sample_file("x");

	e.rdev = makedev(8, 1);
	assert_int_equal(add_alone(&e), -EINVAL);
	e.mode = S_IFIFO | 0600;
	assert_int_equal(add_alone(&e), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		e.mode = types[i] | 0600;
		e.rdev = makedev(8, 1);
		assert_ok(add_alone(&e));
		e.rdev = 0;
		assert_ok(add_alone(&e));
		e.size = 1;
		assert_int_equal(add_alone(&e), -EINVAL);
		e.size = 0;
	}
}

TEST(only_directories_have_inodes_below_and_only_symlinks_targets)
{
	struct tree_entry e = sample_file("x");

	e.below = 1;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.below = 0;
	e.target = "t";
	e.target_len = 1;
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(sockets_unknown_types_and_unknown_mode_bits_are_refused)
{
	struct tree_entry e = sample_file("x");

	e.mode = S_IFSOCK | 0600;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.mode = 0600;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.mode = S_IFREG | 0600 | 1U << 16;
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(nanoseconds_and_attribute_sets_are_checked)
{
	struct tree_entry e = sample_file("x");

	e.mtime_nsec = 1000000000;
	assert_int_equal(add_alone(&e), -EINVAL);
	e.mtime_nsec = 0;
	e.mtime_sec = INT64_MIN;
	assert_ok(add_alone(&e));
	e.xattrs = sample_oid(OID_XSET, 15);
	assert_ok(add_alone(&e));
	e.xattrs = sample_oid(OID_XSET, 8);
	assert_int_equal(add_alone(&e), -EINVAL);
	e.xattrs = sample_oid(OID_BLOB, 15);
	assert_int_equal(add_alone(&e), -EINVAL);
}

TEST(more_inodes_than_numbers_are_an_overflow)
{
	struct tree_entry e = sample_file("d");
	struct tree_builder b = {0};

	e.mode = S_IFDIR | 0755;
	e.content = sample_oid(OID_TREE, 74);
	e.below = FORMAT_MAX_INODE - 2;
	assert_ok(tree_builder_add(&b, &e));
	e.name = "e";
	e.below = 1;
	assert_int_equal(tree_builder_add(&b, &e), -EOVERFLOW);
	e = sample_file("e");
	assert_ok(tree_builder_add(&b, &e));
	assert_int_equal(b.total, FORMAT_MAX_INODE);
	e = sample_file("f");
	assert_int_equal(tree_builder_add(&b, &e), -EOVERFLOW);
	tree_builder_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(a_finished_builder_is_empty_again),
		RUN(the_tree_is_appended_to_the_buffer),
		RUN(names_must_ascend_by_bytes_shorter_first),
		RUN(names_that_are_no_components_are_refused),
		RUN(content_of_a_file_must_fit_its_size),
		RUN(a_directory_has_a_tree_and_no_more_subdirectories_than_inodes),
		RUN(a_symlink_has_a_target_of_its_size),
		RUN(only_devices_have_a_device_number),
		RUN(only_directories_have_inodes_below_and_only_symlinks_targets),
		RUN(sockets_unknown_types_and_unknown_mode_bits_are_refused),
		RUN(nanoseconds_and_attribute_sets_are_checked),
		RUN(more_inodes_than_numbers_are_an_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
