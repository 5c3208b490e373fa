/* SPDX-License-Identifier: MIT */
/*
 * test_fail_env.c - changes in an environment under faults.
 *
 * A sequence of calls, each of another kind, is made while the n-th allocation,
 * read, write or sync fails, and while the process is killed there. A call that
 * fails says with which error; the environment then works on, and what it shows
 * is what a replay of its journal shows. After a kill each call that returned
 * is there, and of the one that did not all or nothing.
 *
 * The clock stands still, so that equal states have equal digests.
 */
#include "fault_case.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"

enum { STEPS_MAX = 40, SHOWN_MAX = 12, CALLS_MAX = 20000, DATA = 20000 };

/* Shared with the children: what the environment shows after each step. */
struct trail {
	uint64_t reference[STEPS_MAX + 1];
	unsigned done;
};

static struct trail *trail;
static struct faults faults;
static int64_t step = 1;
static uint8_t bytes[DATA];
static const struct env_cred root = {0, 0, 022};

struct timespec __wrap_clock_now(void);
struct timespec __wrap_clock_now(void)
{
	return (struct timespec){.tv_sec = 1700000000};
}

/* --- the steps -------------------------------------------------------------- */

static int at(struct env *e, const char *path, uint64_t *ret_ino)
{
	struct env_attr a = {.ino = ENV_ROOT};
	char name[64];
	int r = 0;

	while (r == 0 && *path) {
		const size_t n = strcspn(path, "/");

		(void)snprintf(name, sizeof name, "%.*s", (int)n, path);
		r = env_lookup(e, a.ino, name, &a);
		path += n + (path[n] == '/');
	}
	*ret_ino = a.ino;
	return r;
}

static int make(struct env *e)
{
	struct env_attr a;

	return env_mknod(e, ENV_ROOT, "a", S_IFREG | 04755, 0, &root, &a);
}

static int fill(struct env *e)
{
	uint64_t ino;
	int r = at(e, "a", &ino);

	return r < 0 ? r : env_write(e, ino, bytes, DATA, 5000, true);
}

/* Over the middle of a file of the snapshot. */
static int write_base(struct env *e)
{
	uint64_t ino;
	int r = at(e, "big", &ino);

	return r < 0 ? r : env_write(e, ino, bytes, 9000, 130000, false);
}

static int resize(struct env *e, const char *path, uint64_t size)
{
	struct env_attr a = {.size = size};
	uint64_t ino;
	int r = at(e, path, &ino);

	return r < 0 ? r : env_setattr(e, ino, ENV_SET_SIZE, &a, &a);
}

static int cut(struct env *e)
{
	return resize(e, "big", 140001);
}

static int grow(struct env *e)
{
	return resize(e, "a", 400000);
}

static int chmod_dir(struct env *e)
{
	struct env_attr a = {.mode = 0711, .uid = 3};
	uint64_t ino;
	int r = at(e, "d", &ino);

	return r < 0 ? r : env_setattr(e, ino, ENV_SET_MODE | ENV_SET_UID, &a,
				       &a);
}

static int set_xattr(struct env *e)
{
	uint64_t ino;
	int r = at(e, "big", &ino);

	return r < 0 ? r : env_setxattr(e, ino, "user.z", "val", 3, 0, false);
}

static int drop_xattr(struct env *e)
{
	return env_removexattr(e, ENV_ROOT, "user.k");
}

static int make_dir(struct env *e)
{
	struct env_attr a;

	return env_mkdir(e, ENV_ROOT, "n", 0755, &root, &a);
}

static int make_symlink(struct env *e)
{
	struct env_attr a;
	uint64_t ino;
	int r = at(e, "n", &ino);

	return r < 0 ? r : env_symlink(e, ino, "s", "../big", &root, &a);
}

static int link_base(struct env *e)
{
	struct env_attr a;
	uint64_t ino, dir;
	int r = at(e, "d/f4", &ino);

	if (r == 0)
		r = at(e, "n", &dir);
	return r < 0 ? r : env_link(e, ino, dir, "l", &a);
}

static int rename_over(struct env *e)
{
	uint64_t dir;
	int r = at(e, "d", &dir);

	return r < 0 ? r : env_rename(e, dir, "f5", ENV_ROOT, "moved", 0);
}

