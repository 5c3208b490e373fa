/* SPDX-License-Identifier: MIT */
/* Tests of object/links.h. */
#include "test.h"

#include "base/err.h"
#include "object/format.h"
#include "object/links.h"

struct table {
	struct links_entry e[6];
	size_t n;
};

static const struct table good = {
	.e = {{3, 3, 3}, {5, 5, 2}, {7, 3, 3}, {9, 5, 2}, {11, 3, 3}},
	.n = 5,
};

static void encode(const struct table *t, struct buf *out)
{
	buf_clear(out);
	links_begin(out, t->n);
	for (size_t i = 0; i < t->n; i++)
		links_add(out, &t->e[i]);
	assert_ok(buf_error(out));
}

static int open_table(const struct table *t)
{
	_cleanup_buf_ struct buf b = {0};
	struct links l;

	encode(t, &b);
	return links_open(b.data, b.len, &l);
}

/* Opens the good table with one entry replaced. */
static int open_with(size_t i, struct links_entry e)
{
	struct table t = good;

	t.e[i] = e;
	return open_table(&t);
}

TEST(entries_come_back_by_index)
{
	_cleanup_buf_ struct buf b = {0};
	struct links_entry e;
	struct links l;

	encode(&good, &b);
	assert_ok(links_open(b.data, b.len, &l));
	assert_int_equal(l.count, 5);
	for (size_t i = 0; i < 5; i++) {
		links_at(&l, i, &e);
		assert_int_equal(e.position, good.e[i].position);
		assert_int_equal(e.first, good.e[i].first);
		assert_int_equal(e.count, good.e[i].count);
	}
}

TEST(a_position_with_several_names_is_found_and_others_are_not)
{
	_cleanup_buf_ struct buf b = {0};
	struct links_entry e = {0};
	struct links l;

	encode(&good, &b);
	assert_ok(links_open(b.data, b.len, &l));
	for (uint64_t p = 0; p < 14; p++)
		assert_int_equal(links_find(&l, p, &e),
				 p >= 3 && p <= 11 && p % 2 == 1);
	assert_true(links_find(&l, 9, &e));
	assert_int_equal(e.first, 5);
	assert_int_equal(e.count, 2);
	assert_false(links_find(&l, UINT64_MAX, &e));
}

TEST(an_empty_table_finds_nothing)
{
	_cleanup_buf_ struct buf b = {0};
	struct links_entry e;
	struct links l;

	links_begin(&b, 0);
	assert_ok(links_open(b.data, b.len, &l));
	assert_false(links_find(&l, 1, &e));
}

TEST(the_bytes_are_pinned)
{
	static const struct table t = {.e = {{1, 1, 2}, {2, 1, 2}}, .n = 2};
	_cleanup_buf_ struct buf b = {0};

	encode(&t, &b);
	assert_int_equal(b.len, 56);
	assert_memory_equal(b.data,
			    "CWL1\0\0\0\0\2\0\0\0\0\0\0\0"
			    "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0"
			    "\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0",
			    56);
}

TEST(every_other_length_is_refused)
{
	_cleanup_buf_ struct buf b = {0};
	struct links l;

	encode(&good, &b);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(links_open(b.data, len, &l), -EFSCORRUPTED);
	buf_put_u8(&b, 0);
	assert_int_equal(links_open(b.data, b.len, &l), -EFSCORRUPTED);
}

TEST(magic_and_reserved_bytes_must_fit)
{
	_cleanup_buf_ struct buf b = {0};
	struct links l;

	encode(&good, &b);
	for (size_t i = 0; i < 16; i++) {
		b.data[i] ^= 1;
		assert_int_equal(links_open(b.data, b.len, &l), -EFSCORRUPTED);
		b.data[i] ^= 1;
	}
}

TEST(positions_ascend_between_1_and_the_largest_inode)
{
	struct links_entry same = {5, 3, 3};
	struct table zero = {.e = {{0, 0, 2}, {1, 0, 2}}, .n = 2};
	struct table top = {.e = {{1, 1, 2}, {FORMAT_MAX_INODE, 1, 2}}, .n = 2};

	assert_int_equal(open_with(2, same), -EFSCORRUPTED);
	same.position = 4;
	assert_int_equal(open_with(2, same), -EFSCORRUPTED);
	assert_int_equal(open_table(&zero), -EFSCORRUPTED);
	assert_ok(open_table(&top));
	top.e[1].position++;
	assert_int_equal(open_table(&top), -EFSCORRUPTED);
}

TEST(the_first_of_a_group_is_in_the_table_and_its_own_first)
{
	/* absent; a later one; a member of another group */
	assert_int_equal(open_with(4, (struct links_entry){11, 4, 3}),
			 -EFSCORRUPTED);
	assert_int_equal(open_with(0, (struct links_entry){3, 7, 3}),
			 -EFSCORRUPTED);
	assert_int_equal(open_with(4, (struct links_entry){11, 7, 3}),
			 -EFSCORRUPTED);
}

TEST(a_count_is_the_number_of_members_and_at_least_2)
{
	struct table one = {.e = {{4, 4, 1}}, .n = 1};
	struct table none = {.e = {{4, 4, 0}}, .n = 1};
	struct table few = good;
	/* Counts that agree in sum but not by group: 3 + 1 as 2 + 2. */
	struct table sum = {.e = {{1, 1, 2}, {2, 2, 2}, {3, 1, 2}, {4, 1, 2}},
			    .n = 4};

	assert_int_equal(open_table(&one), -EFSCORRUPTED);
	assert_int_equal(open_table(&none), -EFSCORRUPTED);
	assert_int_equal(open_table(&sum), -EFSCORRUPTED);
	few.n = 4;
	assert_int_equal(open_table(&few), -EFSCORRUPTED);
	assert_int_equal(open_with(2, (struct links_entry){7, 3, 2}),
			 -EFSCORRUPTED);
	assert_ok(open_table(&good));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(entries_come_back_by_index),
		RUN(a_position_with_several_names_is_found_and_others_are_not),
		RUN(an_empty_table_finds_nothing),
		RUN(the_bytes_are_pinned),
		RUN(every_other_length_is_refused),
		RUN(magic_and_reserved_bytes_must_fit),
		RUN(positions_ascend_between_1_and_the_largest_inode),
		RUN(the_first_of_a_group_is_in_the_table_and_its_own_first),
		RUN(a_count_is_the_number_of_members_and_at_least_2),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
