/* SPDX-License-Identifier: MIT */
/*
 * The list of mounts of a sandbox: order, precedence, options; variables.
 */
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "box/box_int.h"

static void assert_paths(struct view *v, const char *const *paths, size_t n)
{
	assert_int_equal(view_settle(v), 0);
	assert_int_equal(v->count, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(v->steps[i].path, paths[i]);
}

TEST(parents_come_before_children)
{
	static const char *const want[] = {"/a", "/a/b", "/a/b/c", "/a-b",
					   "/a.b"};
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_RO, "/a.b", NULL);
	view_add(&v, VIEW_RO, "/a/b/c", NULL);
	view_add(&v, VIEW_RO, "/a-b", NULL);
	view_add(&v, VIEW_RO, "/a", NULL);
	view_add(&v, VIEW_RO, "/a/b", NULL);
	assert_paths(&v, want, ARRAY_SIZE(want));
}

TEST(of_two_at_one_path_the_later_one_stays)
{
	static const char *const want[] = {"/a", "/b"};
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_RO, "/b", NULL);
	view_add(&v, VIEW_EMPTY, "/a", NULL);
	view_add(&v, VIEW_RW, "/a", "/from");
	view_add(&v, VIEW_TMP, "/b", NULL);
	assert_paths(&v, want, ARRAY_SIZE(want));
	assert_int_equal(v.steps[0].kind, VIEW_RW);
	assert_string_equal(v.steps[0].from, "/from");
	assert_int_equal(v.steps[1].kind, VIEW_TMP);
}

TEST(hiding_needs_something_of_the_host_to_hide)
{
	static const char *const want[] = {"/home/u",	"/srv", "/srv/hidden",
					   "/srv/tree", "/tmp", "/tmp/kept"};
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_EMPTY, "/home/u/origin", NULL);
	view_add(&v, VIEW_EMPTY, "/home/other", NULL);
	view_add(&v, VIEW_EMPTY, "/tmp/origin", NULL);
	view_add(&v, VIEW_EMPTY, "/srv/hidden", NULL);
	view_add(&v, VIEW_EMPTY, "/srv/tree/sub", NULL);
	view_add(&v, VIEW_EMPTY, "/tmp/kept", NULL)->keep = true;
	view_add(&v, VIEW_RO, "/srv", NULL);
	view_add(&v, VIEW_TMP, "/tmp", NULL);
	view_add(&v, VIEW_RW, "/home/u", "/store/home");
	view_add(&v, VIEW_RW, "/srv/tree", "/store/mnt/e");
	assert_paths(&v, want, ARRAY_SIZE(want));
}

TEST(what_the_user_shares_is_the_hosts)
{
	static const char *const want[] = {"/data", "/data/origin"};
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_RW, "/data", NULL);
	view_add(&v, VIEW_EMPTY, "/data/origin", NULL);
	assert_paths(&v, want, ARRAY_SIZE(want));
}

TEST(the_machine_cannot_be_hidden)
{
	_cleanup_(view_fini) struct view v = {0};

	view_hide(&v, "/");
	view_hide(&v, "/usr");
	view_hide(&v, "/no/such/path");
	assert_int_equal(v.count, 0);
	view_hide(&v, "/etc/../etc/passwd");
	assert_int_equal(v.count, 1);
	assert_string_equal(v.steps[0].path, "/etc/passwd");
	assert_true(v.steps[0].is_file);
}

/* Options with '|' for the NUL behind each. */
static void assert_options(const struct view *v, const char *want)
{
	_cleanup_buf_ struct buf b = {0};

	view_options(v, &b);
	assert_int_equal(buf_error(&b), 0);
	for (size_t i = 0; i < b.len; i++)
		if (!b.data[i])
			b.data[i] = '|';
	assert_string_equal(buf_str(&b), want);
}

