/* SPDX-License-Identifier: MIT */
/*
 * What gc makes of a clock that is wrong, or has been: the test is the clock.
 * A snapshot without a name has the time of its import; one that lies in the
 * future is young, however far away it is.
 */
#include "gc_case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/gc.h"
#include "store/settings.h"

#define DAY INT64_C(86400)
/* A day in 2033. */
#define TODAY INT64_C(2000000000)

static int64_t now_sec;

struct timespec __wrap_clock_now(void);

struct timespec __wrap_clock_now(void)
{
	return (struct timespec){.tv_sec = now_sec};
}

/* Collects with the grace that is set; returns how many snapshots it gave up.
 */
static uint64_t collect_at(struct store *s, int64_t time)
{
	const struct gc_options o = {.grace_days = -1, .trash = true};
	_cleanup_diag_ struct diag d = {0};
	struct gc_result res = {0};
	int r;

	now_sec = time;
	r = store_gc(s, &o, NULL, &d, &res);
	if (r < 0)
		fail_msg("gc: %s", d.count ? diag_line(&d, 0) : err_text(r));
	return res.snapshots;
}

static struct oid put_at(struct store *s, unsigned seed, const char *ref,
			 int64_t time)
{
	return gc_case_put(s, &(struct gc_case){.files = 5, .seed = seed}, ref,
			   time);
}

TEST(a_clock_that_is_set_back_gives_up_nothing)
{
	struct store *s = make_store(state);
	struct oid young = put_at(s, 1, NULL, TODAY - DAY);
	struct oid old = put_at(s, 2, NULL, TODAY - 8 * DAY);
	struct oid named = put_at(s, 3, "a", TODAY - 100 * DAY);

	assert_int_equal(collect_at(s, TODAY - 30 * DAY), 0);
	assert_int_equal(collect_at(s, 0), 0);
	assert_int_equal(collect_at(s, -TODAY), 0);
	assert_ok(gc_case_check(s, &young));
	assert_ok(gc_case_check(s, &old));
	/* Right again, it goes on where it was. */
	assert_int_equal(collect_at(s, TODAY), 1);
	assert_ok(gc_case_check(s, &young));
	assert_ok(gc_case_check(s, &named));
	assert_int_equal(store_has(s, &old), 0);
	store_close(s);
}

TEST(what_was_imported_in_the_future_is_young_until_then)
{
	struct store *s = make_store(state);
	struct oid a = put_at(s, 1, NULL, TODAY + 300 * DAY);

	assert_int_equal(collect_at(s, TODAY), 0);
	assert_int_equal(collect_at(s, TODAY + 307 * DAY - 1), 0);
	assert_ok(gc_case_check(s, &a));
	assert_int_equal(collect_at(s, TODAY + 307 * DAY), 1);
	assert_int_equal(store_has(s, &a), 0);
	store_close(s);
}

TEST(a_grace_is_whole_to_the_second)
{
	struct store *s = make_store(state);
	struct oid a = put_at(s, 1, NULL, TODAY);

	assert_int_equal(collect_at(s, TODAY + 7 * DAY - 1), 0);
	assert_ok(gc_case_check(s, &a));
	assert_int_equal(collect_at(s, TODAY + 7 * DAY), 1);
	store_close(s);
}

TEST(the_longest_grace_and_the_earliest_clock_are_no_overflow)
{
	const struct settings most = {.grace_days = SETTINGS_MAX_GRACE_DAYS};
	struct store *s = make_store(state);
	struct oid a = put_at(s, 1, NULL, 1);

	assert_ok(settings_write(s, &most));
	assert_int_equal(collect_at(s, -TODAY), 0);
	assert_int_equal(collect_at(s, 1 + SETTINGS_MAX_GRACE_DAYS * DAY - 1),
			 0);
	assert_ok(gc_case_check(s, &a));
	assert_int_equal(collect_at(s, 1 + SETTINGS_MAX_GRACE_DAYS * DAY), 1);
	store_close(s);
}

/* The ctime of what lies in the trash is the kernel's: the clock is set to be
 * wrong by some seconds against it. */
TEST(what_a_server_is_making_stays_while_the_clock_is_behind)
{
	struct store *s = make_store(state);
	struct stat st;

	assert_ok(mkdirat(store_fd(s), "trash/.new-1", 0700));
	assert_ok(fstatat(store_fd(s), "trash/.new-1", &st, 0));
	(void)collect_at(s, st.st_ctim.tv_sec - DAY);
	(void)collect_at(s, st.st_ctim.tv_sec + 10);
	assert_ok(fstatat(store_fd(s), "trash/.new-1", &st, 0));
	(void)collect_at(s, st.st_ctim.tv_sec + 11);
	assert_true(fstatat(store_fd(s), "trash/.new-1", &st, 0) < 0);
	store_close(s);
}

TEST(a_scan_is_kept_while_the_clock_is_behind)
{
	struct store *s = make_store(state);
	_cleanup_buf_ struct buf b = {0};
	struct stat st;

	assert_ok(store_scan_replace(s, "one", "1", 1));
	assert_ok(fstatat(store_fd(s), "scans/one", &st, 0));
	now_sec = st.st_mtim.tv_sec - 100 * DAY;
	assert_ok(store_scan_replace(s, "two", "2", 1));
	assert_ok(store_scan_read(s, "one", 10, &b));
	now_sec = st.st_mtim.tv_sec + 32 * DAY;
	assert_ok(store_scan_replace(s, "two", "2", 1));
	assert_int_equal(store_scan_read(s, "one", 10, &b), -ENOENT);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_clock_that_is_set_back_gives_up_nothing),
		RUN_SCRATCH(what_was_imported_in_the_future_is_young_until_then),
		RUN_SCRATCH(a_grace_is_whole_to_the_second),
		RUN_SCRATCH(
			the_longest_grace_and_the_earliest_clock_are_no_overflow),
		RUN_SCRATCH(
			what_a_server_is_making_stays_while_the_clock_is_behind),
		RUN_SCRATCH(a_scan_is_kept_while_the_clock_is_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
