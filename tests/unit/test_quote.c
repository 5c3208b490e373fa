/* SPDX-License-Identifier: MIT */
/*
 * Names of any bytes as git's quoting, as UTF-8, as hex, as one line.
 */
#include "test.h"

#include <string.h>

#include "base/quote.h"
#include "cli/path.h"
#include "cli/quote.h"

struct pair {
	const char *in;
	const char *out;
};

static void assert_git(const char *in, size_t n, const char *out)
{
	_cleanup_buf_ struct buf b = {0};

	quote_git(&b, in, n);
	assert_string_equal(buf_str(&b), out);
}

static void plain_names_stay(void **state)
{
	assert_git("", 0, "");
	assert_git("a b/c.d-e_f~", 12, "a b/c.d-e_f~");
	assert_git("'$`*?", 5, "'$`*?");
}

static void git_has_short_and_octal_escapes(void **state)
{
	static const struct pair pairs[] = {
		{"\a\b\t\n\v\f\r", "\"\\a\\b\\t\\n\\v\\f\\r\""},
		{"q\"q", "\"q\\\"q\""},
		{"b\\s", "\"b\\\\s\""},
		{"\001x\033\037", "\"\\001x\\033\\037\""},
		{"\177", "\"\\177\""},
		{"\xc3\xbc", "\"\\303\\274\""},
		{"\xff", "\"\\377\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		assert_git(pairs[i].in, strlen(pairs[i].in), pairs[i].out);
	assert_git("a\0b", 3, "\"a\\000b\"");
}

static bool utf8(const char *in, struct buf *b)
{
	buf_clear(b);
	return quote_utf8(b, in, strlen(in));
}

static void right_utf8_stays(void **state)
{
	static const char *const good[] = {
		"",
		"abc",
		"\xc2\x80",
		"\xc3\xbc",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_true(utf8(good[i], &b));
		assert_string_equal(buf_str(&b), good[i]);
	}
}

static void wrong_bytes_become_replacements(void **state)
{
#define BAD "\xef\xbf\xbd"
	static const struct pair pairs[] = {
		{"\xff", BAD},
		{"a\x80z", "a" BAD "z"},
		{"\xc3", BAD},
		{"\xc3(", BAD "("},
		{"\xc0\xaf", BAD BAD},	       /* not the shortest form */
		{"\xe0\x9f\xbf", BAD BAD BAD}, /* the same */
		{"\xed\xa0\x80", BAD BAD BAD}, /* a surrogate */
		{"\xf0\x8f\xbf\xbf", BAD BAD BAD BAD},
		{"\xf4\x90\x80\x80", BAD BAD BAD BAD}, /* over U+10FFFF */
		{"\xe2\x82", BAD BAD},
	};
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		assert_false(utf8(pairs[i].in, &b));
		assert_string_equal(buf_str(&b), pairs[i].out);
	}
}

static void hex_is_lower_case(void **state)
{
	_cleanup_buf_ struct buf b = {0};

	quote_hex(&b,
		  "\xff\x0a"
		  "A",
		  3);
	assert_string_equal(buf_str(&b), "ff0a41");
}

static void a_line_stays_one(void **state)
{
	_cleanup_buf_ struct buf b = {0};

	quote_line(&b, "a\nb\tc\177\xc3\xbc", 8);
	assert_string_equal(buf_str(&b), "a?b?c?\xc3\xbc");
}

static void assert_absolute(const char *in, bool clean, const char *out)
{
	_cleanup_free_ char *s = NULL;

	assert_int_equal(path_absolute(in, clean, &s), 0);
	assert_string_equal(s, out);
}

static void absolute_paths_are_cleaned(void **state)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);

	assert_non_null(cwd);
	assert_absolute("/", true, "/");
	assert_absolute("//a/./b//", false, "/a/b");
	assert_absolute("/a/../b", false, "/a/../b");
	assert_absolute("/a/../b", true, "/b");
	assert_absolute("/../..", true, "/");
	assert_absolute("/a/b/../../..", true, "/");
	assert_absolute(".", true, cwd);
	assert_absolute("x/..", true, cwd);
}

static void paths_are_told_from_names(void **state)
{
	assert_true(path_is_path("."));
	assert_true(path_is_path(".."));
	assert_true(path_is_path("a/b"));
	assert_true(path_is_path("/"));
	assert_false(path_is_path("..."));
	assert_false(path_is_path("a"));
	assert_false(path_is_path(""));
	assert_string_equal(path_last("/a/b"), "b");
	assert_string_equal(path_last("/"), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names_stay),
		cmocka_unit_test(git_has_short_and_octal_escapes),
		cmocka_unit_test(right_utf8_stays),
		cmocka_unit_test(wrong_bytes_become_replacements),
		cmocka_unit_test(hex_is_lower_case),
		cmocka_unit_test(a_line_stays_one),
		cmocka_unit_test(absolute_paths_are_cleaned),
		cmocka_unit_test(paths_are_told_from_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
