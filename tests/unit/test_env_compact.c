/* SPDX-License-Identifier: MIT */
/*
 * A journal that is made short while its environment works: it says the same
 * before and after, whatever comes in between, and wherever it is killed. The
 * linker wraps the calls that a compaction makes; a child of the test is what
 * dies. Syncs are not made: the death of a process asks for none.
 */
#include "env_case.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, setup, env_case_teardown)

enum { DEATH = 9, DEATHS_MOST = 200 };

static long left = -1; /* calls until death; below 0: never */
static void (*while_syncing)(struct env_case *c);
static struct env_case *syncing;

static void die_here(void)
{
	if (left >= 0 && left-- == 0)
		_exit(DEATH);
}

#define WRAP(ret, name, args, pass)                                            \
	ret __real_##name args;                                                \
	ret __wrap_##name args;                                                \
	ret __wrap_##name args                                                 \
	{                                                                      \
		die_here();                                                    \
		return __real_##name pass;                                     \
	}

WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at),
     (fd, p, n, at))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at),
     (fd, p, n, at))
WRAP(int, renameat, (int a, const char *from, int b, const char *to),
     (a, from, b, to))
WRAP(int, unlinkat, (int dir, const char *name, int flags),
     (dir, name, flags))

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	die_here();
	if (while_syncing)
		while_syncing(syncing);
	return 0;
}

static int setup(void **state)
{
	left = -1;
	while_syncing = NULL;
	return env_case_setup(state);
}

static uint64_t journal_bytes(struct env_case *c)
{
	struct env_stat st;

	env_stat(c->e, &st);
	return st.journal_bytes;
}

/* A change of every kind. */
static void change_all(struct env_case *c)
{
	uint64_t d = env_case_at(c, "d").ino, big = env_case_at(c, "d/big").ino;
	uint64_t x = env_case_at(c, "d/x").ino, n, sub;
	struct env_attr v = {.size = 150000, .mode = 0600}, a;

	n = env_case_make(c, d, "new", S_IFREG | 0644);
	env_case_write(c, n, "new bytes", 0);
	env_case_write(c, n, "far", 5 << 20);
	assert_ok(env_fallocate(c->e, n, 0, 1 << 20, 3 << 20));
	env_case_write(c, big, "changed", 10000);
	assert_ok(env_setattr(c->e, big, ENV_SET_SIZE, &v, &a));
	assert_ok(env_fallocate(c->e, big,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				20000, 30000));
	assert_ok(env_setxattr(c->e, x, "user.one", "1", 1, 0, false));
	assert_ok(env_setxattr(c->e, x, "user.two", "22", 2, 0, false));
	assert_ok(env_removexattr(c->e, x, "user.k"));
	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	assert_ok(env_symlink(c->e, ENV_ROOT, "sym", "target", &env_case_root,
			      &a));
	sub = env_case_make(c, ENV_ROOT, "dir", S_IFDIR | 0755);
	assert_ok(env_rename(c->e, d, "sub", sub, "moved", 0));
	assert_ok(env_rename(c->e, d, "hl1", d, "hl3", 0));
	assert_ok(env_link(c->e, x, sub, "x2", &a));
	(void)env_case_make(c, sub, "fifo", S_IFIFO | 0600);
	assert_ok(env_setattr(c->e, ENV_ROOT, ENV_SET_MODE,
			      &(struct env_attr){.mode = 0700}, &a));
	(void)env_case_make(c, sub, "gone", S_IFREG | 0600);
	assert_ok(env_unlink(c->e, sub, "gone"));
}

/* Makes the journal long without changing what it says. */
static void make_long(struct env_case *c)
{
	struct env_attr v = {.mode = 0755}, a;
	uint64_t d = env_case_at(c, "d").ino;

	while (journal_bytes(c) < (1 << 20) + 4096) {
		v.mtime.tv_sec = v.ctime.tv_sec = 77;
		assert_ok(env_setattr(c->e, d,
				      ENV_SET_MODE | ENV_SET_MTIME |
					      ENV_SET_CTIME,
				      &v, &a));
	}
}

TEST(a_compacted_journal_says_the_same)
{
	struct env_case *c = *state;
	_cleanup_free_ char *before = NULL, *now = NULL, *after = NULL;
	uint64_t next, ino;

	change_all(c);
	make_long(c);
	/* a number and a cookie that are gone must not come back */
	next = env_case_make(c, ENV_ROOT, "last", S_IFREG | 0600);
	assert_ok(env_unlink(c->e, ENV_ROOT, "last"));
	env_reap(c->e, next);
	before = env_case_words(c);
	(void)env_tend(c->e);
	assert_true(journal_bytes(c) < 16 << 10);
	now = env_case_words(c);
	assert_string_equal(before, now);
	env_case_reopen(c);
	after = env_case_words(c);
	assert_string_equal(before, after);
	ino = env_case_make(c, ENV_ROOT, "after", S_IFREG | 0600);
	assert_int_equal(ino, next + 1);
	/* not again and again */
	next = journal_bytes(c);
	(void)env_tend(c->e);
	assert_true(journal_bytes(c) >= next);
}

