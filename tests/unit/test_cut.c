/* SPDX-License-Identifier: MIT */
/*
 * test_cut.c - a command that is killed at its first write or sync, at its
 * second, and so on until one gets through; before the call or half-way.
 *
 * After each death: the store opens, what was acknowledged is there, fsck finds
 * nothing or repairs it without loss, and the same command works then. rm + gc
 * with many segments is in test_gc_cut.c, the server in
 * tests/integration/test_cut.py.
 */
#include "fault_case.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "exchange/import_dir.h"
#include "gc_case.h"
#include "store/gc.h"

enum { PLACES_MAX = 5000 };

/* What a run has acknowledged. */
enum { ACK_DONE = 1, ACK_REMOVED = 2 };

struct command {
	fault_fn run; /* arms nothing itself */
	fault_fn look;
	void (*damage)(struct fault_case *c); /* of the golden store, or NULL */
	int least; /* places that there must be */
};

static const struct command *command; /* the one that is being cut */
static struct faults faults;
static int64_t step = 1;
static struct fault_case *inner;

static int report(const char *what, int r)
{
	if (r < 0)
		print_message("%s: %s; fsck: %s\n", what, err_text(r),
			      inner->shared->rules);
	return r < 0 ? 1 : 0;
}

static int run_armed(struct fault_case *c)
{
	int r;

	faults_arm(&faults);
	r = command->run(c);
	c->shared->calls = faults_disarm();
	return report("run", r);
}

/* A damaged store may stay closed until it is repaired. */
static int look_before(struct fault_case *c)
{
	return command->damage ? 0 : report("open", command->look(c));
}

static int check(struct fault_case *c)
{
	return report("fsck", fault_fsck(c, false));
}

static int repair(struct fault_case *c)
{
	return report("repair", fault_fsck(c, true));
}

static int again(struct fault_case *c)
{
	int r = report("look", command->look(c));

	if (r == 0)
		r = report("again", command->run(c));
	return r ? r : report("look again", command->look(c));
}

/* Said with the place, since a child's messages alone do not tell it. */
static void must(fault_fn fn, struct fault_case *c, int64_t n)
{
	const int r = fault_child(fn, c);

	if (r != 0)
		fail_msg("at call %ld: %d, fsck: %s", (long)n, r,
			 c->shared->rules);
}

static void check_after(struct fault_case *c, int64_t n)
{
	must(look_before, c, n);
	must(check, c, n);
	if (c->shared->damage > 0) {
		must(repair, c, n);
		assert_int_equal(c->shared->damage, 0);
	}
	must(again, c, n);
	must(check, c, n);
	if (c->shared->damage > 0)
		fail_msg("at call %ld fsck finds %s after all", (long)n,
			 c->shared->rules);
}

static void cut_everywhere(struct fault_case *c, const struct command *k,
			   uint32_t what, uint32_t bytes)
{
	int64_t n = step > 1 && what == FAULTS_TEAR ? 2 : 1;
	int r = FAULT_KILLED;

	command = k;
	inner = c;
	for (; r == FAULT_KILLED; n += step) {
		assert_true(n < PLACES_MAX);
		fault_case_fresh(c);
		if (k->damage)
			k->damage(c);
		c->shared->acked = 0;
		faults = (struct faults){.on = FAULTS_WRITE | FAULTS_SYNC,
					 .what = what,
					 .bytes = bytes,
					 .nth = n};
		r = fault_child(run_armed, c);
		assert_true(r == FAULT_KILLED || r == 0);
		check_after(c, n);
	}
	print_message("%ld places to die\n", (long)(n - step) - 1);
	assert_true(n > k->least);
}

/* Killed and torn at different places when not at all of them. */
static void cut(void **state, const struct command *k)
{
	cut_everywhere(*state, k, FAULTS_KILL, 0);
	cut_everywhere(*state, k, FAULTS_TEAR, 0);
	if (step > 1)
		return;
	for (uint32_t bytes = 1; bytes < 10000; bytes *= 8)
		cut_everywhere(*state, k, FAULTS_TEAR, bytes);
}

