/* SPDX-License-Identifier: MIT */
/*
 * What survives the machine: commits, replay on another boot, room that comes
 * back. The linker wraps the boot id, so that "another boot" is a variable, and
 * fdatasync, which costs the tests nothing, counts, fails or changes something
 * meanwhile.
 */
#include "env_case.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/boot.h"
#include "base/err.h"
#include "object/format.h"

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, setup, env_case_teardown)

static char boot = '1';
static int boot_error;
static unsigned syncs;
static int sync_error;
static void (*while_syncing)(struct env_case *c);
static struct env_case *syncing;

int __wrap_boot_id(char ret[BOOT_ID_BYTES + 1]);
int __wrap_boot_id(char ret[BOOT_ID_BYTES + 1])
{
	memset(ret, boot, BOOT_ID_BYTES);
	ret[BOOT_ID_BYTES] = '\0';
	return boot_error;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	void (*hook)(struct env_case *) = while_syncing;

	syncs++;
	while_syncing = NULL;
	if (hook)
		hook(syncing);
	if (!sync_error)
		return 0;
	errno = sync_error;
	return -1;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return 0;
}

static int setup(void **state)
{
	boot = '1';
	sync_error = 0;
	while_syncing = NULL;
	return env_case_setup(state);
}

static void fill(struct env_case *c, uint64_t ino, char with, size_t n,
		 uint64_t at)
{
	_cleanup_free_ char *p = malloc(n);

	memset(p, with, n);
	assert_ok(env_write(c->e, ino, p, n, at, false));
}

static void assert_filled(struct env_case *c, uint64_t ino, char with, size_t n,
			  uint64_t at)
{
	_cleanup_free_ char *p = malloc(n);

	assert_int_equal(env_read(c->e, ino, p, n, at), n);
	for (size_t i = 0; i < n; i++)
		if (p[i] != with)
			fail_msg("byte %zu is %d", i, p[i]);
}

static void down(struct env_case *c)
{
	env_close(c->e);
	c->e = NULL;
}

static void up(struct env_case *c, struct diag *diag)
{
	assert_ok(env_open(c->store, "e", 0, diag, &c->e));
}

/* The machine dies: another boot. Everything that was written is on the disk
 * here; what may be missing is put in by hand. */
static void power_cut(struct env_case *c)
{
	down(c);
	boot++;
	up(c, NULL);
}

/* Writes over what the data file has: it never reached the disk. */
static void spoil_data(struct env_case *c)
{
	_cleanup_close_ int fd = openat(store_fd(c->store), "envs/e/data",
					O_RDWR | O_CLOEXEC);
	struct stat st;

	assert_ok(fstat(fd, &st));
	for (off_t at = 0; at < st.st_size; at += 4096) {
		char junk[4096];

		memset(junk, 'J', sizeof junk);
		assert_ok(io_pwrite(fd, junk, sizeof junk, (uint64_t)at));
	}
}

TEST(another_boot_ends_at_the_last_commit_and_says_so)
{
	struct env_case *c = *state;
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_free_ char *committed = NULL, *now = NULL;
	uint64_t ino = env_case_file(c, "kept");

	fill(c, ino, 'k', 100, 0);
	assert_ok(env_sync(c->e));
	committed = env_case_words(c);
	(void)env_case_file(c, "lost");
	fill(c, ino, 'l', 50, 100);
	down(c);
	boot++;
	up(c, &diag);
	now = env_case_words(c);
	assert_string_equal(now, committed);
	assert_int_equal(diag.count, 1);
	assert_non_null(strstr(diag_line(&diag, 0), "restarted"));
	/* what was cut does not come back, and work goes on */
	assert_int_equal(env_case_file(c, "next"), ino + 1);
	assert_ok(env_sync(c->e));
	power_cut(c);
	(void)env_case_at(c, "next");
	(void)env_case_at(c, "kept");
}

TEST(the_same_boot_keeps_everything)
{
	struct env_case *c = *state;
	_cleanup_free_ char *before = NULL, *after = NULL;

	(void)env_case_file(c, "one");
	assert_ok(env_sync(c->e));
	(void)env_case_file(c, "two");
	before = env_case_words(c);
	env_case_reopen(c);
	after = env_case_words(c);
	assert_string_equal(before, after);
	/* nobody knows how much of it is on the disk: it is dirty */
	assert_false(env_is_synced(c->e));
	assert_ok(env_sync(c->e));
	assert_true(env_is_synced(c->e));
	power_cut(c);
	(void)env_case_at(c, "two");
}

/* What is not synced is dropped after another boot only; whoever cannot tell
 * may not drop it. */
