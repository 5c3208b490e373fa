/* SPDX-License-Identifier: MIT */
/*
 * A collection on a disk that says it is full: no segment can be copied, and
 * what is dead in them goes all the same. fstatvfs is the test's.
 *
 * fsck forks, which LMDB forbids with an open store: it runs while none is.
 */
#include "fsck_case.h"
#include "gc_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "faults.h"
#include "store/gc.h"

enum { DEATHS_MAX = 2000, DEATH = 9, CHUNK = 128 << 10 };

static bool is_full;
static int64_t step = 1;

int __real_fstatvfs(int fd, struct statvfs *st);
int __real_fstatvfs64(int fd, struct statvfs *st);
int __wrap_fstatvfs(int fd, struct statvfs *st);
int __wrap_fstatvfs64(int fd, struct statvfs *st);

int __wrap_fstatvfs(int fd, struct statvfs *st)
{
	const int r = __real_fstatvfs(fd, st);

	if (is_full)
		st->f_bavail = 0;
	return r;
}

int __wrap_fstatvfs64(int fd, struct statvfs *st)
{
	const int r = __real_fstatvfs64(fd, st);

	if (is_full)
		st->f_bavail = 0;
	return r;
}

/* Small files alternate in the segment, so that gaps are of all lengths. */
static const struct gc_case kept = {.files = 60, .seed = 1, .large = 4};
static const struct gc_case gone = {.files = 60, .seed = 2, .large = 5};
static const struct gc_case after = {.files = 60, .seed = 3};

struct three {
	struct oid kept;
	struct oid gone;
	struct oid after;
};

static void prepare(void **state, struct three *t)
{
	struct store *s = make_store(state);

	is_full = false;
	t->kept = gc_case_put(s, &kept, "kept", 0);
	t->gone = gc_case_put(s, &gone, "gone", 0);
	t->after = gc_case_put(s, &after, "after", 0);
	store_close(s);
}

static uint64_t blocks_of(struct store *s)
{
	struct stat st;

	assert_ok(fstatat(store_fd(s), SEGMENT, &st, 0));
	return (uint64_t)st.st_blocks * 512;
}

static int remove_and_collect(struct store *s, const struct three *t,
			      struct diag *notes, struct gc_result *ret)
{
	const struct gc_options o = {.grace_days = 1};
	int r = store_ref_delete(s, "gone");

	if (r == 0 || r == -ENOENT)
		r = store_snapshot_forget(s, &t->gone);
	if (r == 0 || r == -ENOENT)
		r = store_gc(s, &o, notes, NULL, ret);
	return r;
}

/* What is kept is whole, what is not is not there. */
static void look(struct store *s, const struct three *t)
{
	assert_ok(gc_case_check(s, &t->kept));
	assert_ok(gc_case_check(s, &t->after));
	assert_int_equal(store_has(s, &t->gone), 0);
}

static void lose_index(void **state)
{
	const struct test_scratch *t = *state;

	assert_ok(unlinkat(t->fd, "store/index/data.mdb", 0));
}

TEST(what_is_dead_goes_without_a_copy)
{
	_cleanup_diag_ struct diag notes = {0};
	struct gc_result res = {0};
	struct three t;
	struct store *s;
	uint64_t before, left;

	prepare(state, &t);
	s = make_store(state);
	before = blocks_of(s);
	is_full = true;
	assert_ok(remove_and_collect(s, &t, &notes, &res));
	left = blocks_of(s);
	/* The large file at least, and nothing was written but headers. */
	assert_true(before - left >= (GC_CASE_CHUNKS - 1) * CHUNK);
	assert_int_equal(res.freed, before - left);
	assert_int_equal(res.segments, 0);
	assert_int_equal(notes.count, 1);
	look(s, &t);
	/* Again: nothing more is there to give. */
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	assert_int_equal(blocks_of(s), left);
	store_close(s);
	assert_clean(state);
	s = make_store(state);
	look(s, &t);
	/* With room the segment is rewritten as ever. */
	is_full = false;
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	assert_int_equal(res.segments, 1);
	look(s, &t);
	store_close(s);
	assert_clean(state);
}

TEST(an_index_is_made_anew_from_segments_with_holes)
{
	struct gc_result res = {0};
	struct three t;
	struct store *s;

	prepare(state, &t);
	is_full = true;
	s = make_store(state);
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	assert_true(res.freed > 0);
	store_close(s);
	lose_index(state);
	assert_string_equal(fsck_run_check(state, FSCK_REPAIR).rules, "");
	s = make_store(state);
	assert_ok(gc_case_check(s, &t.kept));
	assert_ok(gc_case_check(s, &t.after));
	is_full = false;
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	look(s, &t);
	store_close(s);
	assert_clean(state);
}

