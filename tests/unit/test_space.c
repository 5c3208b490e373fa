/* SPDX-License-Identifier: MIT */
/*
 * Who needs what, the settings, and the limits that imports keep.
 */
#include "gc_case.h"

#include <sys/statvfs.h>

#include "base/err.h"
#include "object/format.h"
#include "store/gc.h"
#include "store/settings.h"
#include "store/space.h"

/* The disk, as the tests want it; the real one while fake_free is 0. */
static uint64_t fake_free;
static unsigned asked;

int __real_fstatvfs(int fd, struct statvfs *st);
int __real_fstatvfs64(int fd, struct statvfs *st);
int __wrap_fstatvfs(int fd, struct statvfs *st);
int __wrap_fstatvfs64(int fd, struct statvfs *st);

static void fake(struct statvfs *st)
{
	asked++;
	if (!fake_free)
		return;
	st->f_frsize = 4096;
	st->f_blocks = (1 << 30) / 4096; /* a reserve of 20 MiB and a half */
	st->f_bavail = fake_free / 4096;
}

int __wrap_fstatvfs(int fd, struct statvfs *st)
{
	int r = __real_fstatvfs(fd, st);

	fake(st);
	return r;
}

int __wrap_fstatvfs64(int fd, struct statvfs *st)
{
	int r = __real_fstatvfs64(fd, st);

	fake(st);
	return r;
}

static const struct gc_case small = {.files = 40, .seed = 1};
static const struct gc_case other = {.files = 40, .seed = 2, .large = 7};

TEST(usage_tells_own_from_shared)
{
	const struct gc_case same = {.files = 40, .seed = 1, .large = 3};
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 5);
	struct oid b = gc_case_put(s, &same, "b", 4);
	struct usage u;

	assert_ok(store_usage(s, NULL, &u));
	assert_int_equal(u.count, 2);
	assert_true(oid_equal(&u.snapshots[0].id, &a));
	assert_true(oid_equal(&u.snapshots[1].id, &b));
	/* Of the first: snapshot object and root; of the other the large file
	 * too. */
	assert_true(u.snapshots[0].own < 1000);
	assert_true(u.snapshots[1].own > 3 * FORMAT_CHUNK_BYTES);
	assert_true(u.snapshots[1].own < 3 * FORMAT_CHUNK_BYTES + 2000);
	assert_int_equal(u.stored,
			 u.shared + u.snapshots[0].own + u.snapshots[1].own);
	assert_int_equal(u.waste, 16);
	usage_fini(&u);
	gc_case_env(s, "one", &a);
	assert_ok(store_ref_delete(s, "a"));
	assert_ok(store_snapshot_forget(s, &a));
	assert_ok(store_usage(s, NULL, &u));
	assert_int_equal(u.count, 2);
	assert_true(u.snapshots[1].forgotten);
	usage_fini(&u);
	store_close(s);
}

TEST(settings_come_back_and_damage_is_told)
{
	struct store *s = make_store(state);
	struct settings in = {.max_store = UINT64_C(5) << 30, .grace_days = 30};
	_cleanup_diag_ struct diag d = {0};
	struct settings out;

	assert_ok(settings_read(s, NULL, &out));
	assert_int_equal(out.grace_days, 7);
	assert_int_equal(out.max_store, 0);
	assert_ok(settings_write(s, &in));
	assert_ok(settings_read(s, NULL, &out));
	assert_int_equal(out.grace_days, 30);
	assert_int_equal(out.max_store, UINT64_C(5) << 30);
	assert_false(out.no_births);
	in.no_births = true;
	assert_ok(settings_write(s, &in));
	assert_ok(settings_read(s, NULL, &out));
	assert_true(out.no_births);
	assert_int_equal(out.grace_days, 30);
	assert_ok(io_write_file(store_fd(s), "settings",
				"cowfs settings 1\ngrace-days 1\n", 30, false));
	assert_int_equal(settings_read(s, &d, &out), -EFSBADCRC);
	assert_int_equal(d.count, 1);
	store_close(s);
}

TEST(a_store_does_not_grow_beyond_its_limit)
{
	struct store *s = make_store(state);
	struct settings limit = {.max_store = 300000, .grace_days = 7};
	uint8_t data[4096] = {0};
	struct batch *b;
	struct oid id;
	int r = 0;

	(void)gc_case_put(s, &small, "a", 0);
	assert_ok(settings_write(s, &limit));
	/* What is there already costs nothing. */
	(void)gc_case_put(s, &small, "b", 0);
	assert_ok(batch_begin(s, &b));
	for (unsigned i = 0; r == 0 && i < 2000; i++) {
		memcpy(data, &i, sizeof i);
		r = batch_put(b, OID_BLOB, data, sizeof data, &id);
	}
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(batch_commit(b, NULL, NULL), -EDQUOT);
	store_close(s);
}