TEST(options_make_the_folders_on_the_way)
{
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_RO, "/srv", NULL);
	view_add(&v, VIEW_RW, "/srv/x/y", "/m");
	view_add(&v, VIEW_RW, "/home/u", "/h");
	view_add(&v, VIEW_LINK, "/bin", "usr/bin");
	view_add(&v, VIEW_EMPTY, "/srv/f", NULL)->is_file = true;
	view_add(&v, VIEW_TEXT, "/home/u/.npmrc", NULL)->fd = 7;
	assert_int_equal(view_settle(&v), 0);
	assert_options(&v, "--symlink|usr/bin|/bin|"
			   "--perms|0755|--dir|/home|--bind|/h|/home/u|"
			   "--ro-bind-data|7|/home/u/.npmrc|"
			   "--ro-bind|/srv|/srv|"
			   "--ro-bind|/dev/null|/srv/f|"
			   "--bind|/m|/srv/x/y|");
}

TEST(an_environment_as_the_root_has_its_folders)
{
	_cleanup_(view_fini) struct view v = {0};

	view_add(&v, VIEW_RW, "/", "/store/mnt/e");
	view_add(&v, VIEW_EMPTY, "/etc/shadow", NULL)->is_file = true;
	view_add(&v, VIEW_EMPTY, "/proc/kcore", NULL)->is_file = true;
	view_add(&v, VIEW_EMPTY, "/srv/data/store", NULL);
	view_add(&v, VIEW_PROC, "/proc", NULL);
	view_add(&v, VIEW_DEV, "/dev", NULL);
	view_add(&v, VIEW_TMP, "/dev/shm", NULL);
	view_add(&v, VIEW_RO, "/srv/data", NULL);
	assert_int_equal(view_settle(&v), 0);
	assert_string_equal(view_above(&v, v.count, "/srv")->path, "/");
	assert_options(&v, "--bind|/store/mnt/e|/|"
			   "--dev|/dev|--perms|1777|--tmpfs|/dev/shm|"
			   "--proc|/proc|--ro-bind|/dev/null|/proc/kcore|"
			   "--ro-bind|/srv/data|/srv/data|"
			   "--perms|0755|--tmpfs|/srv/data/store|");
}

TEST(a_path_is_resolved_as_far_as_it_exists)
{
	char dir[] = "/tmp/cowfs-test-XXXXXX", link[64], path[96], want[96];
	char *real;
	size_t exists;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(link, sizeof link, "%s/link", dir);
	assert_int_equal(symlink(dir, link), 0);
	(void)snprintf(path, sizeof path, "%s/link/no/such", dir);
	(void)snprintf(want, sizeof want, "%s/no/such", dir);
	assert_int_equal(box_resolve(path, &real, &exists), 0);
	assert_string_equal(real, want);
	assert_int_equal(exists, strlen(dir));
	free(real);
	assert_int_equal(box_resolve("/", &real, &exists), 0);
	assert_string_equal(real, "/");
	free(real);
	assert_int_equal(box_resolve("/no-such-folder/x", &real, &exists), 0);
	assert_string_equal(real, "/no-such-folder/x");
	assert_int_equal(exists, 1);
	free(real);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(dir), 0);
}

TEST(a_variable_stands_there_once)
{
	_cleanup_buf_ struct buf vars = {0};
	char **list;

	box_vars_set(&vars, "A", "1");
	box_vars_set(&vars, "AB", "2");
	box_vars_set(&vars, "A", "3\n=");
	box_vars_set(&vars, "AB", NULL);
	box_vars_set(&vars, "C", "");
	list = box_vars_list(&vars);
	assert_non_null(list);
	assert_string_equal(list[0], "A=3\n=");
	assert_string_equal(list[1], "C=");
	assert_null(list[2]);
	free((void *)list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(parents_come_before_children),
		RUN(of_two_at_one_path_the_later_one_stays),
		RUN(hiding_needs_something_of_the_host_to_hide),
		RUN(what_the_user_shares_is_the_hosts),
		RUN(the_machine_cannot_be_hidden),
		RUN(options_make_the_folders_on_the_way),
		RUN(an_environment_as_the_root_has_its_folders),
		RUN(a_path_is_resolved_as_far_as_it_exists),
		RUN(a_variable_stands_there_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