TEST(a_boot_that_cannot_be_told_drops_nothing)
{
	struct env_case *c = *state;
	_cleanup_diag_ struct diag diag = {0};

	(void)env_case_file(c, "one");
	assert_ok(env_sync(c->e));
	(void)env_case_file(c, "two");
	down(c);
	boot_error = -EMFILE;
	assert_int_equal(env_open(c->store, "e", 0, &diag, &c->e),
			 -EMFILE);
	boot_error = 0;
	assert_non_null(strstr(diag_line(&diag, 0), "cannot tell this boot"));
	up(c, &diag);
	(void)env_case_at(c, "two");
}

TEST(nothing_was_ever_committed)
{
	struct env_case *c = *state;

	(void)env_case_file(c, "lost");
	power_cut(c);
	assert_true(env_is_pristine(c->e));
	(void)env_case_file(c, "again");
	assert_ok(env_sync(c->e));
	power_cut(c);
	(void)env_case_at(c, "again");
}

TEST(little_data_is_synced_with_the_journal)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "f");

	fill(c, ino, 'a', 10, 0);
	assert_ok(env_sync(c->e)); /* and the names */
	syncs = 0;
	fill(c, ino, 'b', 64 << 10, 100);
	assert_ok(env_sync(c->e));
	assert_int_equal(syncs, 1);
	assert_ok(env_sync(c->e)); /* nothing to do */
	assert_int_equal(syncs, 1);
	down(c);
	spoil_data(c);
	boot++;
	up(c, NULL);
	assert_filled(c, ino, 'a', 10, 0);
	assert_filled(c, ino, '\0', 90, 10);
	assert_filled(c, ino, 'b', 64 << 10, 100);
}

TEST(data_in_the_journal_does_not_undo_what_a_later_commit_synced)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "f");

	fill(c, ino, 'a', 4096, 0);
	assert_ok(env_sync(c->e));
	fill(c, ino, 'b', 1 << 20, 0); /* too much to copy */
	syncs = 0;
	assert_ok(env_sync(c->e));
	assert_int_equal(syncs, 2);
	power_cut(c);
	assert_filled(c, ino, 'b', 1 << 20, 0);
}

TEST(on_the_same_boot_data_in_the_journal_is_older_than_the_file)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "f");

	fill(c, ino, 'a', 4096, 0);
	assert_ok(env_sync(c->e));
	fill(c, ino, 'b', 4096, 0);
	env_case_reopen(c);
	assert_filled(c, ino, 'b', 4096, 0);
}

static void make_late(struct env_case *c)
{
	(void)env_case_file(c, "late");
}

TEST(what_comes_while_the_data_is_synced_is_not_covered)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "f");

	fill(c, ino, 'a', 1 << 20, 0);
	syncing = c;
	while_syncing = make_late;
	assert_ok(env_sync(c->e));
	(void)env_case_at(c, "late");
	assert_false(env_is_synced(c->e));
	power_cut(c);
	assert_filled(c, ino, 'a', 1 << 20, 0);
	/* "late" is gone, and its number is free again */
	assert_int_equal(env_case_file(c, "late"), ino + 1);
	/* a second death: the first cut had taken the commit record along */
	power_cut(c);
	assert_filled(c, ino, 'a', 1 << 20, 0);
	assert_int_equal(env_case_file(c, "late"), ino + 1);
}

TEST(after_a_sync_that_failed_none_succeeds)
{
	struct env_case *c = *state;
	struct env_attr a;

	(void)env_case_file(c, "f");
	sync_error = EIO;
	assert_int_equal(env_sync(c->e), -EIO);
	sync_error = 0;
	assert_int_equal(env_sync(c->e), -EIO);
	assert_ok(env_mknod(c->e, ENV_ROOT, "g", S_IFREG | 0600, 0,
			    &env_case_root, &a));
	assert_int_equal(env_sync(c->e), -EIO);
	assert_false(env_is_synced(c->e));
	(void)env_case_at(c, "f");
}

TEST(volatile_waits_for_nothing)
{
	struct env_case *c = *state;
	struct env_stat st;

	down(c);
	assert_ok(env_open(c->store, "e", ENV_VOLATILE, NULL, &c->e));
	(void)env_case_file(c, "f");
	syncs = 0;
	assert_ok(env_sync(c->e));
	assert_int_equal(syncs, 0);
	env_stat(c->e, &st);
	assert_true(st.is_volatile);
	assert_ok(env_close_kept(c->e));
	c->e = NULL;
	boot++;
	up(c, NULL);
	(void)env_case_at(c, "f");
}

/* --- cuts and flips --------------------------------------------------------- */

