/* SPDX-License-Identifier: MIT */
/*
 * What broke once: an environment under damage, strange numbers and huge files.
 */
#include "env_case.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, env_case_setup, env_case_teardown)

/* Of the places where a journal is damaged, each how-manieth is tried. */
static size_t each = 1;

static const int punch_mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

static void assert_replays(struct env_case *c)
{
	_cleanup_buf_ struct buf before = {0}, after = {0};

	env_case_dump(c, &before);
	env_case_reopen(c);
	env_case_dump(c, &after);
	assert_string_equal(buf_str(&before), buf_str(&after));
}

static long resident_pages(void)
{
	long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &all, &resident), 2);
	(void)fclose(f);
	return resident;
}

TEST(data_of_a_write_that_was_never_recorded_does_not_show)
{
	struct env_case *c = *state;
	_cleanup_close_ int fd = -1;
	uint8_t garbage[9000], got[200];
	uint64_t ino;

	/* killed in the very first write: data, and no journal yet */
	env_close(c->e);
	c->e = NULL;
	memset(garbage, 'G', sizeof garbage);
	fd = openat(store_fd(c->store), "envs/e/data",
		    O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_ok(io_write(fd, garbage, sizeof garbage));
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	ino = env_case_file(c, "n");
	env_case_write(c, ino, "x", 100);
	assert_int_equal(env_read(c->e, ino, got, sizeof got, 0), 101);
	for (int i = 0; i < 100; i++)
		assert_int_equal(got[i], 0);
}

TEST(a_number_that_nobody_has_is_refused_and_leaves_nothing)
{
	struct env_case *c = *state;
	struct env_attr v = {.size = 5}, a;
	uint64_t last = env_case_file(c, "n"), no = last + 1;

	assert_int_equal(env_write(c->e, no, "x", 1, 0, false), -ENOENT);
	assert_int_equal(env_fallocate(c->e, no, 0, 0, 9), -ENOENT);
	assert_int_equal(env_setattr(c->e, no, ENV_SET_SIZE, &v, &a), -ENOENT);
	assert_int_equal(env_getattr(c->e, no, &a), -ENOENT);
	/* 9 is only the position of hl2, whose number is 5 */
	assert_int_equal(env_getattr(c->e, 9, &a), -ENOENT);
	assert_int_equal(env_write(c->e, 9, "x", 1, 0, false), -ENOENT);
	assert_replays(c);
}

TEST(a_hole_in_a_hole_costs_nothing)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "sparse"), at;
	const uint64_t size = UINT64_C(1) << 42;
	struct env_attr v = {.size = size}, a;
	struct env_stat before, after;
	long pages;

	assert_ok(env_setattr(c->e, ino, ENV_SET_SIZE, &v, &a));
	env_case_write(c, ino, "middle", UINT64_C(1) << 41);
	env_stat(c->e, &before);
	pages = resident_pages();
	assert_ok(env_fallocate(c->e, ino, punch_mode, 0, size));
	assert_ok(env_fallocate(c->e, ino, FALLOC_FL_ZERO_RANGE, 0, size));
	assert_true(resident_pages() - pages < 1024);
	env_stat(c->e, &after);
	assert_true(after.journal_bytes - before.journal_bytes < 1024);
	assert_int_equal(env_seek(c->e, ino, 0, SEEK_DATA, &at), -ENXIO);
	assert_int_equal(env_write(c->e, ino, "x", 1, size, false), -EFBIG);
	assert_int_equal(env_write(c->e, ino, "x", 1, UINT64_MAX, false),
			 -EFBIG);
}

TEST(a_punched_base_file_is_a_hole_where_it_had_data)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_at(c, "d/big").ino, at;
	uint8_t got[8192];

	assert_ok(env_fallocate(c->e, ino, punch_mode, 4096, CASE_BIG));
	assert_ok(env_seek(c->e, ino, 0, SEEK_HOLE, &at));
	assert_int_equal(at, 4096);
	assert_int_equal(env_seek(c->e, ino, 4096, SEEK_DATA, &at), -ENXIO);
	assert_int_equal(env_read(c->e, ino, got, 8192, 262144), 8192);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(got[i], 0);
	assert_replays(c);
}

