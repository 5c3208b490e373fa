/* SPDX-License-Identifier: MIT */
/* Tests of base/bytes.h. */
#include "test.h"

#include "base/buf.h"
#include "base/bytes.h"

TEST(values_come_back_as_they_were_put)
{
	_cleanup_buf_ struct buf b = {0};
	struct bytes r;
	size_t len;

	buf_put_u8(&b, 0xfe);
	buf_put_u16(&b, 0xfedc);
	buf_put_u32(&b, 0xfedcba98);
	buf_put_u64(&b, UINT64_C(0xfedcba9876543210));
	buf_put_block(&b, "abc", 3);
	r = bytes_of(b.data, b.len);
	assert_int_equal(bytes_u8(&r), 0xfe);
	assert_int_equal(bytes_u16(&r), 0xfedc);
	assert_int_equal(bytes_u32(&r), 0xfedcba98);
	assert_true(bytes_u64(&r) == UINT64_C(0xfedcba9876543210));
	assert_memory_equal(bytes_block(&r, 3, &len), "abc", 3);
	assert_int_equal(len, 3);
	assert_false(r.bad);
	assert_int_equal(r.left, 0);
}

TEST(a_short_read_returns_zero_and_the_reader_stays_bad)
{
	struct bytes r = bytes_of("\1\2\3", 3);

	assert_int_equal(bytes_u32(&r), 0);
	assert_true(r.bad);
	assert_int_equal(bytes_u8(&r), 0);
	assert_null(bytes_take(&r, 0));
	assert_true(r.bad);
}

TEST(taking_everything_is_no_short_read)
{
	struct bytes r = bytes_of("abc", 3);

	assert_memory_equal(bytes_take(&r, 3), "abc", 3);
	assert_non_null(bytes_take(&r, 0));
	assert_false(r.bad);
	assert_null(bytes_take(&r, 1));
	assert_true(r.bad);
}

TEST(a_block_above_its_bound_is_refused)
{
	struct bytes r = bytes_of("\3\0\0\0abc", 7);
	size_t len = 9;

	assert_null(bytes_block(&r, 2, &len));
	assert_true(r.bad);
	assert_int_equal(len, 0);
}

TEST(a_block_longer_than_the_bytes_is_refused)
{
	struct bytes r = bytes_of("\4\0\0\0abc", 7);
	size_t len = 9;

	assert_null(bytes_block(&r, 100, &len));
	assert_true(r.bad);
	assert_int_equal(len, 0);
}

TEST(loads_and_stores_need_no_alignment)
{
	uint8_t raw[16] = {0};

	bytes_store_u64(raw + 1, UINT64_C(0x0102030405060708));
	assert_true(bytes_load_u64(raw + 1) == UINT64_C(0x0102030405060708));
	assert_int_equal(raw[1], 8);
	bytes_store_u32(raw + 9, 0x0a0b0c0d);
	assert_int_equal(bytes_load_u32(raw + 9), 0x0a0b0c0d);
	assert_int_equal(bytes_load_u16(raw + 9), 0x0c0d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(values_come_back_as_they_were_put),
		RUN(a_short_read_returns_zero_and_the_reader_stays_bad),
		RUN(taking_everything_is_no_short_read),
		RUN(a_block_above_its_bound_is_refused),
		RUN(a_block_longer_than_the_bytes_is_refused),
		RUN(loads_and_stores_need_no_alignment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
