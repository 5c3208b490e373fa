/* SPDX-License-Identifier: MIT */
/* Tests of git/config.h and git/safe.h. */
#include "test.h"

#include "git/config.h"
#include "git/safe.h"

static const char *get(const char *text, const char *section, const char *key)
{
	static char out[256];
	_cleanup_buf_ struct buf value = {0};

	if (!gitconfig_get(text, strlen(text), section, key, &value))
		return NULL;
	(void)snprintf(out, sizeof out, "%s", buf_str(&value));
	return out;
}

TEST(values_are_found_as_git_finds_them)
{
	static const struct {
		const char *text;
		const char *value; /* of core.worktree */
	} cases[] = {
		{"[core]\n\tworktree = /a b\n", "/a b"},
		{"[CORE]\nWorkTree=/a", "/a"},
		{"[core] worktree = ../x # comment\n", "../x"},
		{"[core]\nworktree = \"/a # b \" ; c\n", "/a # b "},
		{"[core]\nworktree = /a\\\nb\n", "/ab"},
		{"[core]\nworktree = \\\"\\\\\\t\n", "\"\\\t"},
		{"[core]\nworktree = /a\nworktree = /b\n", "/b"},
		{"[core]\nworktree = /a\n[x]\n[core]\nbare\n", "/a"},
		{"[core]\nworktree\n", "true"},
		{"[core]\nworktree =\n", ""},
		{"# [core]\n[core] # c\n; c\nworktree = /a\r\n", "/a"},
		{"\xef\xbb\xbf[core]\nworktree = /a\n", "/a"},
		{"[core \"sub\"]\nworktree = /a\n", NULL},
		{"[core.sub]\nworktree = /a\n", NULL},
		{"[other]\nworktree = /a\n", NULL},
		{"[core]\nworktrees = /a\n", NULL},
		{"[core]\nworktree = \"open\n", NULL},
		{"[core]\nx = \\q\nworktree = /a\n", NULL},
		{"[core\nworktree = /a\n", NULL},
		{"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *have = get(cases[i].text, "core", "worktree");

		if (cases[i].value) {
			assert_non_null(have);
			assert_string_equal(have, cases[i].value);
		} else {
			assert_null(have);
		}
	}
}

TEST(a_setting_is_taken_out_and_nothing_else)
{
	static const struct {
		const char *text;
		const char *left;
	} cases[] = {
		{"[core]\n\tbare = false\n\tworktree = /a\n\tx = 1\n",
		 "[core]\n\tbare = false\n\tx = 1\n"},
		{"[core] worktree = /a\n[x]\ny = 1", "[core] \n[x]\ny = 1"},
		{"[core]\nworktree = /a\\\n/b\n[x]\n", "[core]\n[x]\n"},
		{"[core]\nworktree = /a # why\n\n", "[core]\n\n"},
		{"[core]\nworktree = /a\n[y]\n[core]\nWORKTREE=/b",
		 "[core]\n[y]\n[core]\n"},
		{"[core \"s\"]\nworktree = /a\n", "[core \"s\"]\nworktree = /a\n"},
		{"no config = \xff\n", "no config = \xff\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = {0};

		gitconfig_drop(cases[i].text, strlen(cases[i].text), "core",
			       "worktree", &out);
		assert_string_equal(buf_str(&out), cases[i].left);
	}
}

TEST(what_is_added_counts)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put(&b, "[gc]\nauto = 1", 13);
	gitconfig_add(&b, "gc", "auto", "0");
	assert_string_equal(get(buf_str(&b), "gc", "auto"), "0");
	assert_string_equal(buf_str(&b), "[gc]\nauto = 1\n[gc]\n\tauto = 0\n");
}

/* Only what is said by variables. */
static void trust(const char *value)
{
	(void)setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	(void)setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	(void)setenv("GIT_CONFIG_COUNT", "1", 1);
	(void)setenv("GIT_CONFIG_KEY_0", "Safe.Directory", 1);
	(void)setenv("GIT_CONFIG_VALUE_0", value, 1);
}

TEST(a_directory_is_trusted_when_it_is_named)
{
	trust("/a/b");
	assert_true(gitsafe_is_trusted("/a/b"));
	assert_true(gitsafe_is_trusted("/a/b/.git"));
	assert_true(gitsafe_is_trusted("/a/b/.git/worktrees/x"));
	assert_false(gitsafe_is_trusted("/a/b/c"));
	assert_false(gitsafe_is_trusted("/a/bc"));
	assert_false(gitsafe_is_trusted("/a"));
	assert_false(gitsafe_is_trusted("/a/b/.gitx"));
	trust("/a/*");
	assert_true(gitsafe_is_trusted("/a/b/c"));
	assert_false(gitsafe_is_trusted("/ab"));
	trust("*");
	assert_true(gitsafe_is_trusted("/any"));
	trust("/");
	assert_false(gitsafe_is_trusted("/any"));
}

TEST(an_empty_value_forgets_the_ones_before)
{
	trust("*");
	(void)setenv("GIT_CONFIG_COUNT", "2", 1);
	(void)setenv("GIT_CONFIG_KEY_1", "safe.directory", 1);
	(void)setenv("GIT_CONFIG_VALUE_1", "", 1);
	assert_false(gitsafe_is_trusted("/any"));
}

TEST(ones_own_are_those_of_the_user)
{
	(void)unsetenv("SUDO_UID");
	assert_true(gitsafe_is_owner(geteuid()));
	assert_false(gitsafe_is_owner(geteuid() + 1));
	(void)setenv("SUDO_UID", "4711", 1);
	assert_int_equal(gitsafe_is_owner(4711), geteuid() == 0);
	(void)setenv("SUDO_UID", "4711x", 1);
	assert_false(gitsafe_is_owner(4711));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(values_are_found_as_git_finds_them),
		RUN(a_setting_is_taken_out_and_nothing_else),
		RUN(what_is_added_counts),
		RUN(a_directory_is_trusted_when_it_is_named),
		RUN(an_empty_value_forgets_the_ones_before),
		RUN(ones_own_are_those_of_the_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