TEST(what_is_urgent_goes_beyond_the_limit_and_stops_at_the_reserve)
{
	struct store *s = make_store(state);
	struct settings limit = {.max_store = 1, .grace_days = 7};
	uint8_t data[4096] = {0};
	struct space disk;
	struct batch *b;
	struct oid id;

	assert_ok(settings_write(s, &limit));
	fake_free = 64 << 20;
	assert_ok(space_read(s, &disk));
	fake_free =
		disk.reserve + (2 << 20); /* an import leaves as much again */
	assert_ok(batch_begin(s, &b));
	batch_is_urgent(b);
	assert_ok(batch_put(b, OID_BLOB, data, sizeof data, &id));
	assert_ok(batch_commit(b, NULL, NULL));
	fake_free = disk.reserve;
	data[0] = 1;
	assert_ok(batch_begin(s, &b));
	batch_is_urgent(b);
	assert_int_equal(batch_put(b, OID_BLOB, data, sizeof data, &id),
			 -ENOSPC);
	batch_abort(b);
	fake_free = 0;
	store_close(s);
}

TEST(the_disk_and_the_store_are_measured)
{
	struct store *s = make_store(state);
	struct space_use use;
	struct space disk;

	(void)gc_case_put(s, &other, "a", 0);
	assert_ok(space_read(s, &disk));
	assert_true(disk.reserve >= 4 << 20);
	assert_true(disk.reserve <= 256 << 20);
	assert_true(disk.free <= disk.total);
	space_count(s, &use);
	assert_true(use.segments > 3 * FORMAT_CHUNK_BYTES);
	assert_true(use.index > 0);
	assert_int_equal(use.envs, 0);
	store_close(s);
}

/* Takes n bytes at a time from a disk that really shrinks; returns what is left
 * at the first refusal. */
static uint64_t take_all(struct store *s, uint64_t n)
{
	int r = 0;

	while (r == 0) {
		r = space_take(s, n);
		if (r == 0)
			fake_free -= n;
	}
	assert_int_equal(r, -ENOSPC);
	return fake_free;
}

TEST(environments_grow_up_to_the_reserve)
{
	struct store *s = make_store(state);
	struct space disk;
	uint64_t left;

	fake_free = 64 << 20;
	assert_ok(space_read(s, &disk));
	assert_int_equal(disk.reserve, (1 << 30) / 50);
	assert_int_equal(disk.for_envs, 2 * disk.reserve);
	asked = 0;
	left = take_all(s, 4096);
	assert_true(left >= disk.reserve && left < disk.reserve + 8192);
	/* not at each call */
	assert_true(asked < 100);
	/* larger than what is left, and smaller again: refused, still */
	assert_int_equal(space_take(s, 1 << 20), -ENOSPC);
	assert_int_equal(space_take(s, 8192), -ENOSPC);
	/* what is deleted comes back at once */
	fake_free += 1 << 20;
	assert_ok(space_take(s, 1 << 20));
	fake_free = 0;
	store_close(s);
}

TEST(an_import_leaves_as_much_again_to_environments)
{
	struct store *s = make_store(state);
	struct space disk;
	uint8_t data[4096] = {1};
	struct batch *b;
	struct oid id;

	fake_free = 64 << 20;
	assert_ok(space_read(s, &disk));
	fake_free = disk.for_envs - 4096;
	assert_ok(space_take(s, 1 << 20));
	assert_ok(batch_begin(s, &b));
	assert_int_equal(batch_put(b, OID_BLOB, data, sizeof data, &id),
			 -ENOSPC);
	batch_abort(b);
	fake_free = 0;
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(usage_tells_own_from_shared),
		RUN_SCRATCH(settings_come_back_and_damage_is_told),
		RUN_SCRATCH(a_store_does_not_grow_beyond_its_limit),
		RUN_SCRATCH(
			what_is_urgent_goes_beyond_the_limit_and_stops_at_the_reserve),
		RUN_SCRATCH(the_disk_and_the_store_are_measured),
		RUN_SCRATCH(environments_grow_up_to_the_reserve),
		RUN_SCRATCH(an_import_leaves_as_much_again_to_environments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
