/* SPDX-License-Identifier: MIT */
/*
 * Tests of git/diff.h, on contents in memory. What git makes of the patches is
 * tested with git itself (tests/integration/test_diff_git.py).
 */
#include "test.h"

#include <errno.h>
#include <sys/stat.h>

#include "git/diff.h"

struct file {
	const char *path;
	const char *old; /* NULL: not there */
	const char *now;
	const char *later; /* what a second reading of now gives, or NULL */
	uint32_t old_mode, new_mode;
};

struct world {
	const struct file *files;
	size_t count;
	unsigned readings;
	unsigned comparisons;
	struct buf told; /* a line for each row */
	struct buf patch;
};

static void world_fini(struct world *w)
{
	buf_fini(&w->told);
	buf_fini(&w->patch);
}

static const struct file *find(const struct world *w, const char *path)
{
	for (size_t i = 0; i < w->count; i++)
		if (!strcmp(w->files[i].path, path))
			return &w->files[i];
	return NULL;
}

static int read_file(void *ctx, enum gitdiff_side side, const char *path,
		     gitdiff_bytes_fn fn, void *fn_ctx)
{
	struct world *w = ctx;
	const struct file *f = find(w, path);
	const char *text = f ? side == GITDIFF_OLD ? f->old : f->now : NULL;

	if (!text)
		return -EACCES;
	if (w->readings++ > 1 && f->later && side == GITDIFF_NEW)
		text = f->later;
	return fn(fn_ctx, text, strlen(text));
}

static int is_same(void *ctx, const char *old_path, const char *new_path)
{
	struct world *w = ctx;

	w->comparisons++;
	return !strcmp(find(w, old_path)->old, find(w, new_path)->now);
}

static int tell(void *ctx, const struct gitdiff_row *row)
{
	struct world *w = ctx;

	buf_printf(&w->told, "%c %s %s %d+ %d-%s\n", row->status, row->old_path,
		   row->path, (int)row->insertions, (int)row->deletions,
		   row->is_big ? " big" : "");
	if (row->patch)
		buf_put(&w->patch, row->patch->data, row->patch->len);
	return 0;
}

static struct gitdiff_file file_of(const char *text, uint32_t mode)
{
	if (!text)
		return (struct gitdiff_file){0};
	return (struct gitdiff_file){gitdiff_mode(mode ? mode : S_IFREG | 0644),
				     strlen(text)};
}

/* Adds all files and walks; the result of the first call that is not 0. */
static int run(struct world *w, uint64_t limit, struct diag *diag)
{
	const struct gitdiff_reader reader = {read_file, is_same, w};
	struct gitdiff *d = NULL;
	int r = gitdiff_new(&reader, limit, diag, &d);

	for (size_t i = 0; r == 0 && i < w->count; i++) {
		const struct file *f = &w->files[i];
		const struct gitdiff_file sides[] = {
			file_of(f->old, f->old_mode),
			file_of(f->now, f->new_mode)};

		r = gitdiff_add(d, f->path, sides);
	}
	if (r == 0)
		r = gitdiff_walk(d, true, tell, w);
	gitdiff_free(d);
	return r;
}

static void assert_rows(const struct file *files, size_t count, uint64_t limit,
			const char *told)
{
	_cleanup_(world_fini) struct world w = {.files = files, .count = count};

	assert_ok(run(&w, limit, NULL));
	assert_string_equal(w.told.len ? buf_str(&w.told) : "", told);
}

TEST(rows_come_in_the_order_of_new_paths)
{
	static const char text[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
	const struct file files[] = {
		{.path = "z", .old = "1\n", .now = "2\n"},
		{.path = "m", .old = text},
		{.path = "b", .now = text},
		{.path = "a", .old = "x\n"},
		{.path = "same", .old = "s", .now = "s"},
		{.path = "mode",
		 .old = "",
		 .now = "",
		 .new_mode = S_IFREG | 0755},
	};

	assert_rows(files, ARRAY_SIZE(files), 1000,
		    "D a a 0+ 1-\nR m b 0+ 0-\nM mode mode 0+ 0-\n"
		    "M z z 1+ 1-\n");
}

TEST(another_kind_is_a_deletion_then_an_addition)
{
	const struct file files[] = {
		{.path = "x",
		 .old = "t\n",
		 .now = "t",
		 .new_mode = S_IFLNK | 0777},
	};

	assert_rows(files, 1, 1000, "D x x 0+ 1-\nA x x 1+ 0-\n");
	assert_rows(files, 1, 1, "D x x 0+ 0- big\nA x x 1+ 0-\n");
}

TEST(big_files_are_compared_and_not_read)
{
	const struct file files[] = {
		{.path = "a", .old = "0123456789", .now = "0123456780"},
		{.path = "b", .old = "bbbbbbbbbbb"},
		{.path = "c", .now = "bbbbbbbbbbb"},
		{.path = "d", .old = "dddddddddd", .now = "dddddddddd"},
		{.path = "e", .old = "dddddddddd", .now = "small"},
	};
	_cleanup_(world_fini) struct world w = {.files = files,
						.count = ARRAY_SIZE(files)};

	assert_ok(run(&w, 9, NULL));
	assert_string_equal(buf_str(&w.told),
			    "M a a 0+ 0- big\nR b c 0+ 0-\nM e e 0+ 0- big\n");
	assert_int_equal(w.readings, 0);
	assert_int_equal(w.comparisons, 3);
	assert_non_null(
		strstr(buf_str(&w.patch), "Binary files a/a and b/a differ\n"));
	assert_null(strstr(buf_str(&w.patch), "\nindex "));
}

TEST(names_that_git_refuses_are_not_read)
{
	static const char *const names[] = {".git/x", "a/.GIT/x", "git~1/x",
					    "a/.git. ./x", ".git"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct file f = {.path = names[i], .now = "x"};
		_cleanup_(world_fini) struct world w = {&f, 1, 0, 0, {0}, {0}};

		assert_int_equal(run(&w, 100, NULL), 1);
		assert_int_equal(w.readings, 0);
	}
}

TEST(what_changes_between_two_readings_is_seen)
{
	static const char *const later[] = {"other\n", "longer than before\n",
					    "x\n"};

	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		const struct file f = {.path = "f",
				       .old = "older\n",
				       .now = "newer\n",
				       .later = later[i]};
		_cleanup_(world_fini) struct world w = {&f, 1, 0, 0, {0}, {0}};
		_cleanup_diag_ struct diag diag = {0};

		assert_int_equal(run(&w, 100, &diag), -ESTALE);
		assert_non_null(strstr(diag_line(&diag, 0), "f: it changes"));
	}
}

TEST(errors_of_the_reader_come_through)
{
	const struct file f = {.path = "f", .now = "x"};
	struct world w = {&f, 1, 0, 0, {0}, {0}};
	const struct gitdiff_reader reader = {read_file, is_same, &w};
	const struct gitdiff_file sides[] = {{gitdiff_mode(S_IFREG), 1}, {0}};
	_cleanup_diag_ struct diag diag = {0};
	struct gitdiff *d;

	assert_ok(gitdiff_new(&reader, 100, &diag, &d));
	assert_int_equal(gitdiff_add(d, "elsewhere", sides), -EACCES);
	assert_non_null(strstr(diag_line(&diag, 0), "elsewhere: "));
	gitdiff_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(rows_come_in_the_order_of_new_paths),
		RUN(another_kind_is_a_deletion_then_an_addition),
		RUN(big_files_are_compared_and_not_read),
		RUN(names_that_git_refuses_are_not_read),
		RUN(what_changes_between_two_readings_is_seen),
		RUN(errors_of_the_reader_come_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