TEST(a_segment_that_a_writer_has_is_not_touched)
{
	struct gc_result res = {0};
	struct three t;
	struct store *s;
	uint64_t before;
	int fd;

	prepare(state, &t);
	s = make_store(state);
	before = blocks_of(s);
	fd = openat(store_fd(s), SEGMENT, O_RDWR | O_CLOEXEC);
	assert_ok(flock(fd, LOCK_EX));
	is_full = true;
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	assert_int_equal(blocks_of(s), before);
	(void)close(fd);
	assert_ok(remove_and_collect(s, &t, NULL, &res));
	assert_true(blocks_of(s) < before);
	look(s, &t);
	store_close(s);
}

/* --- killed ---------------------------------------------------------------- */

static int collect_and_die(void **state, const struct three *t, uint32_t what,
			   int64_t nth)
{
	struct store *s = make_store(state);
	struct gc_result res = {0};
	int r;

	is_full = true;
	faults_arm(&(struct faults){.on = FAULTS_WRITE | FAULTS_SYNC,
				    .what = what,
				    .nth = nth});
	r = remove_and_collect(s, t, NULL, &res);
	(void)faults_disarm();
	store_close(s);
	return r == 0 ? 0 : 1;
}

static int in_child(void **state, const struct three *t, uint32_t what,
		    int64_t nth)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(collect_and_die(state, t, what, nth));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return DEATH;
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* In a child, since the next death forks. */
static int look_after(void **state, const struct three *t)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct store *s = make_store(state);
		int r = gc_case_check(s, &t->kept) |
			gc_case_check(s, &t->after);

		store_close(s);
		_exit(r < 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Every record that is kept is whole at once; a dead one may not be, which the
 * next collection or a repair mends. */
static void die_everywhere(void **state, uint32_t what, bool repair)
{
	const struct test_scratch *scratch = *state;
	unsigned torn = 0;
	int64_t n = 1;
	int r = DEATH;

	for (; r == DEATH; n += step) {
		struct three t;

		assert_true(n < DEATHS_MAX);
		prepare(state, &t);
		r = in_child(state, &t, what, n);
		assert_true(r == DEATH || r == 0);
		assert_int_equal(look_after(state, &t), 0);
		is_full = true;
		torn += fsck_run_check(state, 0).damage > 0;
		if (repair)
			(void)fsck_run_check(state, FSCK_REPAIR);
		else
			assert_int_equal(in_child(state, &t, 0, 0), 0);
		assert_clean(state);
		assert_int_equal(look_after(state, &t), 0);
		is_full = false;
		assert_ok(io_remove_tree(scratch->fd, "store"));
	}
	print_message("%ld places to die, %u with a dead record torn\n",
		      (long)(n - step) - 1, torn);
	assert_true(n > 20 && (torn > 0 || step > 1));
}

TEST(killed_before_any_write_the_next_gc_mends)
{
	die_everywhere(state, FAULTS_KILL, false);
}

TEST(killed_before_any_write_a_repair_mends)
{
	die_everywhere(state, FAULTS_KILL, true);
}

TEST(killed_in_the_middle_of_any_write_the_next_gc_mends)
{
	die_everywhere(state, FAULTS_TEAR, false);
}

TEST(killed_in_the_middle_of_any_write_a_repair_mends)
{
	die_everywhere(state, FAULTS_TEAR, true);
}

/* --- a disk that refuses --------------------------------------------------- */

TEST(without_holes_nothing_is_freed_and_nothing_is_hurt)
{
	struct gc_result res = {0};
	struct three t;

	for (int64_t n = 1; n < 40; n++) {
		const struct test_scratch *scratch = *state;
		struct store *s;
		int r;

		prepare(state, &t);
		s = make_store(state);
		is_full = true;
		assert_ok(store_ref_delete(s, "gone"));
		assert_ok(store_snapshot_forget(s, &t.gone));
		faults_arm(&(struct faults){.on = FAULTS_WRITE,
					    .what = FAULTS_ENOSPC,
					    .nth = n});
		r = remove_and_collect(s, &t, NULL, &res);
		(void)faults_disarm();
		if (r != 0 && r != -ENOSPC)
			fail_msg("at call %ld: %s", (long)n, err_text(r));
		/* LMDB takes no more calls when its meta page failed. */
		store_close(s);
		assert_int_equal(look_after(state, &t), 0);
		assert_clean(state);
		is_full = false;
		assert_ok(io_remove_tree(scratch->fd, "store"));
	}
}

/* test_gc_full [STEP]: it dies at each STEP-th call only. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(what_is_dead_goes_without_a_copy),
		RUN_SCRATCH(an_index_is_made_anew_from_segments_with_holes),
		RUN_SCRATCH(a_segment_that_a_writer_has_is_not_touched),
		RUN_SCRATCH(killed_before_any_write_the_next_gc_mends),
		RUN_SCRATCH(killed_before_any_write_a_repair_mends),
		RUN_SCRATCH(
			killed_in_the_middle_of_any_write_the_next_gc_mends),
		RUN_SCRATCH(killed_in_the_middle_of_any_write_a_repair_mends),
		RUN_SCRATCH(without_holes_nothing_is_freed_and_nothing_is_hurt),
	};

	if (argc > 1)
		step = MAX(strtoll(argv[1], NULL, 10), 1LL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