TEST(a_reserved_range_costs_a_few_words)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_file(c, "reserved"), at;
	long pages = resident_pages();

	assert_ok(env_fallocate(c->e, ino, 0, 0, UINT64_C(1) << 30));
	assert_true(resident_pages() - pages < 400);
	env_case_write(c, ino, "in", 3 << 20);
	assert_ok(env_seek(c->e, ino, 0, SEEK_HOLE, &at));
	assert_int_equal(at, 1 << 30);
	assert_ok(env_fallocate(c->e, ino, punch_mode, 0, UINT64_C(1) << 30));
	assert_replays(c);
}

TEST(directories_may_be_deeper_than_any_path)
{
	enum { DEEP = 2100 }; /* of two bytes each: over PATH_MAX */
	struct env_case *c = *state;
	_cleanup_buf_ struct buf rows = {0};
	struct env_attr a = {.ino = ENV_ROOT}, top;

	assert_ok(env_mkdir(c->e, ENV_ROOT, "t", 0755, &env_case_root, &top));
	a = top;
	for (int i = 0; i < DEEP; i++)
		assert_ok(
			env_mkdir(c->e, a.ino, "s", 0755, &env_case_root, &a));
	assert_ok(env_rename(c->e, ENV_ROOT, "d", a.ino, "d", 0));
	assert_int_equal(env_rename(c->e, ENV_ROOT, "t", a.ino, "t", 0),
			 -EINVAL);
	env_case_diff(c, 0, &rows);
	assert_true(rows.len > 4 * 2 * DEEP);
}

/* Puts the environment's folder on a disk of 1 MiB of its own. */
static bool on_small_disk(struct env_case *c)
{
	_cleanup_buf_ struct buf info = {0};
	_cleanup_close_ int dir = -1;
	char store[300], path[320];

	(void)snprintf(store, sizeof store, "%s/store",
		       ((struct test_scratch *)c->scratch)->path);
	(void)snprintf(path, sizeof path, "%s/envs/e", store);
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	env_close(c->e);
	c->e = NULL;
	store_close(c->store); /* its descriptor does not see new mounts */
	c->store = NULL;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_ok(io_read_file(dir, "env", 1 << 16, &info));
	assert_ok(mount("none", path, "tmpfs", 0, "size=1m"));
	(void)close(dir);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_ok(io_write_file(dir, "env", info.data, info.len, false));
	assert_ok(store_open(store, 0, NULL, &c->store));
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	return true;
}

TEST(files_can_be_deleted_on_a_full_disk)
{
	static uint8_t data[30000];
	struct env_case *c = *state;
	struct env_attr v = {.size = 0}, a;
	char name[16], path[600];
	uint64_t ino = 0;
	int made = 0, r = 0;

	if (!on_small_disk(c))
		skip();
	for (; r >= 0; made++) {
		(void)snprintf(name, sizeof name, "f%d", made);
		r = env_mknod(c->e, ENV_ROOT, name, S_IFREG | 0666, 0,
			      &env_case_root, &a);
		if (r >= 0) {
			ino = a.ino;
			r = env_write(c->e, ino, data, sizeof data, 0, false);
		}
	}
	assert_int_equal(r, -ENOSPC);
	for (r = 0; r >= 0; made++) { /* and the rest with names alone */
		(void)snprintf(name, sizeof name, "d%d", made);
		r = env_mkdir(c->e, ENV_ROOT, name, 0755, &env_case_root, &a);
	}
	assert_int_equal(r, -ENOSPC);
	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	assert_ok(env_setattr(c->e, env_case_at(c, "f1").ino, ENV_SET_SIZE, &v,
			      &a));
	assert_ok(env_write(c->e, env_case_at(c, "f1").ino, data, 9000, 0,
			    false));
	assert_replays(c);
	env_close(c->e);
	c->e = NULL;
	(void)snprintf(path, sizeof path, "%s/store/envs/e",
		       ((struct test_scratch *)c->scratch)->path);
	assert_ok(umount2(path, MNT_DETACH));
}