static uint64_t orphan;

/* Comes at every sync of the compaction, so between its steps, too. */
static void change_meanwhile(struct env_case *c)
{
	static unsigned n;
	char name[16];

	(void)snprintf(name, sizeof name, "during-%u", n++ % 100);
	while_syncing = NULL;
	env_case_write(c, env_case_make(c, ENV_ROOT, name, S_IFREG | 0600),
		       name, 0);
	env_case_write(c, orphan, "still open", 0);
	while_syncing = change_meanwhile;
}

TEST(changes_during_a_compaction_are_in_both)
{
	struct env_case *c = *state;
	_cleanup_free_ char *before = NULL, *after = NULL;
	uint64_t dir;
	struct env_attr a;

	change_all(c);
	/* without names, but open: they are written to, and one comes back */
	orphan = env_case_make(c, ENV_ROOT, "open", S_IFREG | 0600);
	assert_ok(env_unlink(c->e, ENV_ROOT, "open"));
	dir = env_case_at(c, "dir/moved").ino;
	assert_ok(env_unlink(c->e, dir, "y"));
	assert_ok(env_rmdir(c->e, env_case_at(c, "dir").ino, "moved"));
	/* and a directory that the base never had */
	(void)env_case_make(c, ENV_ROOT, "gone", S_IFDIR | 0700);
	assert_ok(env_rmdir(c->e, ENV_ROOT, "gone"));
	make_long(c);
	syncing = c;
	while_syncing = change_meanwhile;
	(void)env_tend(c->e);
	while_syncing = NULL;
	assert_true(journal_bytes(c) < 64 << 10);
	(void)env_case_at(c, "during-0");
	(void)env_case_at(c, "during-1");
	assert_ok(env_link(c->e, orphan, ENV_ROOT, "back", &a));
	before = env_case_words(c);
	env_case_reopen(c);
	after = env_case_words(c);
	assert_string_equal(before, after);
}

/* A child compacts and dies at the nth call. Says whether it got through. */
static bool dies_at(struct env_case *c, long n)
{
	int status;
	pid_t pid;

	env_close(c->e);
	c->e = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (env_open(c->store, "e", 0, NULL, &c->e) < 0)
			_exit(1);
		left = n;
		(void)env_tend(c->e);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == DEATH);
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	return WEXITSTATUS(status) == 0;
}

TEST(a_compaction_may_be_killed_anywhere)
{
	struct env_case *c = *state;
	_cleanup_free_ char *before = NULL;
	bool through = false;
	long n = 0;
	struct stat st;

	change_all(c);
	make_long(c);
	before = env_case_words(c);
	for (; n < DEATHS_MOST && !through; n++) {
		_cleanup_free_ char *now = NULL;

		through = dies_at(c, n);
		now = env_case_words(c);
		assert_string_equal(before, now);
		assert_true(fstatat(store_fd(c->store), "envs/e/journal.new",
				    &st, 0) < 0);
	}
	assert_true(through && n > 6);
	assert_true(journal_bytes(c) < 64 << 10);
}

/* Records alone would take 4 MB, and the copies in commits 10 MB. */
enum { THREADS = 3, CHANGES = 6000, LONG_BYTES = 10 << 20 };

struct worker {
	struct env_case *c;
	pthread_t thread;
	uint64_t ino;
	int failed;
};

/* Changes one file, and syncs now and then. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct env_attr v = {0}, a;

	for (unsigned i = 0; i < CHANGES && !w->failed; i++) {
		uint8_t b = (uint8_t)i;

		v.mode = 0600 | (i & 077);
		if (env_setattr(w->c->e, w->ino, ENV_SET_MODE, &v, &a) < 0 ||
		    env_write(w->c->e, w->ino, &b, 1, i % 9000, false) < 0 ||
		    (i % 16 == 0 && env_sync(w->c->e) < 0))
			w->failed = 1;
	}
	return NULL;
}

/* Changes, syncs and compactions at once: nothing waits for ever, and what
 * memory has is what the journal says. */
TEST(all_at_once)
{
	struct env_case *c = *state;
	_cleanup_free_ char *before = NULL, *after = NULL;
	struct worker w[THREADS];

	for (int i = 0; i < THREADS; i++) {
		char name[] = {'w', (char)('0' + i), '\0'};

		w[i] = (struct worker){.c = c};
		w[i].ino = env_case_make(c, ENV_ROOT, name, S_IFREG | 0600);
		assert_ok(pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (int i = 0; i < 400; i++) {
		(void)env_tend(c->e);
		(void)usleep(1000);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_ok(pthread_join(w[i].thread, NULL));
		assert_int_equal(w[i].failed, 0);
	}
	(void)env_tend(c->e);
	assert_true(journal_bytes(c) < LONG_BYTES);
	before = env_case_words(c);
	env_case_reopen(c);
	after = env_case_words(c);
	assert_string_equal(before, after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(a_compacted_journal_says_the_same),
		RUN_ENV(changes_during_a_compaction_are_in_both),
		RUN_ENV(a_compaction_may_be_killed_anywhere),
		RUN_ENV(all_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