static int exchange(struct env *e)
{
	uint64_t dir;
	int r = at(e, "d", &dir);

	return r < 0 ? r : env_rename(e, dir, "sub", ENV_ROOT, "n",
				      RENAME_EXCHANGE);
}

static int leave_whiteout(struct env *e)
{
	uint64_t dir;
	int r = at(e, "d", &dir);

	return r < 0 ? r : env_rename(e, dir, "f0", dir, "f9",
				      RENAME_WHITEOUT);
}

static int remove_file(struct env *e)
{
	uint64_t dir;
	int r = at(e, "d", &dir);

	return r < 0 ? r : env_unlink(e, dir, "f4");
}

static int punch(struct env *e)
{
	uint64_t ino;
	int r = at(e, "a", &ino);

	return r < 0 ? r : env_fallocate(e, ino, FALLOC_FL_PUNCH_HOLE |
						      FALLOC_FL_KEEP_SIZE,
					 8192, 4096);
}

static int allocate(struct env *e)
{
	uint64_t ino;
	int r = at(e, "a", &ino);

	return r < 0 ? r : env_fallocate(e, ino, 0, 399000, 90000);
}

static int copy(struct env *e)
{
	uint64_t in, out;
	int r = at(e, "big", &in);

	if (r == 0)
		r = at(e, "moved", &out);
	if (r == 0)
		r = (int)env_copy_range(e, in, 100, out, 4096, 50000);
	return r < 0 ? r : r == 50000 ? 0 : -EBADE;
}

static int tmpfile_with_name(struct env *e)
{
	struct env_attr a;
	int r = env_tmpfile(e, ENV_ROOT, 0600, &root, &a);

	if (r == 0)
		r = env_write(e, a.ino, "tmp", 3, 0, false);
	return r < 0 ? r : env_link(e, a.ino, ENV_ROOT, "t", &a);
}

static int make_and_remove_dir(struct env *e)
{
	struct env_attr a;
	int r = env_mkdir(e, ENV_ROOT, "gone", 0755, &root, &a);

	return r < 0 ? r : env_rmdir(e, ENV_ROOT, "gone");
}

static int sync_all(struct env *e)
{
	return env_sync(e);
}

static const struct {
	const char *name;
	int (*fn)(struct env *e);
	bool several; /* calls in one step: a kill may come between */
} steps[] = {
	{"make", make, false},
	{"fill", fill, false},
	{"write_base", write_base, false},
	{"cut", cut, false},
	{"grow", grow, false},
	{"chmod_dir", chmod_dir, false},
	{"set_xattr", set_xattr, false},
	{"drop_xattr", drop_xattr, false},
	{"make_dir", make_dir, false},
	{"make_symlink", make_symlink, false},
	{"link_base", link_base, false},
	{"rename_over", rename_over, false},
	{"exchange", exchange, false},
	{"leave_whiteout", leave_whiteout, false},
	{"remove_file", remove_file, false},
	{"punch", punch, false},
	{"allocate", allocate, false},
	{"copy", copy, true},
	{"tmpfile", tmpfile_with_name, true},
	{"mkdir_rmdir", make_and_remove_dir, true},
	{"sync", sync_all, false},
};

/* --- failing ---------------------------------------------------------------- */

static int complain(const char *what, const char *where, int r)
{
	print_message("fault %x/%u at call %ld: %s: %s: %d (%s)\n", faults.on,
		      faults.what, (long)faults.nth, where, what, r,
		      err_text(r));
	return 1;
}

static int expected_error(void)
{
	if (faults.on == FAULTS_ALLOC)
		return -ENOMEM;
	return faults.what == FAULTS_ENOSPC ? -ENOSPC : -EIO;
}

static bool goes_on(void)
{
	return faults.what == FAULTS_SHORT || faults.what == FAULTS_EINTR;
}

/* Errors that only follow from a step that has failed. */
static bool follows(int r)
{
	return r == -ENOENT || r == -EEXIST || r == -ENOTEMPTY ||
	       r == -ENODATA || r == -EBADE;
}

