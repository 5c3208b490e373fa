/* SPDX-License-Identifier: MIT */
/*
 * test_fail.c - the n-th allocation, read, write or sync of a call fails or is
 * short, for n = 1 until nothing fails any more.
 *
 * The call says so, with that error and no other, or has done what it was asked
 * for; what is short or interrupted it goes on with. The same process works on
 * when there is memory again, nothing leaks (with the address sanitizer), fsck
 * finds nothing, and what was there before is there.
 */
#include "fault_case.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "exchange/import_dir.h"
#include "gc_case.h"
#include "store/gc.h"

enum { CALLS_MAX = 20000, SHOWN_MAX = 12 };

struct call {
	const char *name;
	fault_fn run;  /* 0 or a negative errno */
	fault_fn look; /* at what a run that returned 0 has done */
	bool changes;
	void (*damage)(struct fault_case *c); /* before each run, or NULL */
};

static int64_t step = 1;
static const struct call *call;
static struct faults faults;

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

static int complain(const struct fault_case *c, const char *what, int r)
{
	const char *rules = c->shared->rules;

	print_message("%s: fault %x/%u at call %ld: %s: %d (%s); fsck: %s\n",
		      call->name, faults.on, faults.what, (long)faults.nth,
		      what, r, err_text(r), rules);
	return 1;
}

/* An index that cannot be read is not there for a repair. */
static bool is_unreadable(int r)
{
	return call->damage && faults.on == FAULTS_READ && r == -EFSCORRUPTED;
}

enum { STRUCK = 100 };

/* Runs with the fault, then once more without. 0: nothing failed. */
static int run_armed(struct fault_case *c)
{
	bool struck;
	int r;

	faults_arm(&faults);
	r = call->run(c);
	c->shared->calls = faults_disarm();
	struck = faults_struck();
	c->shared->acked = r == 0;
	if (r < 0 && (!struck || goes_on()))
		return complain(c, "must go on", r);
	if (r < 0 && r != expected_error() && !is_unreadable(r))
		return complain(c, "another error", r);
	/* A store that was damaged may be so still. */
	if ((r == 0 || !call->damage) && call->look(c) != 0)
		return complain(c, "what is there now", call->look(c));
	/* LMDB takes no more commits after a failed write. */
	if (faults.on == FAULTS_ALLOC || faults.on == FAULTS_READ) {
		r = call->run(c);
		if (r < 0)
			return complain(c, "once more", r);
	}
	return struck ? STRUCK : 0;
}

static int check_after(struct fault_case *c)
{
	int r = fault_fsck(c, call->damage != NULL);

	if (r < 0 || c->shared->damage > 0)
		return complain(c, "fsck", r);
	r = call->look(c);
	if (r < 0)
		return complain(c, "look", r);
	r = call->run(c);
	c->shared->acked = 1;
	return r < 0 || call->look(c) < 0 ? complain(c, "again", r) : 0;
}

/* Makes every step-th call fail, from the one numbered phase on. */
static unsigned fail_everywhere(struct fault_case *c, const struct faults *f,
				int64_t phase, unsigned *failures)
{
	int r = STRUCK;
	int64_t n = phase;

	fault_case_fresh(c);
	while (r != 0) {
		assert_true(n < CALLS_MAX);
		if (call->changes)
			fault_case_fresh(c);
		if (call->damage)
			call->damage(c);
		c->shared->acked = 0;
		faults = *f;
		faults.nth = n;
		r = fault_child(run_armed, c);
		if (r != STRUCK && r != 0) {
			++*failures;
			if (c->shared->calls < n)
				break;
		}
		if (call->changes && fault_child(check_after, c) != 0)
			++*failures;
		if (*failures >= SHOWN_MAX)
			break;
		n += step;
	}
	return (unsigned)c->shared->calls;
}

