/* SPDX-License-Identifier: MIT */
/*
 * A collection that deflates, too, and is killed: at its first write, at its
 * second, and so on until one gets through. Each write, sync, cut, rename and
 * unlink of ours and of LMDB's is a place to die, before it or half-way through.
 * After each death all that is kept must be readable, and another collection
 * must free what the first one would have.
 *
 * A child of the test is what dies (faults.h).
 */
#include "gc_case.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "faults.h"
#include "store/batch_int.h"
#include "store/gc.h"

enum {
	DEATH = 9,
	LOOPS_MAX = 5000,
	LIVE_MAX = 560000,
	FILES_MAX = 5,
	DEFLATED_MIN = 20,
};

static uint32_t death; /* FAULTS_KILL or FAULTS_TEAR */
static long step = 1; /* of the calls, each so many'th is one to die at */

static const struct gc_case kept = {.files = 30, .seed = 1, .large = 4};
static const struct gc_case plain = {.files = 30, .seed = 8, .plain = true};
static const struct gc_case gone = {.files = 30, .seed = 2, .large = 5};

struct cut {
	struct oid kept;
	struct oid plain;
	struct oid gone;
	struct oid old;
};

/* A store with several segments, of which each has something to free. */
static void prepare(void **state, struct cut *c)
{
	struct store *s = make_store(state);

	c->gone = gc_case_put(s, &gone, "gone", 0);
	c->kept = gc_case_put(s, &kept, "kept", 0);
	c->old = gc_case_put(s, &(struct gc_case){.files = 30, .seed = 3}, NULL,
			     1);
	c->plain = gc_case_put(s, &plain, "plain", 0);
	store_close(s);
}

/* rm and gc, in a child that may die. */
static int remove_and_collect(void **state, const struct cut *c, long calls)
{
	const struct gc_options o = {.grace_days = 1, .compress = true};
	struct store *s = make_store(state);
	struct gc_result res;
	int r;

	if (calls >= 0)
		faults_arm(&(struct faults){
			.on = FAULTS_WRITE | FAULTS_SYNC,
			.what = death,
			.nth = calls + 1,
		});
	r = store_ref_delete(s, "gone");
	if (r == 0 || r == -ENOENT)
		r = store_snapshot_forget(s, &c->gone);
	if (r == 0 || r == -ENOENT)
		r = store_gc(s, &o, NULL, NULL, &res);
	(void)faults_disarm();
	/* Or the deaths before were none of a compression. */
	if (r == 0 && calls >= 0 && res.compressed < DEFLATED_MIN)
		r = -EBADE;
	if (r == 0)
		store_close(s);
	return r == 0 ? 0 : 1;
}

static int in_child(int (*fn)(void **, const struct cut *, long), void **state,
		    const struct cut *c, long n)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(state, c, n));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return DEATH;
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* What is kept is whole; another collection frees the rest. */
static int check(void **state, const struct cut *c, long n)
{
	struct store *s = make_store(state);
	unsigned files;

	if (gc_case_check(s, &c->kept) < 0 || gc_case_check(s, &c->plain) < 0)
		return 2;
	if (remove_and_collect(state, c, -1) != 0)
		return 3;
	if (gc_case_check(s, &c->kept) < 0 || gc_case_check(s, &c->plain) < 0)
		return 4;
	if (store_has(s, &c->gone) || store_has(s, &c->old))
		return 5;
	/* Records, one frame, and nothing else. */
	if (gc_case_bytes(s, &files) > LIVE_MAX || files > FILES_MAX) {
		print_message("at %ld: %lu bytes in %u files\n", n,
			      (unsigned long)gc_case_bytes(s, &files), files);
		return 6;
	}
	(void)gc_case_put(s, &kept, "again", 0);
	return 0;
}

static void try_all(void **state)
{
	const struct test_scratch *t = *state;
	long n = 0;
	int r = DEATH;

	for (; r == DEATH; n += step) {
		struct cut c;

		assert_true(n < LOOPS_MAX);
		prepare(state, &c);
		r = in_child(remove_and_collect, state, &c, n);
		assert_true(r == DEATH || r == 0);
		r = r == 0 ? 0 : DEATH;
		assert_int_equal(in_child(check, state, &c, n), 0);
		assert_ok(io_remove_tree(t->fd, "store"));
	}
	print_message("%ld places to die\n", n - step);
	assert_true(n > 20);
}

TEST(killed_before_any_write_nothing_is_lost)
{
	death = FAULTS_KILL;
	batch_seam_int.segment_bytes = 300000;
	try_all(state);
}

TEST(killed_in_the_middle_of_any_write_nothing_is_lost)
{
	death = FAULTS_TEAR;
	batch_seam_int.segment_bytes = 300000;
	try_all(state);
}

/* Its argument: the step. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(killed_before_any_write_nothing_is_lost),
		RUN_SCRATCH(killed_in_the_middle_of_any_write_nothing_is_lost),
	};

	if (argc > 1)
		step = strtol(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