static int run_steps(struct env *e)
{
	bool failed = false;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const int r = steps[i].fn(e);

		if (r == 0 || (failed && follows(r)))
			continue;
		if (goes_on() || !faults_struck())
			return complain("must go on", steps[i].name, r);
		if (r != expected_error())
			return complain("another error", steps[i].name, r);
		failed = true;
	}
	return 0;
}

/* A file without a name that somebody has open. */
static int make_orphan(struct env *e, uint64_t *ret_ino)
{
	struct env_attr a;
	int r = env_mknod(e, ENV_ROOT, "o", S_IFREG | 0644, 0, &root, &a);

	if (r == 0)
		r = env_write(e, a.ino, bytes, DATA, 0, false);
	*ret_ino = a.ino;
	return r < 0 ? r : env_unlink(e, ENV_ROOT, "o");
}

static int check_orphan(struct env *e, uint64_t ino)
{
	static uint8_t have[DATA];

	return env_read(e, ino, have, DATA, 0) == DATA &&
			       memcmp(have, bytes, DATA) == 0
		       ? 0
		       : -EBADE;
}

enum { STRUCK = 100 };

/* Whether what memory says is what the files say. */
static int compare_replay(struct store *s, struct env **e)
{
	uint64_t before = 0, after = 1;
	int r = fault_env_digest_of(*e, &before);

	env_close(*e);
	*e = NULL;
	if (r == 0)
		r = env_open(s, "e", 0, NULL, e);
	if (r == 0)
		r = fault_env_digest_of(*e, &after);
	if (r < 0)
		return complain("replay", "close", r);
	return before == after ? 0 : complain("differs", "replay", 0);
}

static int fail_in(struct store *s, struct env **e)
{
	struct env_attr a;
	uint64_t orphan;
	bool struck;
	int r = make_orphan(*e, &orphan);

	if (r < 0)
		return complain("orphan", "before", r);
	faults_arm(&faults);
	r = run_steps(*e);
	(void)faults_disarm();
	struck = faults_struck();
	if (r != 0)
		return r;
	if (check_orphan(*e, orphan) < 0)
		return complain("orphan", "after", 0);
	r = env_mknod(*e, ENV_ROOT, "after", S_IFREG | 0644, 0, &root, &a);
	if (r < 0)
		return complain("works on", "after", r);
	r = compare_replay(s, e);
	return r ? r : struck ? STRUCK : 0;
}

static int run_failing(struct fault_case *c)
{
	struct store *s = NULL;
	struct env *e = NULL;
	int r;

	r = store_open(c->store, 0, NULL, &s);
	if (r == 0)
		r = env_open(s, "e", 0, NULL, &e);
	if (r < 0)
		return complain("open", "before", r);
	r = fail_in(s, &e);
	env_close(e);
	store_close(s);
	return r;
}

static int check_clean(struct fault_case *c)
{
	const int r = fault_fsck(c, false);

	return r < 0 || c->shared->damage ? complain("fsck", c->shared->rules, r)
					  : 0;
}

static void fail_everywhere(struct fault_case *c, const struct faults *f,
			    int64_t phase, unsigned *failures)
{
	int r = STRUCK;

	faults = *f;
	for (faults.nth = phase; r != 0; faults.nth += step) {
		assert_true(faults.nth < CALLS_MAX);
		fault_case_fresh(c);
		r = fault_child(run_failing, c);
		*failures += r != 0 && r != STRUCK;
		*failures += fault_child(check_clean, c) != 0;
		if (*failures > SHOWN_MAX)
			return;
	}
	print_message("%x/%u: %ld places\n", f->on, f->what,
		      (long)(faults.nth - step));
}

static void fail_all(void **state, const struct faults *all, size_t n)
{
	unsigned failures = 0;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i % 251 + 1);
	for (size_t i = 0; i < n; i++)
		fail_everywhere(*state, &all[i], 1 + (int64_t)i % step,
				&failures);
	assert_int_equal(failures, 0);
}

TEST(the_nth_allocation_fails)
{
	static const struct faults all[] = {
		{.on = FAULTS_ALLOC, .what = FAULTS_EIO}};

	fail_all(state, all, ARRAY_SIZE(all));
}

