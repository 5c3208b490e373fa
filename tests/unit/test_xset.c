/* SPDX-License-Identifier: MIT */
/* Tests of object/xset.h. */
#include "test.h"

#include "base/err.h"
#include "object/format.h"
#include "object/xset.h"

#define PAIR(n, v)                                                             \
	{                                                                      \
		.name = (n), .name_len = sizeof(n) - 1,                        \
		.value = (const uint8_t *)(v), .value_len = sizeof(v) - 1      \
	}

static void encode(struct buf *out)
{
	struct xset_pair pairs[] = {PAIR("user.b", "2"), PAIR("user.a", ""),
				    PAIR("user", "x\0y")};

	assert_ok(xset_encode(pairs, ARRAY_SIZE(pairs), out));
}

static int open_it(const struct buf *b)
{
	struct xset s;

	return xset_open(b->data, b->len, &s);
}

TEST(pairs_come_back_sorted_by_name)
{
	_cleanup_buf_ struct buf b = {0};
	struct xset_pair p;
	struct xset s;

	encode(&b);
	assert_ok(xset_open(b.data, b.len, &s));
	assert_true(xset_next(&s, &p));
	assert_int_equal(p.name_len, 4);
	assert_memory_equal(p.name, "user", 4);
	assert_int_equal(p.value_len, 3);
	assert_memory_equal(p.value, "x\0y", 3);
	assert_true(xset_next(&s, &p));
	assert_memory_equal(p.name, "user.a", 6);
	assert_int_equal(p.value_len, 0);
	assert_true(xset_next(&s, &p));
	assert_memory_equal(p.name, "user.b", 6);
	assert_memory_equal(p.value, "2", 1);
	assert_false(xset_next(&s, &p));
	assert_false(xset_next(&s, &p));
}

TEST(the_bytes_are_pinned_and_do_not_depend_on_the_order_given)
{
	static const char want[] = "CWX1\2\0\0\0"
				   "\1\0\2\0\0\0avv"
				   "\1\0\0\0\0\0b";
	_cleanup_buf_ struct buf b = {0};
	struct xset_pair one[] = {PAIR("b", ""), PAIR("a", "vv")};
	struct xset_pair two[] = {PAIR("a", "vv"), PAIR("b", "")};

	assert_ok(xset_encode(one, 2, &b));
	assert_int_equal(b.len, sizeof want - 1);
	assert_memory_equal(b.data, want, sizeof want - 1);
	buf_clear(&b);
	assert_ok(xset_encode(two, 2, &b));
	assert_memory_equal(b.data, want, sizeof want - 1);
}

TEST(a_name_twice_is_refused)
{
	_cleanup_buf_ struct buf b = {0};
	struct xset_pair pairs[] = {PAIR("a", "1"), PAIR("b", ""),
				    PAIR("a", "2")};

	assert_int_equal(xset_encode(pairs, 3, &b), -EINVAL);
	assert_int_equal(b.len, 0);
}

TEST(bounds_of_names_and_values_are_kept)
{
	static uint8_t value[FORMAT_MAX_XATTR_VALUE + 1];
	char name[FORMAT_MAX_XATTR_NAME + 1];
	struct xset_pair p = {.name = name,
			      .name_len = FORMAT_MAX_XATTR_NAME,
			      .value = value,
			      .value_len = FORMAT_MAX_XATTR_VALUE};
	_cleanup_buf_ struct buf b = {0};

	memset(name, 'n', sizeof name);
	assert_ok(xset_encode(&p, 1, &b));
	assert_ok(open_it(&b));
	p.value_len++;
	assert_int_equal(xset_encode(&p, 1, &b), -EINVAL);
	p.value_len = 0;
	p.name_len++;
	assert_int_equal(xset_encode(&p, 1, &b), -EINVAL);
	p.name_len = 0;
	assert_int_equal(xset_encode(&p, 1, &b), -EINVAL);
	p.name_len = 3;
	name[1] = '\0';
	assert_int_equal(xset_encode(&p, 1, &b), -EINVAL);
}

TEST(a_set_above_its_total_bound_is_refused)
{
	enum { PAIRS = 17 };
	static uint8_t value[FORMAT_MAX_XATTR_VALUE];
	static char names[PAIRS][1];
	struct xset_pair p[PAIRS];
	_cleanup_buf_ struct buf b = {0};

	for (int i = 0; i < PAIRS; i++) {
		names[i][0] = (char)('a' + i);
		p[i] = (struct xset_pair){names[i], 1, value, sizeof value};
	}
	assert_int_equal(xset_encode(p, PAIRS, &b), -EINVAL);
	assert_int_equal(xset_encode(p, 16, &b), -EINVAL);
	assert_ok(xset_encode(p, 15, &b));
	assert_ok(open_it(&b));
	/* The reader has the same bound. */
	assert_ok(buf_resize(&b, FORMAT_MAX_XATTRS_BYTES + 1));
	assert_int_equal(open_it(&b), -EFSCORRUPTED);
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

TEST(magic_count_and_name_lengths_must_fit)
{
	_cleanup_buf_ struct buf b = {0};

	encode(&b);
	for (size_t i = 0; i < 10; i++) {
		b.data[i] ^= 0x80;
		assert_int_equal(open_it(&b), -EFSCORRUPTED);
		b.data[i] ^= 0x80;
	}
	assert_ok(open_it(&b));
}

TEST(names_out_of_order_or_twice_or_with_nul_are_refused)
{
	static const char *const bad[] = {
		"CWX1\2\0\0\0\1\0\0\0\0\0b\1\0\0\0\0\0a",
		"CWX1\2\0\0\0\1\0\0\0\0\0a\1\0\0\0\0\0a",
		"CWX1\2\0\0\0\1\0\0\0\0\0\0\1\0\0\0\0\0a",
	};
	struct xset s;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(xset_open(bad[i], 22, &s), -EFSCORRUPTED);
	assert_ok(xset_open("CWX1\2\0\0\0\1\0\0\0\0\0a\1\0\0\0\0\0b", 22, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(pairs_come_back_sorted_by_name),
		RUN(the_bytes_are_pinned_and_do_not_depend_on_the_order_given),
		RUN(a_name_twice_is_refused),
		RUN(bounds_of_names_and_values_are_kept),
		RUN(a_set_above_its_total_bound_is_refused),
		RUN(every_other_length_is_refused),
		RUN(magic_count_and_name_lengths_must_fit),
		RUN(names_out_of_order_or_twice_or_with_nul_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
