/* SPDX-License-Identifier: MIT */
/*
 * What is taken for a secret, and that it is covered wherever it stands.
 */
#include "test.h"

#include <string.h>

#include "box/mask.h"

TEST(knows_names)
{
	static const char *const secret[] = {"GITHUB_TOKEN",
					     "DB_PASSWORD",
					     "MYSQL_PWD",
					     "API_KEY",
					     "KEY",
					     "private-token",
					     "AWS_SECRET_ACCESS_KEY",
					     "apikey",
					     "Cookie",
					     "NPM_AUTH",
					     "PGPASSWORD",
					     "Authorization",
					     "SSH_PASS"};
	static const char *const other[] = {"PATH",	  "PWD",     "OLDPWD",
					    "KEYMAP",	  "MONKEY",  "AUTHOR",
					    "XAUTHORITY", "PATTERN", "HOME",
					    "",		  "COMPASS", "PINE"};

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (!mask_is_name(secret[i], strlen(secret[i])))
			fail_msg("%s", secret[i]);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		if (mask_is_name(other[i], strlen(other[i])))
			fail_msg("%s", other[i]);
	assert_true(mask_is_name("TOKEN=x", 5));
	assert_false(mask_is_name("AB=TOKEN", 2));
}

static void expect_argument(const struct mask *m, const char *before,
			    const char *text, const char *want)
{
	_cleanup_buf_ struct buf b = {0};

	mask_argument(m, before, text, &b);
	assert_string_equal(buf_str(&b), want);
}

TEST(covers_arguments)
{
	_cleanup_(mask_fini) struct mask m = {0};

	mask_add(&m, "abc");
	mask_add(&m, "xabcx");
	mask_add(&m, "");
	assert_int_equal(m.count, 2);
	expect_argument(&m, NULL, "1abc2xabcx3ab", "1***2***3ab");
	expect_argument(&m, "--token", "secret", "***");
	expect_argument(&m, "--token=x", "open", "open");
	expect_argument(&m, "--key", "2", "2");
	expect_argument(&m, "token", "open", "open");
	expect_argument(&m, NULL, "A_TOKEN=x B=y;PASSWORD='a b' c",
			"A_TOKEN=*** B=y;PASSWORD=*** c");
	expect_argument(&m, NULL, "PASSWORD=", "PASSWORD=");
	expect_argument(&m, NULL, "-H 'Cookie: a; b' u", "-H 'Cookie: ***' u");
	expect_argument(&m, NULL, "x://u:p@h y://h:1/@",
			"x://u:***@h y://h:1/@");
	expect_argument(&m, NULL, "//", "//");
}

TEST(covers_variables_of_length)
{
	static const char *const vars[] = {"A_TOKEN=1234", "B_TOKEN=123",
					   "C=12345",	   "USE_AUTH=true",
					   "D_TOKEN",	   NULL};
	_cleanup_(mask_fini) struct mask m = {0};

	mask_add_vars(&m, (char *const *)vars, 4);
	assert_int_equal(m.count, 1);
	assert_string_equal(m.values[0].text, "1234");
}

TEST(covers_lines_of_a_value)
{
	_cleanup_(mask_fini) struct mask m = {0};
	char text[] = "so: line-two-of-it, end";

	mask_add(&m, "line-one-of-it\nline-two-of-it\nend");
	assert_int_equal(m.count, 3);
	assert_int_equal(mask_bytes(&m, (uint8_t *)text, strlen(text), true),
			 strlen(text));
	assert_string_equal(text, "so: **************, end");
}

/* However a stream is cut into pieces. */
TEST(covers_a_stream_in_pieces)
{
	static const char all[] = "a-secret-b-secsecret-c-sec";
	static const char want[] = "a-******-b-sec******-c-sec";
	_cleanup_(mask_fini) struct mask m = {0};

	mask_add(&m, "secret");
	for (size_t piece = 1; piece < sizeof all; piece++) {
		char got[sizeof all] = "";
		size_t done = 0, len = 0;

		while (done < sizeof all - 1) {
			const size_t n = MIN(piece, sizeof all - 1 - len);

			memcpy(got + len, all + len, n);
			len += n;
			done += mask_bytes(&m, (uint8_t *)got + done,
					   len - done, len == sizeof all - 1);
			assert_null(memmem(got, done, "secret", 6));
		}
		assert_string_equal(got, want);
	}
}

TEST(holds_no_more_than_it_must)
{
	_cleanup_(mask_fini) struct mask m = {0};
	char text[] = "xyz-secre";

	assert_int_equal(mask_bytes(&m, (uint8_t *)text, 9, false), 9);
	mask_add(&m, "secret");
	assert_int_equal(mask_bytes(&m, (uint8_t *)text, 9, false), 4);
	assert_int_equal(mask_bytes(&m, (uint8_t *)text, 8, false), 4);
	assert_int_equal(mask_bytes(&m, (uint8_t *)text, 4, false), 4);
	assert_int_equal(mask_bytes(&m, (uint8_t *)text, 9, true), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(knows_names),
		RUN(covers_arguments),
		RUN(covers_variables_of_length),
		RUN(covers_lines_of_a_value),
		RUN(covers_a_stream_in_pieces),
		RUN(holds_no_more_than_it_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