/* Deleting makes room at once, though the room is free only after a commit. */
TEST(a_full_disk_has_room_again_without_a_sync)
{
	static uint8_t data[600000];
	struct env_case *c = *state;
	struct env_attr a;
	char path[600];

	if (!on_small_disk(c))
		skip();
	for (int i = 0; i < 20; i++) {
		uint64_t ino = env_case_file(c, "f");

		memset(data, 'a' + i, sizeof data);
		assert_ok(env_write(c->e, ino, data, sizeof data, 0, false));
		assert_int_equal(env_write(c->e, env_case_file(c, "g"), data,
					   sizeof data, 0, false),
				 -ENOSPC);
		assert_ok(env_unlink(c->e, ENV_ROOT, "g"));
		assert_ok(env_unlink(c->e, ENV_ROOT, "f"));
		env_reap_all(c->e);
	}
	assert_ok(env_sync(c->e));
	assert_ok(env_mknod(c->e, ENV_ROOT, "h", S_IFREG | 0666, 0,
			    &env_case_root, &a));
	assert_replays(c);
	env_close(c->e);
	c->e = NULL;
	(void)snprintf(path, sizeof path, "%s/store/envs/e",
		       ((struct test_scratch *)c->scratch)->path);
	assert_ok(umount2(path, MNT_DETACH));
}

/* Reads the journal into b; the environment is closed. */
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

	/* not O_TRUNC: some host file systems write that to the disk */
	assert_ok(io_write(fd, p, n));
	assert_ok(ftruncate(fd, (off_t)n));
}

enum { STEPS = 6 };

/* Makes six changes; texts are what diff says after none, one, two .. six. */
static void make_steps(struct env_case *c, struct buf *texts)
{
	uint64_t d = env_case_at(c, "d").ino;
	struct env_attr v = {.mode = 0600}, a;

	for (int step = 0; step <= STEPS; step++) {
		env_case_diff(c, 0, &texts[step]);
		switch (step) {
		case 0:
			assert_ok(env_symlink(c->e, d, "s", "t", &env_case_root,
					      &a));
			break;
		case 1:
			assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
			break;
		case 2:
			assert_ok(env_setxattr(c->e, 8, "user.q", "1", 1, 0,
					       false));
			break;
		case 3:
			assert_ok(
				env_rename(c->e, d, "sub", ENV_ROOT, "s2", 0));
			break;
		case 4:
			assert_ok(env_setattr(c->e, 4, ENV_SET_MODE, &v, &a));
			break;
		case 5:
			assert_ok(env_link(c->e, 8, ENV_ROOT, "x2", &a));
			break;
		}
	}
}

/* Opens what is there: an error, or the state after some of the steps. */
static int open_damaged(struct env_case *c, struct buf *texts)
{
	_cleanup_buf_ struct buf now = {0};
	int found = -1, r;

	r = env_open(c->store, "e", 0, NULL, &c->e);
	if (r < 0)
		return r;
	env_case_diff(c, 0, &now);
	for (int i = 0; i <= STEPS && found < 0; i++)
		if (now.len == texts[i].len &&
		    (!now.len || !memcmp(now.data, texts[i].data, now.len)))
			found = i;
	assert_true(found >= 0);
	env_close(c->e);
	c->e = NULL;
	return found;
}

