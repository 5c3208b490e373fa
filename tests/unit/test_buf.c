/* SPDX-License-Identifier: MIT */
/*
 * Tests of base/buf.h. "No memory" is played with sizes that cannot exist.
 */
#include "test.h"

#include "base/buf.h"

#include <errno.h>

TEST(a_zeroed_buffer_is_empty_and_usable)
{
	_cleanup_buf_ struct buf b = {0};

	assert_ok(buf_error(&b));
	buf_put(&b, "abc", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "abc", 3);
}

TEST(puts_are_little_endian_and_in_order)
{
	static const uint8_t want[] = {1,  3,  2,  7,  6,  5, 4, 15,
				       14, 13, 12, 11, 10, 9, 8};
	_cleanup_buf_ struct buf b = {0};

	buf_put_u8(&b, 1);
	buf_put_u16(&b, 0x0203);
	buf_put_u32(&b, 0x04050607);
	buf_put_u64(&b, UINT64_C(0x08090a0b0c0d0e0f));
	assert_ok(buf_error(&b));
	assert_int_equal(b.len, sizeof want);
	assert_memory_equal(b.data, want, sizeof want);
}

TEST(a_block_is_its_length_and_its_bytes)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put_block(&b, "xy", 2);
	buf_put_block(&b, NULL, 0);
	assert_int_equal(b.len, 10);
	assert_memory_equal(b.data, "\2\0\0\0xy\0\0\0\0", 10);
}

TEST(content_survives_growth)
{
	_cleanup_buf_ struct buf b = {0};

	for (uint32_t i = 0; i < 100000; i++)
		buf_put_u32(&b, i);
	assert_ok(buf_error(&b));
	for (uint32_t i = 0; i < 100000; i++)
		assert_memory_equal(b.data + (size_t)i * 4, &i, 4);
}

TEST(a_failed_put_makes_later_puts_fail_too)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put_u8(&b, 1);
	buf_put(&b, "x", SIZE_MAX / 2);
	assert_int_equal(buf_error(&b), -ENOMEM);
	buf_put_u8(&b, 2);
	assert_int_equal(b.len, 1);
	assert_int_equal(buf_reserve(&b, 0), -ENOMEM);
	assert_int_equal(buf_resize(&b, 0), -ENOMEM);
	assert_null(buf_str(&b));
}

TEST(a_block_longer_than_its_length_field_fails)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put_block(&b, "x", (size_t)UINT32_MAX + 1);
	assert_int_equal(buf_error(&b), -ENOMEM);
	assert_int_equal(b.len, 0);
}

TEST(reserve_fails_without_harm_when_there_is_no_memory)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put(&b, "abc", 3);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(buf_reserve(&b, SIZE_MAX / 2 - 3), -ENOMEM);
	assert_ok(buf_error(&b));
	assert_memory_equal(b.data, "abc", 3);
}

TEST(reserve_makes_room_and_keeps_the_length)
{
	_cleanup_buf_ struct buf b = {0};
	const uint8_t *data;

	assert_ok(buf_reserve(&b, 1000));
	assert_int_equal(b.len, 0);
	data = b.data;
	for (int i = 0; i < 1000; i++)
		buf_put_u8(&b, 7);
	assert_ptr_equal(b.data, data);
}

TEST(clear_forgets_the_content_keeps_the_memory_and_ends_the_error)
{
	_cleanup_buf_ struct buf b = {0};
	const uint8_t *data;

	buf_put(&b, "abc", 3);
	data = b.data;
	buf_put(&b, "x", SIZE_MAX / 2);
	buf_clear(&b);
	assert_ok(buf_error(&b));
	assert_int_equal(b.len, 0);
	buf_put(&b, "d", 1);
	assert_ptr_equal(b.data, data);
}

TEST(fini_leaves_an_empty_usable_buffer)
{
	struct buf b = {0};

	buf_put(&b, "abc", 3);
	buf_fini(&b);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	buf_put(&b, "d", 1);
	assert_int_equal(b.len, 1);
	buf_fini(&b);
	buf_fini(&b);
}

TEST(resize_adds_zeros_and_cuts)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put(&b, "abcdef", 6);
	assert_ok(buf_resize(&b, 2));
	assert_ok(buf_resize(&b, 5));
	assert_int_equal(b.len, 5);
	assert_memory_equal(b.data, "ab\0\0\0", 5);
	assert_int_equal(buf_resize(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(b.len, 5);
}

TEST(printf_appends_text_of_any_length_without_its_nul)
{
	_cleanup_buf_ struct buf b = {0};
	char wide[5000];

	memset(wide, 'w', sizeof wide);
	buf_printf(&b, "%d-%s;", 42, "x");
	assert_int_equal(b.len, 5);
	buf_printf(&b, "%.*s", (int)sizeof wide, wide);
	assert_ok(buf_error(&b));
	assert_int_equal(b.len, 5 + sizeof wide);
	assert_memory_equal(b.data, "42-x;ww", 7);
	buf_printf(&b, "%s", "");
	assert_int_equal(b.len, 5 + sizeof wide);
}

TEST(printf_that_just_fills_the_room_is_whole)
{
	for (size_t n = 60; n < 70; n++) {
		_cleanup_buf_ struct buf b = {0};

		buf_printf(&b, "%0*d", (int)n, 1);
		assert_int_equal(b.len, n);
		assert_int_equal(b.data[n - 1], '1');
	}
}

TEST(str_ends_in_a_nul_that_is_not_counted)
{
	_cleanup_buf_ struct buf b = {0};

	assert_string_equal(buf_str(&b), "");
	buf_put(&b, "abc", 3);
	assert_string_equal(buf_str(&b), "abc");
	assert_int_equal(b.len, 3);
	while (b.len < b.cap)
		buf_put(&b, "z", 1);
	assert_int_equal(strlen(buf_str(&b)), b.len);
}

TEST(a_list_has_the_strings_that_were_put_with_their_nul)
{
	_cleanup_buf_ struct buf b = {0};

	assert_false(buf_has(&b, ""));
	buf_put(&b, "one", 4);
	buf_put(&b, "two", 4);
	assert_true(buf_has(&b, "one") && buf_has(&b, "two"));
	assert_false(buf_has(&b, "on") || buf_has(&b, "ne") ||
		     buf_has(&b, "oneX") || buf_has(&b, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(a_zeroed_buffer_is_empty_and_usable),
		RUN(puts_are_little_endian_and_in_order),
		RUN(a_block_is_its_length_and_its_bytes),
		RUN(content_survives_growth),
		RUN(a_failed_put_makes_later_puts_fail_too),
		RUN(a_block_longer_than_its_length_field_fails),
		RUN(reserve_fails_without_harm_when_there_is_no_memory),
		RUN(reserve_makes_room_and_keeps_the_length),
		RUN(clear_forgets_the_content_keeps_the_memory_and_ends_the_error),
		RUN(fini_leaves_an_empty_usable_buffer),
		RUN(resize_adds_zeros_and_cuts),
		RUN(printf_appends_text_of_any_length_without_its_nul),
		RUN(printf_that_just_fills_the_room_is_whole),
		RUN(str_ends_in_a_nul_that_is_not_counted),
		RUN(a_list_has_the_strings_that_were_put_with_their_nul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
