/* SPDX-License-Identifier: MIT */
/*
 * Which files a rescue leaves out, and by which names they are told.
 */
#include "test.h"

#include <sys/stat.h>

#include "cli/leave.h"

#define MIB (UINT64_C(1) << 20)

static const struct leave_policy usual = {.each = LEAVE_EACH,
					  .together = LEAVE_TOGETHER};

/* What git ignores here: all below these. */
static int ignored(void *ctx, const char *path, bool is_dir)
{
	static const char *const rules[] = {"node_modules/", "big/", "notes",
					    "build/"};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		size_t n = strlen(rules[i]);

		if (!strncmp(path, rules[i], n) ||
		    (is_dir && !strncmp(path, rules[i], n - 1) && !path[n - 1]))
			return 1;
	}
	return 0;
}

static void add(struct gitchanges *c, enum delta_kind kind, const char *path,
		uint64_t size)
{
	size_t n = strlen(path);
	bool is_dir = path[n - 1] == '/';
	struct delta_row row = {.kind = kind,
				.is_dir = is_dir,
				.path = path,
				.path_len = n - is_dir,
				.new_size = size};

	if (kind == DELTA_RENAMED) {
		row.old_path = "old";
		row.old_path_len = 3;
	}
	assert_ok(gitchanges_add(c, &row));
	c->rows[c->count - 1].ignored =
		kind != DELTA_DELETED && ignored(NULL, path, is_dir);
}

/* The list as text: "WHY PATH FILES BYTES\n". */
static void choose(const struct leave_policy *p, const struct gitchanges *c,
		   struct buf *out)
{
	_cleanup_buf_ struct buf list = {0};
	struct rescue_left one;
	struct bytes in;

	assert_ok(leave_choose(p, c, ignored, NULL, &list));
	in = bytes_of(list.data, list.len);
	buf_clear(out);
	while (rescue_left_next(&in, &one))
		buf_printf(out, "%d %.*s %llu %llu\n", one.why,
			   (int)one.path_len, one.path,
			   (unsigned long long)one.files,
			   (unsigned long long)one.bytes);
	assert_false(in.bad);
}

TEST(what_git_does_not_ignore_always_stays)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};
	const struct leave_policy none = {.none = true};

	add(&c, DELTA_ADDED, "huge", 1000 * MIB);
	add(&c, DELTA_MODIFIED, "src/target/x", 1000 * MIB);
	choose(&none, &c, &out);
	assert_string_equal(buf_str(&out), "");
}

TEST(dependencies_go_as_one)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};

	add(&c, DELTA_ADDED, "a", 1);
	add(&c, DELTA_ADDED, "node_modules-not", 1);
	add(&c, DELTA_ADDED, "node_modules/", 0);
	add(&c, DELTA_ADDED, "node_modules/x/i", 5);
	add(&c, DELTA_DELETED, "node_modules/x/j", 0);
	add(&c, DELTA_ADDED, "node_modules/y", 6);
	choose(&usual, &c, &out);
	assert_string_equal(buf_str(&out), "2 node_modules/ 3 11\n");
}

TEST(small_ones_stay_first)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};
	const struct leave_policy p = {.each = 10, .together = 15};

	add(&c, DELTA_ADDED, "notes1", 9);
	add(&c, DELTA_ADDED, "notes2", 8);
	add(&c, DELTA_ADDED, "notes3", 11);
	add(&c, DELTA_ADDED, "notes4", 1);
	choose(&p, &c, &out);
	assert_string_equal(buf_str(&out), "1 notes1 1 9\n1 notes3 1 11\n");
}

TEST(a_directory_is_told_as_one_only_when_all_of_it_goes)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};

	add(&c, DELTA_ADDED, "big/a", 20 * MIB);
	add(&c, DELTA_ADDED, "big/b/c", 20 * MIB);
	add(&c, DELTA_ADDED, "build/a", 20 * MIB);
	add(&c, DELTA_ADDED, "build/small", 1);
	choose(&usual, &c, &out);
	assert_string_equal(buf_str(&out), "1 big/ 2 41943040\n"
					   "1 build/a 1 20971520\n");
}

TEST(a_tracked_file_among_dependencies_stays)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};

	add(&c, DELTA_ADDED, "node_modules/x/i", 5);
	add(&c, DELTA_MODIFIED, "node_modules/x/tracked", 5);
	add(&c, DELTA_ADDED, "node_modules/y/z", 6);
	c.rows[1].ignored = false;
	choose(&usual, &c, &out);
	assert_string_equal(buf_str(&out), "2 node_modules/x/i 1 5\n"
					   "2 node_modules/y/ 1 6\n");
}

TEST(a_pure_rename_costs_nothing_and_stays)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};

	add(&c, DELTA_RENAMED, "big/moved", 200 * MIB);
	choose(&usual, &c, &out);
	assert_string_equal(buf_str(&out), "");
}

TEST(all_and_none)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0};
	const struct leave_policy all = {.all = true}, none = {.none = true};

	add(&c, DELTA_ADDED, "big/a", 2000 * MIB);
	add(&c, DELTA_ADDED, "node_modules/x", 1);
	add(&c, DELTA_ADDED, "notes", 1);
	choose(&all, &c, &out);
	assert_string_equal(buf_str(&out), "");
	choose(&none, &c, &out);
	assert_string_equal(buf_str(&out), "3 big/ 1 2097152000\n"
					   "3 node_modules/ 1 1\n"
					   "3 notes 1 1\n");
}

TEST(a_list_that_is_full_leaves_the_greatest_out)
{
	_cleanup_gitchanges_ struct gitchanges c = {0};
	_cleanup_buf_ struct buf out = {0}, list = {0};
	const struct leave_policy none = {.none = true};
	char path[80];

	for (int i = 0; i < 5000; i++) {
		(void)snprintf(path, sizeof path, "notes-%060d", i);
		add(&c, DELTA_ADDED, path, i == 4321 ? 1000 : 1);
	}
	assert_ok(leave_choose(&none, &c, ignored, NULL, &list));
	assert_true(list.len <= RESCUE_LEFT_MAX);
	choose(&none, &c, &out);
	assert_non_null(strstr(buf_str(&out), "4321 1 1000\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(what_git_does_not_ignore_always_stays),
		RUN(dependencies_go_as_one),
		RUN(small_ones_stay_first),
		RUN(a_directory_is_told_as_one_only_when_all_of_it_goes),
		RUN(a_tracked_file_among_dependencies_stays),
		RUN(a_pure_rename_costs_nothing_and_stays),
		RUN(all_and_none),
		RUN(a_list_that_is_full_leaves_the_greatest_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