TEST(a_cut_journal_is_a_prefix_and_a_flipped_bit_is_told)
{
	struct env_case *c = *state;
	struct buf texts[STEPS + 1] = {{0}};
	_cleanup_buf_ struct buf whole = {0}, now = {0};
	int last = 0, r;

	make_steps(c, texts);
	env_close(c->e);
	c->e = NULL;
	journal_take(c, &whole);
	for (size_t n = whole.len % each; n <= whole.len; n += each) {
		journal_give(c, whole.data, n);
		r = open_damaged(c, texts);
		assert_true(r >= last);
		last = r;
	}
	assert_int_equal(last, STEPS);
	for (size_t i = 0; i < whole.len * 8; i += 3 * each) {
		whole.data[i / 8] ^= (uint8_t)(1 << i % 8);
		journal_give(c, whole.data, whole.len);
		r = open_damaged(c, texts);
		whole.data[i / 8] ^= (uint8_t)(1 << i % 8);
		if (r >= 0) { /* only the last record may look torn */
			assert_int_equal(r, STEPS - 1);
			continue;
		}
		buf_clear(&now);
		journal_take(c, &now);
		assert_int_equal(now.len, whole.len);
	}
	for (int i = 0; i <= STEPS; i++)
		buf_fini(&texts[i]);
	journal_give(c, whole.data, whole.len);
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
}

/* Whole frames as an agent could write them into a value: every checksum seed
 * but the salt is known. */
TEST(a_frame_planted_in_a_value_is_not_taken_for_a_record)
{
	struct env_case *c = *state;
	_cleanup_buf_ struct buf fake = {0}, whole = {0};
	struct env_attr a = env_case_at(c, "a.txt");

	for (uint64_t seq = 0; seq < 64; seq++) {
		buf_put_u32(&fake, FORMAT_JOURNAL_MAGIC);
		buf_put_u32(&fake, 0);
		buf_put_u64(&fake, seq);
		buf_put_u64(&fake, oid_checksum("", 0, seq));
	}
	assert_ok(env_setxattr(c->e, a.ino, "user.first", "1", 1, 0, false));
	assert_ok(env_setxattr(c->e, a.ino, "user.fake", fake.data, fake.len, 0,
			       false));
	env_close(c->e);
	c->e = NULL;
	journal_take(c, &whole);
	journal_give(c, whole.data, whole.len - 10);
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	assert_int_equal(env_getxattr(c->e, a.ino, "user.first", NULL, 0), 1);
	assert_int_equal(env_getxattr(c->e, a.ino, "user.fake", NULL, 0),
			 -ENODATA);
}

TEST(a_reservation_that_cannot_be_had_takes_nothing)
{
	struct env_case *c = *state;
	uint64_t huge = FORMAT_MAX_FILE - 4096;
	struct env_attr a;
	struct env_stat st;

	assert_ok(env_mknod(c->e, ENV_ROOT, "n", S_IFREG | 0600, 0,
			    &env_case_root, &a));
	/* a disk of 4 TiB would have to be free */
	assert_int_equal(env_fallocate(c->e, a.ino, 0, 0, huge), -ENOSPC);
	env_stat(c->e, &st);
	assert_int_equal(st.data_bytes, 0);
	assert_int_equal(env_case_at(c, "n").size, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(data_of_a_write_that_was_never_recorded_does_not_show),
		RUN_ENV(a_number_that_nobody_has_is_refused_and_leaves_nothing),
		RUN_ENV(a_hole_in_a_hole_costs_nothing),
		RUN_ENV(a_punched_base_file_is_a_hole_where_it_had_data),
		RUN_ENV(a_reserved_range_costs_a_few_words),
		RUN_ENV(files_can_be_deleted_on_a_full_disk),
		RUN_ENV(a_full_disk_has_room_again_without_a_sync),
		RUN_ENV(directories_may_be_deeper_than_any_path),
		RUN_ENV(a_cut_journal_is_a_prefix_and_a_flipped_bit_is_told),
		RUN_ENV(a_frame_planted_in_a_value_is_not_taken_for_a_record),
		RUN_ENV(a_reservation_that_cannot_be_had_takes_nothing),
	};

	if (argc > 1)
		each = strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