/* --- the commands ----------------------------------------------------------- */

static int import(struct fault_case *c)
{
	const struct import_options options = {.message = "again"};
	_cleanup_diag_ struct diag diag = {0};
	struct import_result res;
	struct store *s = NULL;
	int r = store_open(c->store, STORE_CREATE, &diag, &s);

	if (r == 0)
		r = import_dir(s, c->src, "new:latest", &options, NULL, &diag,
			       &res);
	if (r == 0) {
		c->shared->made = res.id;
		c->shared->acked |= ACK_DONE;
	}
	for (size_t i = 0; r < 0 && diag_line(&diag, i); i++)
		print_message("%s\n", diag_line(&diag, i));
	store_close(s);
	return r;
}

static int look_at_made(struct fault_case *c, struct store *s)
{
	struct oid id;
	int r = store_ref_get(s, "new:latest", &id);

	/* Not acknowledged: there as a whole, or not at all. */
	if (r == -ENOENT)
		return c->shared->acked ? -EBADE : 0;
	return r < 0 ? r : gc_case_check(s, &id);
}

static int look_imported(struct fault_case *c)
{
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_case_look_in(c, s);
	if (r == 0)
		r = gc_case_check(s, &c->shared->gone);
	if (r == 0)
		r = look_at_made(c, s);
	store_close(s);
	return r;
}

/* Something that the golden store does not have. */
static void change_source(struct fault_case *c)
{
	char path[400];
	int fd;

	(void)snprintf(path, sizeof path, "%s/d/more", c->src);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_ok(io_write(fd, path, strlen(path)));
	(void)close(fd);
}

TEST(a_killed_import_loses_nothing)
{
	static const struct command k = {import, look_imported, NULL, 10};

	change_source(*state);
	cut(state, &k);
}

static int look_first(struct fault_case *c)
{
	struct store *s = NULL;
	int r;

	if (!c->shared->acked && access(c->store, F_OK) < 0)
		return 0;
	r = store_open(c->store, 0, NULL, &s);
	if (r == 0)
		r = look_at_made(c, s);
	store_close(s);
	return r;
}

/* There is no store: the import makes it. */
static int check_if_any(struct fault_case *c)
{
	return access(c->store, F_OK) < 0 ? 0 : check(c);
}

TEST(a_killed_first_import_leaves_no_half_of_a_store)
{
	static const struct command k = {import, look_first, NULL, 0};
	const uint32_t whats[] = {FAULTS_KILL, FAULTS_TEAR};
	struct fault_case *c = *state;
	int64_t n;
	int r;

	command = &k;
	inner = c;
	for (size_t i = 0; i < ARRAY_SIZE(whats); i++) {
		for (n = 1, r = FAULT_KILLED; r == FAULT_KILLED; n += step) {
			assert_true(n < PLACES_MAX);
			assert_ok(io_remove_tree(AT_FDCWD, c->store));
			c->shared->acked = 0;
			faults = (struct faults){
				.on = FAULTS_WRITE | FAULTS_SYNC,
				.what = whats[i],
				.nth = n};
			r = fault_child(run_armed, c);
			must(look_before, c, n);
			must(check_if_any, c, n);
			assert_int_equal(c->shared->damage, 0);
			must(again, c, n);
		}
		print_message("%ld places to die\n", (long)(n - step) - 1);
		assert_true(n > 30);
	}
}

static int remove_and_collect(struct fault_case *c, bool compress)
{
	const struct gc_options o = {.compress = compress, .trash = true};
	struct gc_result res;
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = store_ref_delete(s, "gone:latest");
	if (r == 0 || r == -ENOENT)
		r = s ? store_snapshot_forget(s, &c->shared->gone) : r;
	if (r == 0 || r == -ENOENT) {
		c->shared->acked |= ACK_REMOVED;
		r = store_gc(s, &o, NULL, NULL, &res);
	}
	if (r == 0)
		c->shared->acked |= ACK_DONE;
	store_close(s);
	return r;
}

