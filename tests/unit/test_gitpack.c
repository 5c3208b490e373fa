/* SPDX-License-Identifier: MIT */
/*
 * A pack that is written here is one for git's own program.
 */
#include "test.h"

#include <errno.h>
#include <sys/stat.h>

#include "git/entries_int.h"
#include "git/pack_int.h"
#include "git/packidx_int.h"

static char top[64];

static int setup(void **state)
{
	(void)state;
	(void)snprintf(top, sizeof top, "/tmp/cowfs-u-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int run(const char *format, ...) _printf_(1, 2);
static int run(const char *format, ...)
{
	char *command = NULL;
	va_list ap;
	int r;

	va_start(ap, format);
	r = vasprintf(&command, format, ap);
	va_end(ap);
	assert_true(r >= 0);
	r = system(command);
	free(command);
	return r;
}

/* What zlib makes no smaller. */
static void fill(uint8_t *data, size_t len)
{
	uint64_t x = 88172645463325252ULL;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (uint8_t)(x >> 24);
	}
}

static int teardown(void **state)
{
	(void)state;
	return run("rm -rf %s", top);
}

static void git_reads_what_was_packed(void **state)
{
	_cleanup_gitpack_ struct gitpack *p = NULL;
	_cleanup_free_ uint8_t *big = calloc(1, 3 << 20);
	uint8_t name[GITINDEX_NAME_BYTES], dropped[GITINDEX_NAME_BYTES];
	char objects[96];

	(void)state;
	assert_int_equal(run("git init -q --bare %s/r", top), 0);
	(void)snprintf(objects, sizeof objects, "%s/r/objects", top);
	assert_int_equal(gitpack_begin(objects, NULL, &p), 0);
	gitpack_name(GITPACK_BLOB, "hello\n", 6, name);
	assert_int_equal(gitpack_put(p, GITPACK_BLOB, "hello\n", 6, name), 0);
	assert_int_equal(gitpack_put(p, GITPACK_BLOB, "hello\n", 6, name), 0);
	assert_int_equal(gitpack_count(p), 1);
	/* one that is not wanted, after more than what is kept in memory */
	assert_int_equal(gitpack_blob_begin(p, 3 << 20), 0);
	fill(big, 3 << 20);
	assert_int_equal(gitpack_blob_add(p, big, 3 << 20), 0);
	assert_int_equal(gitpack_blob_end(p, dropped), 0);
	assert_int_equal(gitpack_blob_drop(p), 0);
	assert_false(gitpack_has(p, dropped));
	/* one whose length was told wrongly, both ways */
	assert_int_equal(gitpack_blob_begin(p, 10), 0);
	assert_int_equal(gitpack_blob_add(p, big, 11), -EAGAIN);
	assert_int_equal(gitpack_blob_drop(p), 0);
	assert_int_equal(gitpack_blob_begin(p, 10), 0);
	assert_int_equal(gitpack_blob_add(p, big, 9), 0);
	assert_int_equal(gitpack_blob_end(p, name), -EAGAIN);
	assert_int_equal(gitpack_blob_drop(p), 0);
	/* and one in pieces */
	assert_int_equal(gitpack_blob_begin(p, 2 << 20), 0);
	assert_int_equal(gitpack_blob_add(p, big, 1 << 20), 0);
	assert_int_equal(gitpack_blob_add(p, big + (1 << 20), 1 << 20), 0);
	assert_int_equal(gitpack_blob_end(p, name), 0);
	assert_int_equal(gitpack_count(p), 2);
	assert_int_equal(gitpack_finish(p), 0);
	assert_int_equal(
		run("cd %s/r && git verify-pack objects/pack/*.idx", top), 0);
	assert_int_equal(run("test $(git -C %s/r cat-file --batch-all-objects "
			     "--batch-check | wc -l) = 2",
			     top),
			 0);
	/* gc leaves it alone for as long as it is held */
	assert_int_equal(
		run("git -C %s/r gc -q --prune=now && "
		    "ls %s/r/objects/pack/*.keep >/dev/null && git -C "
		    "%s/r cat-file -e ce013625030ba8dba906f756967f9e9ca3"
		    "94464a",
		    top, top, top),
		0);
	gitpack_release(p);
	assert_int_equal(run("! ls %s/r/objects/pack/*.keep 2>/dev/null", top),
			 0);
}

static void what_is_not_finished_leaves_nothing(void **state)
{
	struct gitpack *p = NULL;
	uint8_t name[GITINDEX_NAME_BYTES];
	_cleanup_free_ uint8_t *big = calloc(1, 1 << 20);
	char objects[96];

	(void)state;
	(void)snprintf(objects, sizeof objects, "%s/r2", top);
	assert_int_equal(mkdir(objects, 0755), 0);
	assert_int_equal(gitpack_begin(objects, NULL, &p), 0);
	fill(big, 1 << 20);
	gitpack_name(GITPACK_BLOB, big, 1 << 20, name);
	assert_int_equal(gitpack_put(p, GITPACK_BLOB, big, 1 << 20, name), 0);
	gitpack_free(p);
	assert_int_equal(run("test -z \"$(ls %s/r2/pack)\"", top), 0);
	assert_int_equal(gitpack_begin("/dev/null/x", NULL, &p), -ENOTDIR);
}

/* As "git gc --prune=now" takes what is temporary. And one of the same objects
 * takes the place of the first. */
static void a_gc_takes_nothing_away_while_it_is_written(void **state)
{
	_cleanup_free_ uint8_t *big = malloc(1 << 20);
	char objects[96];

	(void)state;
	assert_non_null(big);
	fill(big, 1 << 20);
	(void)snprintf(objects, sizeof objects, "%s/r3", top);
	assert_int_equal(mkdir(objects, 0755), 0);
	for (int i = 0; i < 2; i++) {
		uint8_t name[GITINDEX_NAME_BYTES];
		struct gitpack *p;

		assert_int_equal(gitpack_begin(objects, NULL, &p), 0);
		gitpack_name(GITPACK_BLOB, big, 1 << 20, name);
		assert_int_equal(
			gitpack_put(p, GITPACK_BLOB, big, 1 << 20, name), 0);
		assert_int_equal(run("rm -f %s/r3/pack/tmp_*", top), 0);
		assert_int_equal(gitpack_finish(p), 0);
		gitpack_release(p);
		gitpack_free(p);
	}
	assert_int_equal(run("cd %s/r3/pack; test $(ls | wc -l) = 2; "
			     "git verify-pack *.idx",
			     top),
			 0);
}

/* Offsets beyond two gigabytes are in a table of their own. */
static void far_offsets_have_their_table(void **state)
{
	struct packidx_entry list[] = {{.name = {2}, .offset = 12},
				       {.name = {1}, .offset = 1ULL << 31},
				       {.name = {0xff}, .offset = 5ULL << 32}};
	static const uint8_t sum[SHA1_BYTES];
	_cleanup_buf_ struct buf out = {0};
	const uint8_t *offsets, *large;

	(void)state;
	packidx_make(list, ARRAY_SIZE(list), sum, &out);
	assert_int_equal(buf_error(&out), 0);
	assert_int_equal(out.len, 8 + 1024 + 3 * 28 + 2 * 8 + 2 * SHA1_BYTES);
	offsets = out.data + 8 + 1024 + 3 * 24;
	large = offsets + 3 * 4;
	assert_memory_equal(offsets, "\x80\0\0\0\0\0\0\x0c\x80\0\0\1", 12);
	assert_memory_equal(large, "\0\0\0\0\x80\0\0\0\0\0\0\5\0\0\0\0", 16);
}

static int count_entries(const char *text, size_t len)
{
	struct gitentries g = {.count = 0};
	int r;

	buf_put(&g.raw, text, len);
	r = gitentries_read(&g, NULL);
	r = r < 0 ? r : (int)g.count;
	gitentries_fini(&g);
	return r;
}

static void an_index_out_of_order_is_refused(void **state)
{
	_cleanup_buf_ struct buf one = {0}, both = {0};
	static const uint8_t head[] = "DIRC\0\0\0\2\0\0\0\2";

	(void)state;
	for (int i = 0; i < 2; i++) {
		buf_clear(&one);
		assert_int_equal(buf_resize(&one, 60), 0);
		one.data[25] = 0;
		one.data[26] = 0x81;
		one.data[27] = 0xa4;
		buf_put(&one, "\0\1", 2);
		buf_put(&one, i ? "a" : "b", 2);
		if (!i)
			buf_put(&both, head, 12);
		buf_put(&both, one.data, one.len);
	}
	assert_int_equal(buf_resize(&both, both.len + SHA1_BYTES), 0);
	assert_int_equal(count_entries((char *)both.data, both.len), -EUCLEAN);
	/* "b" becomes "0": it comes first now */
	both.data[12 + 62] = '0';
	assert_int_equal(count_entries((char *)both.data, both.len), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(git_reads_what_was_packed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_not_finished_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_gc_takes_nothing_away_while_it_is_written, setup,
			teardown),
		cmocka_unit_test(far_offsets_have_their_table),
		cmocka_unit_test(an_index_out_of_order_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