static void journal_take(struct env_case *c, struct buf *b)
{
	_cleanup_close_ int dir = openat(store_fd(c->store), "envs/e",
					 O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_ok(io_read_file(dir, "journal", 1 << 20, b));
}

static void journal_give(struct env_case *c, const uint8_t *p, size_t n)
{
	_cleanup_close_ int fd = openat(store_fd(c->store), "envs/e/journal",
					O_WRONLY | O_CLOEXEC);

	assert_ok(io_write(fd, p, n));
	assert_ok(ftruncate(fd, (off_t)n));
}

enum { STEPS = 4 };

/* Makes changes with a commit after each but the last; what a state is called
 * is the number of files. */
static void make_steps(struct env_case *c)
{
	for (int i = 0; i <= STEPS; i++) {
		char name[2] = {(char)('0' + i), '\0'};
		uint64_t ino = env_case_file(c, name);

		fill(c, ino, name[0], 10, 0);
		if (i < STEPS)
			assert_ok(env_sync(c->e));
	}
	down(c);
}

/* Opens what is there on another boot: an error, or how many steps it has. */
static int open_steps(struct env_case *c)
{
	struct env_attr a;
	int n = 0, r;

	boot = '2';
	r = env_open(c->store, "e", 0, NULL, &c->e);
	if (r < 0)
		return r;
	for (; n <= STEPS; n++) {
		char name[2] = {(char)('0' + n), '\0'};

		if (env_lookup(c->e, ENV_ROOT, name, &a) < 0)
			break;
		assert_filled(c, a.ino, name[0], 10, 0);
	}
	down(c);
	return n;
}

TEST(cut_anywhere_another_boot_finds_a_commit)
{
	struct env_case *c = *state;
	_cleanup_buf_ struct buf whole = {0};
	int last = 0, r;

	make_steps(c);
	journal_take(c, &whole);
	for (size_t n = 0; n <= whole.len; n += 7) {
		journal_give(c, whole.data, n);
		r = open_steps(c);
		assert_true(r >= last && r <= STEPS);
		last = r;
	}
	assert_int_equal(last, STEPS);
	up(c, NULL);
}

/* A record that a later commit knew to be on the disk cannot be missing. */
TEST(a_flip_on_another_boot_is_damage_or_the_end)
{
	struct env_case *c = *state;
	_cleanup_buf_ struct buf whole = {0};
	unsigned damaged = 0, ended = 0;

	make_steps(c);
	journal_take(c, &whole);
	for (size_t i = 48 * 8; i < whole.len * 8; i += 1237) {
		int r;

		whole.data[i / 8] ^= (uint8_t)(1 << i % 8);
		journal_give(c, whole.data, whole.len);
		r = open_steps(c);
		whole.data[i / 8] ^= (uint8_t)(1 << i % 8);
		if (r >= 0) /* only of the last commit nothing is known */
			assert_true(r >= STEPS - 1);
		else
			assert_int_equal(r, -EFSBADCRC);
		damaged += r < 0;
		ended += r >= 0;
	}
	assert_true(damaged > 0 && ended > 0);
	journal_give(c, whole.data, whole.len);
	up(c, NULL);
}

/* Later records on the disk and an earlier one not: they were all on their way
 * when the machine died. */
TEST(a_gap_behind_the_last_commit_is_no_damage)
{
	struct env_case *c = *state;
	_cleanup_buf_ struct buf before = {0}, after = {0};

	(void)env_case_file(c, "kept");
	assert_ok(env_sync(c->e));
	journal_take(c, &before);
	(void)env_case_file(c, "gap");
	(void)env_case_file(c, "later");
	assert_ok(env_sync(c->e));
	down(c);
	journal_take(c, &after);
	memset(after.data + before.len, 0, 60);
	journal_give(c, after.data, after.len);
	boot++;
	up(c, NULL);
	(void)env_case_at(c, "kept");
	assert_int_equal(env_case_file(c, "gap"), CASE_LAST_INO + 2);
	/* on the boot that wrote it, whole records behind are damage; a gap of
	 * zeros is a machine that died */
	down(c);
	after.data[before.len + 30] = 1;
	after.data[before.len] = 1;
	journal_give(c, after.data, after.len);
	boot = '1';
	assert_int_equal(env_open(c->store, "e", 0, NULL, &c->e), -EFSBADCRC);
	journal_give(c, before.data, before.len);
	up(c, NULL);
}

static off_t journal_size(struct env_case *c)
{
	struct stat st;

	assert_ok(fstatat(store_fd(c->store), "envs/e/journal", &st, 0));
	return st.st_size;
}

/* Who syncs often finds zeros behind the journal's end, which are nothing. */
TEST(zeros_behind_the_end_are_no_tail)
{
	struct env_case *c = *state;
	_cleanup_diag_ struct diag diag = {0};
	uint64_t ino = env_case_file(c, "f");
	struct env_stat st;

	for (char i = 'a'; i < 'k'; i++) {
		fill(c, ino, i, 100, 0);
		assert_ok(env_sync(c->e));
	}
	env_stat(c->e, &st);
	assert_true((uint64_t)journal_size(c) > st.journal_bytes + 4096);
	(void)env_case_file(c, "g");
	down(c);
	up(c, &diag);
	assert_int_equal(diag.count, 0);
	assert_filled(c, ino, 'j', 100, 0);
	(void)env_case_at(c, "g");
	(void)env_case_file(c, "h");
	assert_ok(env_sync(c->e));
	down(c);
	boot++;
	up(c, &diag);
	assert_int_equal(diag.count, 0);
	(void)env_case_at(c, "h");
	assert_ok(env_close_kept(c->e));
	c->e = NULL;
	up(c, NULL);
	env_stat(c->e, &st);
	assert_int_equal(journal_size(c), st.journal_bytes);
	(void)env_case_at(c, "h");
}

/* --- room -------------------------------------------------------------------- */

TEST(a_freed_block_has_its_bytes_until_the_commit)
{
	struct env_case *c = *state;
	uint64_t old = env_case_file(c, "old"), new;

	fill(c, old, 'o', 1 << 20, 0);
	assert_ok(env_sync(c->e));
	assert_ok(env_unlink(c->e, ENV_ROOT, "old"));
	env_reap(c->e, old);
	new = env_case_file(c, "new");
	fill(c, new, 'n', 1 << 20, 0);
	power_cut(c);
	assert_filled(c, old, 'o', 1 << 20, 0);
}

TEST(room_comes_back_after_a_commit)
{
	struct env_case *c = *state;
	struct env_stat st;
	uint64_t ino;

	for (int round = 0; round < 20; round++) {
		ino = env_case_file(c, "f");
		fill(c, ino, 'a', 4 << 20, 0);
		fill(c, ino, 'b', 4 << 20, 4 << 20);
		assert_filled(c, ino, 'a', 4 << 20, 0);
		assert_ok(env_unlink(c->e, ENV_ROOT, "f"));
		env_reap(c->e, ino);
		assert_ok(env_sync(c->e));
		(void)env_tend(c->e);
		env_stat(c->e, &st);
		assert_true(st.data_bytes <= 2 << 20);
	}
}

/* Blocks that were used before hold old bytes: none may show. */
TEST(used_blocks_are_handed_out_clean)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "f"), big = env_case_at(c, "d/big").ino;
	uint8_t byte;

	fill(c, ino, 'J', 400 << 10, 0);
	assert_ok(env_unlink(c->e, ENV_ROOT, "f"));
	env_reap(c->e, ino);
	assert_ok(env_sync(c->e));
	ino = env_case_file(c, "g");
	fill(c, ino, 'g', 10, 5000);
	fill(c, ino, 'g', 1, 20000);
	assert_filled(c, ino, '\0', 5000, 0);
	assert_filled(c, ino, '\0', 20000 - 5010, 5010);
	assert_ok(env_fallocate(c->e, ino, 0, 20001, 90000));
	assert_filled(c, ino, '\0', 90000, 20001);
	fill(c, big, 'x', 1, 10);
	assert_int_equal(env_read(c->e, big, &byte, 1, 11), 1);
	assert_int_equal(byte, env_case_big(11));
	/* and what is free is found again */
	env_case_reopen(c);
	assert_filled(c, ino, '\0', 90000, 20001);
	fill(c, ino, 'h', 100 << 10, 200 << 10);
	assert_filled(c, ino, '\0', 5000, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(another_boot_ends_at_the_last_commit_and_says_so),
		RUN_ENV(the_same_boot_keeps_everything),
		RUN_ENV(a_boot_that_cannot_be_told_drops_nothing),
		RUN_ENV(nothing_was_ever_committed),
		RUN_ENV(little_data_is_synced_with_the_journal),
		RUN_ENV(data_in_the_journal_does_not_undo_what_a_later_commit_synced),
		RUN_ENV(on_the_same_boot_data_in_the_journal_is_older_than_the_file),
		RUN_ENV(what_comes_while_the_data_is_synced_is_not_covered),
		RUN_ENV(after_a_sync_that_failed_none_succeeds),
		RUN_ENV(volatile_waits_for_nothing),
		RUN_ENV(cut_anywhere_another_boot_finds_a_commit),
		RUN_ENV(a_flip_on_another_boot_is_damage_or_the_end),
		RUN_ENV(a_gap_behind_the_last_commit_is_no_damage),
		RUN_ENV(zeros_behind_the_end_are_no_tail),
		RUN_ENV(a_freed_block_has_its_bytes_until_the_commit),
		RUN_ENV(room_comes_back_after_a_commit),
		RUN_ENV(used_blocks_are_handed_out_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
