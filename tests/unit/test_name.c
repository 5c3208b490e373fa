/* SPDX-License-Identifier: MIT */
/* Tests of base/name.h. */
#include "test.h"

#include "base/name.h"

TEST(a_component_has_1_to_255_bytes)
{
	char long_name[300];

	memset(long_name, 'n', sizeof long_name);
	assert_false(name_is_component("", 0));
	assert_true(name_is_component("a", 1));
	assert_true(name_is_component(long_name, 255));
	assert_false(name_is_component(long_name, 256));
}

TEST(a_component_has_no_slash_and_no_nul)
{
	assert_false(name_is_component("/", 1));
	assert_false(name_is_component("a/b", 3));
	assert_false(name_is_component("a\0b", 3));
	assert_true(name_is_component("a\nb\xff", 4));
}

TEST(dot_and_dot_dot_are_no_components_but_other_dots_are)
{
	assert_false(name_is_component(".", 1));
	assert_false(name_is_component("..", 2));
	assert_true(name_is_component("...", 3));
	assert_true(name_is_component(".a", 2));
	assert_true(name_is_component("..a", 3));
}

TEST(a_label_has_1_to_64_of_its_letters)
{
	char s[70];

	assert_false(name_is_label(""));
	memset(s, 'l', sizeof s);
	s[64] = '\0';
	assert_true(name_is_label(s));
	s[64] = 'l';
	s[65] = '\0';
	assert_false(name_is_label(s));
	assert_true(name_is_label("aZ0._-9"));
	assert_false(name_is_label("a b"));
	assert_false(name_is_label("a:b"));
	assert_false(name_is_label("a/b"));
	assert_false(name_is_label("a\n"));
	assert_false(name_is_label("\xc3\xbc"));
}

TEST(a_label_starts_with_a_letter_digit_or_underscore)
{
	assert_true(name_is_label("a"));
	assert_true(name_is_label("0"));
	assert_true(name_is_label("_"));
	assert_false(name_is_label("-a"));
	assert_false(name_is_label(".a"));
	assert_false(name_is_label(".."));
}

TEST(an_environment_or_its_home)
{
	char s[80];

	assert_true(name_is_env("a"));
	assert_true(name_is_env("a/home"));
	assert_false(name_is_env("/home"));
	assert_false(name_is_env("a/homes"));
	assert_false(name_is_env("a/home/home"));
	assert_false(name_is_env("../home"));
	assert_false(name_is_env("a/"));
	memset(s, 'l', sizeof s);
	memcpy(s + NAME_MAX_LABEL, NAME_HOME, sizeof NAME_HOME);
	assert_int_equal(strlen(s), NAME_MAX_ENV);
	assert_true(name_is_env(s));
	memcpy(s + NAME_MAX_LABEL + 1, NAME_HOME, sizeof NAME_HOME);
	s[NAME_MAX_LABEL] = 'l';
	assert_false(name_is_env(s));
}

TEST(a_path_is_below_what_it_begins_with_by_components)
{
	assert_string_equal(name_below("/a/b", "/a"), "/b");
	assert_string_equal(name_below("/a", "/a"), "");
	assert_string_equal(name_below("/a/b", "/"), "/a/b");
	assert_null(name_below("/ab", "/a"));
	assert_null(name_below("/", "/a"));
	assert_null(name_below("/b/a", "/a"));
	assert_null(name_below("/a", ""));
}

TEST(paths_are_ordered_by_components)
{
	static const char *const v[] = {"",   "a",   "a/b", "a/c",
					"a!", "a-b", "b"};

	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		for (size_t k = 0; k < ARRAY_SIZE(v); k++) {
			int r = name_compare_paths(v[i], v[k]);

			assert_int_equal((r > 0) - (r < 0), (i > k) - (i < k));
		}
}

TEST(the_home_of_an_environment_has_a_name_of_its_kind)
{
	char name[NAME_MAX_ENV + 1], env[NAME_MAX_LABEL + 1];

	name_of_home("e", name);
	assert_string_equal(name, "e" NAME_HOME);
	memset(env, 'l', sizeof env);
	env[NAME_MAX_LABEL] = '\0';
	name_of_home(env, name);
	assert_true(name_is_env(name) && !name_is_label(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(a_component_has_1_to_255_bytes),
		RUN(a_component_has_no_slash_and_no_nul),
		RUN(dot_and_dot_dot_are_no_components_but_other_dots_are),
		RUN(a_label_has_1_to_64_of_its_letters),
		RUN(a_label_starts_with_a_letter_digit_or_underscore),
		RUN(an_environment_or_its_home),
		RUN(a_path_is_below_what_it_begins_with_by_components),
		RUN(paths_are_ordered_by_components),
		RUN(the_home_of_an_environment_has_a_name_of_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
