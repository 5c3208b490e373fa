/* SPDX-License-Identifier: MIT */
/*
 * Which paths patterns mean, and below which directories a walk has to look.
 */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/glob.h"

/* Walks down a path; a directory that fits is meant with all below. */
static enum glob_fit walk(struct globs *g, const char *path)
{
	struct glob_place at, next;
	enum glob_fit fit = GLOB_BELOW;
	char copy[256], *save = NULL, *name;

	(void)snprintf(copy, sizeof copy, "%s", path);
	globs_begin(g, &at);
	for (name = strtok_r(copy, "/", &save); name && fit == GLOB_BELOW;
	     name = strtok_r(NULL, "/", &save)) {
		fit = globs_step(g, &at, name, &next);
		at = next;
	}
	return fit;
}

static enum glob_fit fit(const char *pattern, const char *path)
{
	struct globs *g = test_calloc(1, sizeof *g);
	enum glob_fit r;

	assert_int_equal(globs_add(g, pattern), 0);
	r = walk(g, path);
	globs_fini(g);
	test_free(g);
	return r;
}

TEST(names)
{
	static const char *const yes[][2] = {
		{"a", "a"},	    {"a*", "a"},       {"*", ".x"},
		{"*a*b*", "xaxbx"}, {"a*a*a", "aaaa"}, {"?", "\xff"},
		{"\\*", "*"},	    {"a\\", "a\\"},    {"\\a", "a"},
		{"[a]", "[a]"},	    {"***", "x"},      {"a**b", "axxb"},
	};
	static const char *const no[][2] = {
		{"a", "b"},   {"a", "ab"},  {"?", "ab"},
		{"\\*", "x"}, {"*a", "ab"}, {"A", "a"},
		{"a?", "a"},  {"[a]", "a"}, {"a*a*a", "aa"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (fit(yes[i][0], yes[i][1]) != GLOB_YES)
			fail_msg("%s %s", yes[i][0], yes[i][1]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (fit(no[i][0], no[i][1]) != GLOB_NO)
			fail_msg("%s %s", no[i][0], no[i][1]);
}

TEST(paths)
{
	static const struct {
		const char *pattern, *path;
		enum glob_fit fit;
	} rows[] = {
		{"a/b", "a", GLOB_BELOW},
		{"/a/b", "a/b", GLOB_YES},
		{"a/b", "a/b/c/d", GLOB_YES},
		{"a/b", "c", GLOB_NO},
		{"a/**", "a", GLOB_BELOW},
		{"a/**", "a/x", GLOB_YES},
		{"**", "x", GLOB_YES},
		{"**/x", "x", GLOB_YES},
		{"**/x", "a/b/x", GLOB_YES},
		{"**/x", "a/b", GLOB_BELOW},
		{"a/**/b", "a/b", GLOB_YES},
		{"a/**/b", "a/x/y/b", GLOB_YES},
		{"a/**/b", "b/b", GLOB_NO},
		{"a/**/**/b", "a/b", GLOB_YES},
		{"**/a/**/b/*.c", "x/a/a/y/b/b/z.c", GLOB_YES},
		{"a*/b", "ax/b", GLOB_YES},
		{"a*b", "a/b", GLOB_NO},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (fit(rows[i].pattern, rows[i].path) != rows[i].fit)
			fail_msg("%s %s", rows[i].pattern, rows[i].path);
}

TEST(several)
{
	struct globs *g = test_calloc(1, sizeof *g);

	assert_int_equal(globs_add(g, "a/x"), 0);
	assert_int_equal(globs_add(g, "b"), 0);
	assert_int_equal(globs_add(g, "a/y/z"), 0);
	assert_int_equal(walk(g, "a"), GLOB_BELOW);
	assert_int_equal(walk(g, "a/y"), GLOB_BELOW);
	assert_int_equal(walk(g, "b"), GLOB_YES);
	assert_int_equal(walk(g, "c"), GLOB_NO);
	assert_true(g->v[1].hit);
	assert_false(g->v[0].hit || g->v[2].hit);
	globs_fini(g);
	test_free(g);
}

TEST(refuses)
{
	static const char *const bad[] = {"", "/", ".", "..", "a/..", "./."};
	char deep[2 * (GLOB_NAMES + 1) + 1];
	struct globs *g = test_calloc(1, sizeof *g);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(globs_add(g, bad[i]), -EINVAL);
	for (size_t i = 0; i < sizeof deep - 1; i++)
		deep[i] = i % 2 ? '/' : 'a';
	deep[sizeof deep - 1] = 0;
	assert_int_equal(globs_add(g, deep), -E2BIG);
	assert_int_equal(globs_add(g, deep + 2), 0);
	while (g->count < GLOB_PATTERNS)
		assert_int_equal(globs_add(g, "x"), 0);
	assert_int_equal(globs_add(g, "x"), -E2BIG);
	globs_fini(g);
	test_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(names),
		RUN(paths),
		RUN(several),
		RUN(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
