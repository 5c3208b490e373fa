/* SPDX-License-Identifier: MIT */
/*
 * Scans as files of the store: replaced as a whole, forgotten when nobody
 * reads them; and the epoch.
 */
#include "store_case.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "store/store_int.h"

enum { DAY_SEC = 24 * 60 * 60, SCAN_MAX = 1000 };

static void set_age(struct store *s, const char *name, int days)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - days * DAY_SEC}};
	char path[128];

	times[1] = times[0];
	(void)snprintf(path, sizeof path, "scans/%s", name);
	assert_ok(utimensat(store_fd(s), path, times, 0));
}

static bool has_scan(struct store *s, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof path, "scans/%s", name);
	return faccessat(store_fd(s), path, F_OK, 0) == 0;
}

TEST(a_scan_is_read_as_it_was_set)
{
	struct store *s = make_store(state);
	struct buf b = {.len = 0};
	struct stat st;

	assert_int_equal(store_scan_read(s, "a.scan", SCAN_MAX, &b), -ENOENT);
	assert_ok(store_scan_replace(s, "a.scan", "first", 5));
	assert_ok(store_scan_replace(s, "a.scan", "second", 6));
	assert_ok(store_scan_read(s, "a.scan", SCAN_MAX, &b));
	assert_int_equal(b.len, 6);
	assert_memory_equal(b.data, "second", 6);
	assert_int_equal(store_scan_read(s, "a.scan", 5, &b), -EFBIG);
	assert_ok(fstatat(store_fd(s), "scans", &st, 0));
	assert_int_equal(st.st_mode & 07777, 0700);
	buf_fini(&b);
	store_close(s);
}

TEST(a_scan_that_nobody_reads_goes_after_a_month)
{
	struct store *s = make_store(state);
	struct buf b = {.len = 0};

	assert_ok(store_scan_replace(s, "read.scan", "x", 1));
	assert_ok(store_scan_replace(s, "new.scan", "x", 1));
	assert_ok(store_scan_replace(s, "old.scan", "x", 1));
	assert_ok(store_scan_replace(s, ".tmp-1-0", "x", 1));
	set_age(s, "read.scan", 40);
	set_age(s, "new.scan", 20);
	set_age(s, "old.scan", 40);
	set_age(s, ".tmp-1-0", 2);
	assert_ok(store_scan_read(s, "read.scan", SCAN_MAX, &b));
	assert_ok(store_scan_replace(s, "next.scan", "x", 1));
	assert_true(has_scan(s, "read.scan"));
	assert_true(has_scan(s, "new.scan"));
	assert_true(has_scan(s, "next.scan"));
	assert_false(has_scan(s, "old.scan"));
	assert_false(has_scan(s, ".tmp-1-0"));
	buf_fini(&b);
	store_close(s);
}

TEST(an_epoch_lasts_until_it_is_ended)
{
	struct store *s = make_store(state);
	struct index_txn t;
	uint64_t first, again, next;

	assert_ok(store_epoch(s, &first));
	assert_ok(store_epoch(s, &again));
	assert_true(first == again);
	for (int i = 0; i < 2; i++) { /* ending none is no error */
		assert_ok(index_txn_begin(s->index, true, &t));
		assert_ok(index_end_epoch(&t));
		assert_ok(index_txn_commit(&t));
	}
	assert_ok(store_epoch(s, &next));
	assert_true(next != first);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_scan_is_read_as_it_was_set),
		RUN_SCRATCH(a_scan_that_nobody_reads_goes_after_a_month),
		RUN_SCRATCH(an_epoch_lasts_until_it_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