TEST(the_nth_read_fails)
{
	static const struct faults all[] = {
		{.on = FAULTS_READ, .what = FAULTS_EIO},
		{.on = FAULTS_READ, .what = FAULTS_SHORT}};

	fail_all(state, all, ARRAY_SIZE(all));
}

TEST(the_nth_write_or_sync_fails)
{
	static const struct faults all[] = {
		{.on = FAULTS_WRITE, .what = FAULTS_EIO},
		{.on = FAULTS_WRITE, .what = FAULTS_ENOSPC},
		{.on = FAULTS_WRITE, .what = FAULTS_SHORT},
		{.on = FAULTS_WRITE | FAULTS_READ | FAULTS_SYNC,
		 .what = FAULTS_EINTR},
		{.on = FAULTS_SYNC, .what = FAULTS_EIO}};

	fail_all(state, all, ARRAY_SIZE(all));
}

/* --- dying ------------------------------------------------------------------ */

/* Makes the steps, with a note after each. */
static int run_noting(struct fault_case *c)
{
	struct store *s = NULL;
	struct env *e = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = env_open(s, "e", 0, NULL, &e);
	faults_arm(&faults);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++) {
		r = steps[i].fn(e);
		trail->done = (unsigned)i + 1;
	}
	(void)faults_disarm();
	env_close(e);
	store_close(s);
	return r < 0 ? complain("steps", steps[trail->done - 1].name, r) : 0;
}

/* What the environment shows after each step of a run without faults. */
static int note_references(struct fault_case *c)
{
	struct store *s = NULL;
	struct env *e = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = env_open(s, "e", 0, NULL, &e);
	for (size_t i = 0; r == 0 && i <= ARRAY_SIZE(steps); i++) {
		r = fault_env_digest_of(e, &trail->reference[i]);
		if (r == 0 && i < ARRAY_SIZE(steps))
			r = steps[i].fn(e);
	}
	env_close(e);
	store_close(s);
	return r < 0 ? 1 : 0;
}

static int check_death(struct fault_case *c)
{
	const unsigned n = trail->done;
	struct store *s = NULL;
	uint64_t digest = 0;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_env_digest(s, "e", 0, &digest);
	store_close(s);
	if (r < 0)
		return complain("open", "death", r);
	if (digest == trail->reference[n] || n == ARRAY_SIZE(steps) ||
	    digest == trail->reference[n + 1] || steps[n].several)
		return 0;
	return complain("is neither there nor not", steps[n].name, 0);
}

static void die_everywhere(struct fault_case *c, uint32_t what, uint32_t part)
{
	int r = FAULT_KILLED;

	faults = (struct faults){.on = FAULTS_WRITE | FAULTS_SYNC,
				 .what = what,
				 .bytes = part};
	while (r == FAULT_KILLED) {
		faults.nth++;
		assert_true(faults.nth < CALLS_MAX);
		fault_case_fresh(c);
		trail->done = 0;
		r = fault_child(run_noting, c);
		assert_true(r == 0 || r == FAULT_KILLED);
		assert_int_equal(fault_child(check_death, c), 0);
		assert_int_equal(fault_child(check_clean, c), 0);
	}
	assert_true(faults.nth > 30);
}

TEST(killed_at_any_write_a_change_is_there_or_not)
{
	struct fault_case *c = *state;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i % 251 + 1);
	trail = mmap(NULL, sizeof *trail, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(trail != MAP_FAILED);
	fault_case_fresh(c);
	faults = (struct faults){.on = 0};
	assert_int_equal(fault_child(note_references, c), 0);
	die_everywhere(c, FAULTS_KILL, 0);
	die_everywhere(c, FAULTS_TEAR, 0);
	if (step == 1)
		for (uint32_t part = 1; part < 64; part *= 3)
			die_everywhere(c, FAULTS_TEAR, part);
	(void)munmap(trail, sizeof *trail);
}

/* test_fail_env [STEP]: of the calls, each STEP-th only. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_FAULTS(the_nth_allocation_fails),
		RUN_FAULTS(the_nth_read_fails),
		RUN_FAULTS(the_nth_write_or_sync_fails),
		RUN_FAULTS(killed_at_any_write_a_change_is_there_or_not),
	};

	step = fault_case_step(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
