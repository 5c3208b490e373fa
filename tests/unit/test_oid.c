/* SPDX-License-Identifier: MIT */
/*
 * Tests of object/oid.h. Names like the pinned ones are in every store, so they
 * may never change; that of no bytes is also xxHash's published one.
 */
#include "test.h"

#include "object/format.h"
#include "object/oid.h"

#include <errno.h>

static void expect_hex(struct oid id, const char *want)
{
	char hex[OID_HEX + 1];

	oid_to_hex(&id, hex);
	assert_string_equal(hex, want);
}

TEST(names_are_pinned)
{
	expect_hex(oid_of(OID_BLOB, "", 0), "99aa06d3014798d86001c324468d497f"
					    "000000000000"
					    "0100");
	expect_hex(oid_of(OID_BLOB, NULL, 0), "99aa06d3014798d86001c324468d497f"
					      "000000000000"
					      "0100");
	expect_hex(oid_of(OID_TREE, "hello\n", 6),
		   "6bba86c7e069f56d5a10b435f1c8e49c"
		   "060000000000"
		   "0300");
}

TEST(a_name_tells_kind_length_and_counter)
{
	struct oid id = oid_of(OID_MANIFEST, "abc", 3);

	assert_int_equal(oid_kind(&id), OID_MANIFEST);
	assert_int_equal(oid_length(&id), 3);
	assert_int_equal(oid_counter(&id), 0);
	assert_true(oid_is_valid(&id));
}

TEST(length_kind_and_bytes_each_make_another_name)
{
	struct oid a = oid_of(OID_BLOB, "abc", 3);
	struct oid b = oid_of(OID_TREE, "abc", 3);
	struct oid c = oid_of(OID_BLOB, "abc\0", 4);
	struct oid d = oid_of(OID_BLOB, "abd", 3);

	assert_false(oid_equal(&a, &b));
	assert_false(oid_equal(&a, &c));
	assert_false(oid_equal(&a, &d));
}

TEST(another_counter_changes_nothing_but_the_counter)
{
	struct oid a = oid_of(OID_BLOB, "abc", 3);
	struct oid b = oid_with_counter(a, 255);

	assert_int_equal(oid_counter(&b), 255);
	assert_false(oid_equal(&a, &b));
	assert_memory_equal(a.b, b.b, OID_BYTES - 1);
	b = oid_with_counter(b, 0);
	assert_true(oid_equal(&a, &b));
	assert_true(oid_is_valid(&b));
}

TEST(only_24_zero_bytes_are_the_null_name)
{
	struct oid id = {0};

	assert_true(oid_is_null(&id));
	assert_int_equal(oid_kind(&id), OID_NONE);
	for (size_t i = 0; i < OID_BYTES; i++) {
		id.b[i] = 1;
		assert_false(oid_is_null(&id));
		id.b[i] = 0;
	}
}

TEST(order_is_that_of_the_bytes)
{
	struct oid a = {.b = {1, 2}};
	struct oid b = {.b = {1, 3}};
	struct oid c = {.b = {0xff}};

	assert_true(oid_compare(&a, &b) < 0);
	assert_true(oid_compare(&c, &b) > 0);
	assert_int_equal(oid_compare(&a, &a), 0);
}

TEST(the_hash_for_maps_depends_on_the_bytes_only)
{
	struct oid a = oid_of(OID_BLOB, "abc", 3);
	struct oid b = oid_of(OID_BLOB, "abd", 3);

	assert_true(oid_hash(&a) == oid_hash(&a));
	assert_true(oid_hash(&a) != oid_hash(&b));
}

TEST(text_comes_back_as_the_same_name)
{
	struct oid id = oid_with_counter(oid_of(OID_SNAP, "abc", 3), 0xab);
	struct oid back;
	char hex[OID_HEX + 1];

	oid_to_hex(&id, hex);
	assert_int_equal(strlen(hex), OID_HEX);
	assert_ok(oid_from_hex(hex, &back));
	assert_true(oid_equal(&id, &back));
}

TEST(text_that_is_no_name_is_refused)
{
	struct oid id = oid_of(OID_BLOB, "abcdef", 6);
	struct oid null = {0};
	struct oid back;
	char hex[OID_HEX + 2];
	char bad[OID_HEX + 2];

	oid_to_hex(&id, hex);
	hex[OID_HEX + 1] = '\0';
	for (size_t i = 0; i < OID_HEX; i++) {
		memcpy(bad, hex, sizeof bad);
		bad[i] = '\0';
		assert_int_equal(oid_from_hex(bad, &back), -EINVAL);
		bad[i] = 'g';
		assert_int_equal(oid_from_hex(bad, &back), -EINVAL);
		bad[i] = 'A';
		assert_int_equal(oid_from_hex(bad, &back), -EINVAL);
	}
	hex[OID_HEX] = '0';
	assert_int_equal(oid_from_hex(hex, &back), -EINVAL);
	oid_to_hex(&null, hex);
	assert_int_equal(oid_from_hex(hex, &back), -EINVAL);
}

TEST(impossible_bytes_are_no_name)
{
	struct oid id = oid_of(OID_BLOB, "abc", 3);
	struct oid null = {0};

	assert_false(oid_is_valid(&null));
	id.b[22] = OID_KIND_END;
	assert_false(oid_is_valid(&id));
	id.b[22] = OID_NONE;
	assert_false(oid_is_valid(&id));
	id = oid_of(OID_BLOB, "abc", 3);
	memcpy(id.b + 16, "\0\0\0\x40\0\0", 6); /* FORMAT_MAX_OBJECT */
	assert_true(oid_is_valid(&id));
	memcpy(id.b + 16, "\1\0\0\x40\0\0", 6);
	assert_false(oid_is_valid(&id));
	assert_true(oid_length(&id) == FORMAT_MAX_OBJECT + UINT64_C(1));
}

TEST(checksums_are_pinned_and_depend_on_seed_and_bytes)
{
	assert_true(oid_checksum("", 0, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(oid_checksum(NULL, 0, 0) == oid_checksum("", 0, 0));
	assert_true(oid_checksum("abc", 3, 0) != oid_checksum("abc", 3, 1));
	assert_true(oid_checksum("abc", 3, 0) != oid_checksum("abd", 3, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(names_are_pinned),
		RUN(a_name_tells_kind_length_and_counter),
		RUN(length_kind_and_bytes_each_make_another_name),
		RUN(another_counter_changes_nothing_but_the_counter),
		RUN(only_24_zero_bytes_are_the_null_name),
		RUN(order_is_that_of_the_bytes),
		RUN(the_hash_for_maps_depends_on_the_bytes_only),
		RUN(text_comes_back_as_the_same_name),
		RUN(text_that_is_no_name_is_refused),
		RUN(impossible_bytes_are_no_name),
		RUN(checksums_are_pinned_and_depend_on_seed_and_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
