/* SPDX-License-Identifier: MIT */
/*
 * Patterns of gitignore(5): expectations were taken from git check-ignore.
 */
#include "test.h"

#include "git/wild_int.h"

struct wild_case {
	const char *pattern;
	const char *text;
	unsigned flags;
	bool fits;
};

static const struct wild_case cases[] = {
	{"a", "a", 0, true},
	{"a", "ab", 0, false},
	{"", "", 0, true},
	{"*", "", 0, true},
	{"*.o", "x.o", 0, true},
	{"*.o", "x.c", 0, false},
	{"a?c", "abc", 0, true},
	{"a?c", "a/c", WILD_PATH, false},
	{"a*c", "a/c", WILD_PATH, false},
	{"a*c", "a/c", 0, true},
	{"a/*", "a/b", WILD_PATH, true},
	{"a/*", "a/b/c", WILD_PATH, false},
	{"**/c", "c", WILD_PATH, true},
	{"**/c", "a/b/c", WILD_PATH, true},
	{"**/c", "a/bc", WILD_PATH, false},
	{"a/**/c", "a/c", WILD_PATH, true},
	{"a/**/c", "a/x/y/c", WILD_PATH, true},
	{"a/**", "a/x/y", WILD_PATH, true},
	{"a/**", "a", WILD_PATH, false},
	{"a**/c", "a/b/c", WILD_PATH, false},
	{"a**c", "abc", WILD_PATH, true},
	{"[ab]", "b", 0, true},
	{"[!ab]", "b", 0, false},
	{"[^ab]", "c", 0, true},
	{"[a-c]x", "bx", 0, true},
	{"[]a]", "]", 0, true},
	{"[a", "[a", 0, false},
	{"[[:alpha:]]", "q", 0, true},
	{"[[:digit:]]", "q", 0, false},
	{"[[:nothing:]]", "q", 0, false},
	{"[/]", "/", WILD_PATH, false},
	{"\\*", "*", 0, true},
	{"\\*", "x", 0, false},
	{"a\\", "a", 0, false},
	{"ABC", "abc", 0, false},
	{"ABC", "abc", WILD_CASE, true},
	{"[A-C]", "b", WILD_CASE, true},
	{"[[:upper:]]", "b", WILD_CASE, true},
};

static void patterns_fit_as_git_has_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct wild_case *c = &cases[i];

		if (gitwild_match(c->pattern, c->text, c->flags) != c->fits)
			fail_msg("%s %s", c->pattern, c->text);
	}
}

/* Tried at each place anew, this would take longer than the sun lasts. */
static void many_stars_are_no_trap(void **state)
{
	static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

	(void)state;
	assert_false(
		gitwild_match("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text, 0));
	assert_false(gitwild_match("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text,
				   WILD_PATH));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_fit_as_git_has_it),
		cmocka_unit_test(many_stars_are_no_trap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