static int collect(struct fault_case *c)
{
	return remove_and_collect(c, false);
}

static int compress(struct fault_case *c)
{
	return remove_and_collect(c, true);
}

static int look_collected(struct fault_case *c)
{
	struct store *s = NULL;
	struct oid id;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_case_look_in(c, s);
	/* What was removed stays so. */
	if (r == 0 && c->shared->acked & ACK_REMOVED &&
	    store_ref_get(s, "gone:latest", &id) != -ENOENT)
		r = -EBADE;
	if (r == 0 && c->shared->acked & ACK_DONE &&
	    store_has(s, &c->shared->gone) != 0)
		r = -EBADE;
	store_close(s);
	return r;
}

TEST(a_killed_collection_loses_nothing)
{
	static const struct command k = {collect, look_collected, NULL, 20};

	cut(state, &k);
}

TEST(a_killed_compression_loses_nothing)
{
	static const struct command k = {compress, look_collected, NULL, 20};

	cut(state, &k);
}

/* --- repairs ---------------------------------------------------------------- */

static int repair_quietly(struct fault_case *c)
{
	const int r = fault_fsck(c, true);

	return r == 0 && c->shared->damage > 0 ? -EBADE : r;
}

static void lose_index(struct fault_case *c)
{
	char path[400];

	(void)snprintf(path, sizeof path, "%s/index/data.mdb", c->store);
	assert_ok(unlink(path));
}

static int look_repaired(struct fault_case *c)
{
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = fault_case_look_in(c, s);
	if (r == 0)
		r = gc_case_check(s, &c->shared->gone);
	store_close(s);
	return r;
}

TEST(a_killed_repair_of_the_index_loses_nothing)
{
	static const struct command k = {repair_quietly, look_repaired,
					 lose_index, 20};

	cut(state, &k);
}

/* Writes over a part of a file, from the end when at is negative. */
static void damage_file(struct fault_case *c, const char *name, off_t at)
{
	char path[400];
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", c->store, name);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	if (at < 0)
		at += lseek(fd, 0, SEEK_END);
	assert_int_equal(pwrite(fd, "\xde\xad\xbe\xef", 4, at), 4);
	(void)close(fd);
}

static void damage_log(struct fault_case *c)
{
	damage_file(c, "copies/log", 60);
}

TEST(a_killed_repair_of_the_copies_loses_nothing)
{
	static const struct command k = {repair_quietly, look_repaired,
					 damage_log, 3};

	cut(state, &k);
}

static void damage_pages(struct fault_case *c)
{
	enum { PAGE = 4096, FIRST = 2, LAST = 12 };

	for (int i = FIRST; i < LAST; i++)
		damage_file(c, "index/data.mdb", i * PAGE + 12);
	damage_file(c, "envs/e/journal", -5);
}

static int look_without_env(struct fault_case *c)
{
	struct store *s = NULL;
	int r = store_open(c->store, 0, NULL, &s);

	if (r == 0)
		r = gc_case_check(s, &c->shared->kept);
	if (r == 0)
		r = gc_case_check(s, &c->shared->gone);
	store_close(s);
	return r;
}

TEST(a_killed_repair_of_pages_and_a_journal_loses_nothing)
{
	static const struct command k = {repair_quietly, look_without_env,
					 damage_pages, 20};

	cut(state, &k);
}

/* test_cut [STEP]: at each STEP-th call only. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_FAULTS(a_killed_import_loses_nothing),
		RUN_FAULTS(a_killed_first_import_leaves_no_half_of_a_store),
		RUN_FAULTS(a_killed_collection_loses_nothing),
		RUN_FAULTS(a_killed_compression_loses_nothing),
		RUN_FAULTS(a_killed_repair_of_the_index_loses_nothing),
		RUN_FAULTS(a_killed_repair_of_the_copies_loses_nothing),
		RUN_FAULTS(
			a_killed_repair_of_pages_and_a_journal_loses_nothing),
	};

	step = fault_case_step(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