static void fail_calls(void **state, const struct call *k)
{
	static const struct faults all[] = {
		{.on = FAULTS_ALLOC, .what = FAULTS_EIO},
		{.on = FAULTS_READ, .what = FAULTS_EIO},
		{.on = FAULTS_READ, .what = FAULTS_SHORT},
		{.on = FAULTS_READ | FAULTS_WRITE | FAULTS_SYNC,
		 .what = FAULTS_EINTR},
		{.on = FAULTS_WRITE, .what = FAULTS_EIO},
		{.on = FAULTS_WRITE, .what = FAULTS_ENOSPC},
		{.on = FAULTS_WRITE, .what = FAULTS_ENOSPC, .lasting = 1},
		{.on = FAULTS_WRITE, .what = FAULTS_SHORT},
		{.on = FAULTS_SYNC, .what = FAULTS_EIO},
	};
	unsigned failures = 0;
	unsigned n[ARRAY_SIZE(all)];

	call = k;
	/* Another part of the calls for each kind of fault. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		n[i] = fail_everywhere(*state, &all[i], 1 + (int64_t)i % step,
				       &failures);
	print_message("%s: %u allocations, %u reads, %u writes, %u syncs\n",
		      k->name, n[0], n[1], n[4], n[8]);
	assert_int_equal(failures, 0);
	assert_true(n[0] > 5);
}

/* --- the calls -------------------------------------------------------------- */

static int look(struct fault_case *c)
{
	return fault_case_look(c);
}

static int open_store(struct fault_case *c)
{
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	store_close(s);
	return r;
}

TEST(opening_a_store)
{
	static const struct call k = {"open", open_store, look, true, NULL};

	fail_calls(state, &k);
}

static int count_refs(void *ctx, const char *ref, const struct oid *id)
{
	++*(int *)ctx;
	return 0;
}

static int count_snapshots(void *ctx, const struct snapshot_info *info)
{
	++*(int *)ctx;
	return 0;
}

static int read_all(struct fault_case *c)
{
	_cleanup_diag_ struct diag diag = {0};
	struct store *s = NULL;
	char hex[64];
	struct oid id;
	int n = 0;
	int r = store_open(c->store, 0, NULL, &s);

	oid_to_hex(&c->shared->kept, hex);
	hex[10] = '\0';
	if (r == 0)
		r = store_resolve(s, hex, &diag, &id);
	if (r == 0)
		r = store_resolve(s, "kept:v1", &diag, &id);
	if (r == 0 && !oid_equal(&id, &c->shared->kept))
		r = -EBADE;
	if (r == 0)
		r = store_refs(s, count_refs, &n);
	if (r == 0)
		r = store_snapshots(s, count_snapshots, &n);
	if (r == 0 && n != 7)
		r = -EBADE;
	if (r == 0)
		r = fault_case_look_in(c, s);
	store_close(s);
	return r;
}

TEST(resolving_and_reading)
{
	static const struct call k = {"read", read_all, look, false, NULL};

	fail_calls(state, &k);
}

static int import(struct fault_case *c)
{
	const struct import_options options = {.message = "again"};
	_cleanup_diag_ struct diag diag = {0};
	struct import_result res;
	struct store *s = NULL;
	int r = store_open(c->store, 0, &diag, &s);

	if (r == 0)
		r = import_dir(s, c->src, "new:latest", &options, &diag, &diag,
			       &res);
	store_close(s);
	return r;
}

static int look_imported(struct fault_case *c)
{
	struct store *s = NULL;
	struct oid id;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_case_look_in(c, s);
	if (r == 0) {
		r = store_ref_get(s, "new:latest", &id);
		if (r == -ENOENT)
			r = c->shared->acked ? -EBADE : 0;
		else if (r == 0)
			r = gc_case_check(s, &id);
	}
	store_close(s);
	return r;
}

TEST(importing)
{
	static const struct call k = {"import", import, look_imported, true,
				     NULL};
	struct fault_case *c = *state;
	char path[400];
	int fd;

	(void)snprintf(path, sizeof path, "%s/d/more", c->src);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_ok(io_write(fd, path, strlen(path)));
	(void)close(fd);
	fail_calls(state, &k);
}

static int collect(struct fault_case *c)
{
	const struct gc_options o = {.compress = true, .trash = true};
	struct gc_result res;
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = store_ref_delete(s, "gone:latest");
	if (r == 0 || r == -ENOENT)
		r = s ? store_snapshot_forget(s, &c->shared->gone) : r;
	if (r == 0 || r == -ENOENT)
		r = store_gc(s, &o, NULL, NULL, &res);
	store_close(s);
	return r;
}

TEST(collecting)
{
	static const struct call k = {"gc", collect, look, true, NULL};

	fail_calls(state, &k);
}

static int check(struct fault_case *c)
{
	const int r = fault_fsck(c, false);

	/* What the disk does not give is damage for a check. */
	if (r == 0 && c->shared->damage > 0)
		return faults_struck() && faults.on == FAULTS_READ ? -EIO
								  : -EBADE;
	return r;
}

TEST(checking)
{
	static const struct call k = {"fsck", check, look, false, NULL};

	fail_calls(state, &k);
}

static void lose_index(struct fault_case *c)
{
	char path[400];

	(void)snprintf(path, sizeof path, "%s/index/data.mdb", c->store);
	assert_ok(unlink(path));
}

/* Where a repair says that something is left, it is as good as failed. */
static int repair(struct fault_case *c)
{
	const int r = fault_fsck(c, true);

	return r == 0 && c->shared->damage > 0 ? -EIO : r;
}

TEST(repairing)
{
	static const struct call k = {"repair", repair, look, true, lose_index};

	fail_calls(state, &k);
}

/* test_fail [STEP]: of the calls, each STEP-th only. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_FAULTS(opening_a_store),
		RUN_FAULTS(resolving_and_reading),
		RUN_FAULTS(importing),
		RUN_FAULTS(collecting),
		RUN_FAULTS(checking),
		RUN_FAULTS(repairing),
	};

	step = fault_case_step(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
