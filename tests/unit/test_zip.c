/* SPDX-License-Identifier: MIT */
/* Tests of object/zip.h. */
#include "test.h"

#include "base/err.h"
#include "object/zip.h"

enum { SIZE = 100000 };

static uint8_t raw[SIZE];
static uint8_t back[SIZE + 1];

static void fill(uint32_t noise)
{
	uint32_t x = 1;

	for (size_t i = 0; i < SIZE; i++) {
		x = x * 1664525 + 1013904223;
		raw[i] = (uint8_t)(x >> 24 & noise);
	}
}

TEST(bytes_come_back)
{
	static const uint32_t noises[] = {0, 3, 0xff};

	for (size_t i = 0; i < ARRAY_SIZE(noises); i++) {
		_cleanup_buf_ struct buf b = {0};

		fill(noises[i]);
		assert_ok(zip_deflate(raw, SIZE, &b));
		assert_ok(zip_inflate(b.data, b.len, back, SIZE));
		assert_memory_equal(back, raw, SIZE);
	}
}

TEST(deflated_bytes_are_appended_and_shorter)
{
	_cleanup_buf_ struct buf b = {0};

	fill(1);
	buf_put(&b, "head", 4);
	assert_ok(zip_deflate(raw, SIZE, &b));
	assert_memory_equal(b.data, "head", 4);
	assert_true(b.len < SIZE / 4);
	assert_ok(zip_inflate(b.data + 4, b.len - 4, back, SIZE));
	assert_memory_equal(back, raw, SIZE);
}

TEST(no_bytes_come_back_as_none)
{
	_cleanup_buf_ struct buf b = {0};

	assert_ok(zip_deflate("", 0, &b));
	assert_ok(zip_inflate(b.data, b.len, back, 0));
}

TEST(another_raw_size_is_damage)
{
	_cleanup_buf_ struct buf b = {0};

	fill(3);
	assert_ok(zip_deflate(raw, SIZE, &b));
	assert_int_equal(zip_inflate(b.data, b.len, back, SIZE - 1),
			 -EFSCORRUPTED);
	assert_int_equal(zip_inflate(b.data, b.len, back, SIZE + 1),
			 -EFSCORRUPTED);
}

TEST(cut_extended_and_changed_streams_are_damage)
{
	_cleanup_buf_ struct buf b = {0};

	fill(3);
	assert_ok(zip_deflate(raw, SIZE, &b));
	assert_int_equal(zip_inflate(b.data, b.len - 1, back, SIZE),
			 -EFSCORRUPTED);
	assert_int_equal(zip_inflate(b.data, 0, back, SIZE), -EFSCORRUPTED);
	buf_put_u8(&b, 0);
	assert_int_equal(zip_inflate(b.data, b.len, back, SIZE), -EFSCORRUPTED);
	b.len--;
	for (size_t i = 0; i < b.len; i += 97) {
		b.data[i] ^= 0x10;
		assert_int_equal(zip_inflate(b.data, b.len, back, SIZE),
				 -EFSCORRUPTED);
		b.data[i] ^= 0x10;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(bytes_come_back),
		RUN(deflated_bytes_are_appended_and_shorter),
		RUN(no_bytes_come_back_as_none),
		RUN(another_raw_size_is_damage),
		RUN(cut_extended_and_changed_streams_are_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
