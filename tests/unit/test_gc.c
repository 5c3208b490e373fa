/* SPDX-License-Identifier: MIT */
/*
 * What a collection keeps, what it frees, and when it does nothing at all.
 */
#include "gc_case.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "store/batch_int.h"
#include "store/gc.h"
#include "store/settings.h"

static const struct gc_case small = {.files = 40, .seed = 1};
static const struct gc_case other = {.files = 40, .seed = 2, .large = 7};
static const struct gc_options now = {.grace_days = 0};

static struct gc_result collect(struct store *s, const struct gc_options *o)
{
	_cleanup_diag_ struct diag d = {0};
	struct gc_result res = {0};
	const int r = store_gc(s, o, NULL, &d, &res);

	if (r < 0)
		fail_msg("gc: %s", d.count ? diag_line(&d, 0) : err_text(r));
	return res;
}

/* --- roots --------------------------------------------------------------- */

TEST(what_a_name_holds_stays_and_the_rest_goes)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	const uint64_t objects = gc_case_objects(s);
	struct oid b = gc_case_put(s, &other, "b", 0);
	struct gc_result res;
	unsigned files;

	res = collect(s, &now);
	assert_int_equal(res.objects, 0);
	assert_ok(gc_case_check(s, &b));
	assert_ok(store_ref_delete(s, "b"));
	assert_ok(store_snapshot_forget(s, &b));
	res = collect(s, &now);
	assert_int_equal(res.live_objects, objects);
	assert_int_equal(gc_case_objects(s), objects);
	assert_ok(gc_case_check(s, &a));
	assert_int_equal(gc_case_check(s, &b), -ENOENT);
	/* The space comes back, too: the frame of the segment aside. */
	assert_int_equal(gc_case_bytes(s, &files), res.live_bytes + 16);
	assert_int_equal(files, 1);
	store_close(s);
}

TEST(a_young_snapshot_without_a_name_stays_an_old_one_goes)
{
	struct store *s = make_store(state);
	struct oid young = gc_case_put(s, &small, NULL, 0);
	struct oid old =
		gc_case_put(s, &other, NULL, time(NULL) - INT64_C(8) * 86400);
	struct gc_options o = {.grace_days = -1};

	assert_int_equal(collect(s, &o).snapshots, 1);
	assert_ok(gc_case_check(s, &young));
	assert_int_equal(store_has(s, &old), 0);
	assert_ok(settings_write(s, &(struct settings){.grace_days = 0}));
	assert_int_equal(collect(s, &o).snapshots, 1);
	assert_int_equal(gc_case_objects(s), 0);
	store_close(s);
}

TEST(an_environment_keeps_its_snapshot)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	struct oid b = gc_case_put(s, &other, NULL, 1);

	gc_case_env(s, "one", &a);
	gc_case_env(s, "two", &b);
	assert_ok(store_ref_delete(s, "a"));
	assert_ok(store_snapshot_forget(s, &a));
	assert_int_equal(collect(s, &now).snapshots, 0);
	assert_ok(gc_case_check(s, &a));
	assert_ok(gc_case_check(s, &b));
	assert_ok(io_remove_tree(store_fd(s), "envs/one"));
	(void)collect(s, &now);
	assert_int_equal(store_has(s, &a), 0);
	assert_ok(gc_case_check(s, &b));
	store_close(s);
}

/* Says that a collection refuses and deletes nothing. */
static void refuses(struct store *s, int err, const char *word)
{
	_cleanup_diag_ struct diag d = {0};
	const uint64_t objects = gc_case_objects(s);
	struct gc_result res;
	unsigned files;
	const uint64_t bytes = gc_case_bytes(s, &files);

	assert_int_equal(store_gc(s, &now, NULL, &d, &res), err);
	assert_true(d.count > 0);
	assert_non_null(strstr(diag_line(&d, 0), word));
	assert_int_equal(gc_case_objects(s), objects);
	assert_int_equal(gc_case_bytes(s, &files), bytes);
}

TEST(an_environment_that_cannot_be_read_stops_it)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, NULL, 1);

	gc_case_env(s, "one", &a);
	assert_ok(io_write_file(store_fd(s), "envs/one/env", "x", 1, false));
	refuses(s, -EFSBADCRC, "envs/one");
	assert_ok(unlinkat(store_fd(s), "envs/one/env", 0));
	refuses(s, -EFSCORRUPTED, "envs/one");
	store_close(s);
}

/* Flips a byte in the payload of an object's record. */
static void damage(struct store *s, const struct oid *id)
{
	struct segment_place p;
	char name[64], byte;
	int fd;

	assert_ok(index_lookup(s->index, id, &p));
	(void)snprintf(name, sizeof name, "segments/%08u.seg", p.segment);
	fd = openat(store_fd(s), name, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)p.offset + 48), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)p.offset + 48), 1);
	(void)close(fd);
}

TEST(a_snapshot_that_cannot_be_read_stops_it)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	struct oid b = gc_case_put(s, &other, "b", 0);

	assert_ok(store_ref_delete(s, "b"));
	damage(s, &a);
	refuses(s, -EFSBADCRC, "cannot be read");
	assert_int_equal(store_has(s, &b), 1);
	store_close(s);
}

static int take_first(void *ctx, const struct oid *id,
		      const struct segment_place *p)
{
	struct {
		struct oid id;
		uint64_t offset;
	} *first = ctx;

	if (oid_kind(id) == OID_BLOB && p->offset < first->offset) {
		first->id = *id;
		first->offset = p->offset;
	}
	return 0;
}

/* The blob that was put first. */
static struct oid first_blob(struct store *s)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct {
		struct oid id;
		uint64_t offset;
	} first = {.offset = UINT64_MAX};

	assert_ok(index_txn_begin(s->index, false, &t));
	assert_ok(index_each_object(&t, take_first, &first));
	return first.id;
}

TEST(an_object_that_is_missing_stops_it)
{
	struct store *s = make_store(state);
	struct index_txn t = {0};
	struct oid blob;

	(void)gc_case_put(s, &other, "a", 0);
	blob = first_blob(s);
	assert_ok(index_txn_begin(s->index, true, &t));
	assert_ok(index_delete_object(&t, &blob));
	assert_ok(index_txn_commit(&t));
	refuses(s, -EFSCORRUPTED, "is not there");
	store_close(s);
}

/* --- space --------------------------------------------------------------- */

TEST(a_dry_run_changes_nothing_and_says_what_would_be)
{
	struct gc_options dry = {.dry_run = true};
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	struct gc_result would, did;
	uint64_t bytes, objects;
	unsigned files;

	(void)gc_case_put(s, &other, NULL, 1);
	bytes = gc_case_bytes(s, &files);
	objects = gc_case_objects(s);
	would = collect(s, &dry);
	assert_int_equal(gc_case_bytes(s, &files), bytes);
	assert_int_equal(gc_case_objects(s), objects);
	assert_int_equal(would.snapshots, 1);
	did = collect(s, &now);
	assert_int_equal(would.objects, did.objects);
	assert_int_equal(would.segments, did.segments);
	assert_true(would.freed >= did.freed);
	assert_true(would.freed - did.freed < 64);
	/* The new segment's header is not counted. */
	assert_int_equal(bytes - gc_case_bytes(s, &files), did.freed - 16);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(a_number_is_never_used_twice)
{
	struct store *s = make_store(state);
	struct stat st;

	(void)gc_case_put(s, &small, NULL, 1);
	(void)collect(s, &now);
	assert_true(fstatat(store_fd(s), "segments/00000001.seg", &st, 0) < 0);
	(void)gc_case_put(s, &small, "a", 0);
	assert_true(fstatat(store_fd(s), "segments/00000001.seg", &st, 0) < 0);
	assert_ok(fstatat(store_fd(s), "segments/00000002.seg", &st, 0));
	store_close(s);
}

TEST(small_segments_are_rewritten_in_several_steps)
{
	const struct gc_case many = {.files = 300, .seed = 3};
	struct store *s = make_store(state);
	struct oid a, b;
	unsigned files;

	batch_seam_int.segment_bytes = 100000;
	a = gc_case_put(s, &many, "a", 0);
	b = gc_case_put(s, &other, NULL, 1);
	(void)gc_case_bytes(s, &files);
	assert_true(files > 8);
	/* Every other file goes: all segments are half empty then. */
	(void)collect(s, &now);
	assert_ok(gc_case_check(s, &a));
	assert_int_equal(store_has(s, &b), 0);
	(void)gc_case_bytes(s, &files);
	store_close(s);
	s = make_store(state);
	assert_ok(gc_case_check(s, &a));
	batch_seam_int.segment_bytes = UINT64_C(256) << 20;
	store_close(s);
}

TEST(a_segment_that_a_writer_has_is_left_alone)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	struct stat st;
	int fd;

	(void)gc_case_put(s, &other, NULL, 1);
	fd = openat(store_fd(s), "segments/00000001.seg", O_RDWR | O_CLOEXEC);
	assert_ok(flock(fd, LOCK_EX));
	(void)collect(s, &now);
	assert_ok(fstat(fd, &st));
	assert_int_equal(st.st_nlink, 1);
	(void)close(fd);
	assert_int_equal(collect(s, &now).segments, 1);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(a_damaged_file_stays_and_the_others_move)
{
	_cleanup_diag_ struct diag notes = {0};
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	struct oid blob = first_blob(s);
	struct gc_result res;
	struct stat st;

	(void)gc_case_put(s, &other, NULL, 1);
	damage(s, &blob);
	assert_int_equal(store_gc(s, &now, &notes, NULL, &res), -EFSBADCRC);
	assert_int_equal(notes.count, 1);
	assert_true(res.objects > 0);
	assert_ok(fstatat(store_fd(s), "segments/00000001.seg", &st, 0));
	assert_int_equal(gc_case_check(s, &a), -EFSBADCRC);
	assert_int_equal(store_has(s, &blob), 1);
	store_close(s);
}

TEST(a_file_that_the_index_does_not_know_goes)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	unsigned files;

	assert_ok(io_write_file(store_fd(s), "segments/00000077.seg", "x", 1,
				false));
	assert_ok(io_write_file(store_fd(s), "segments/notes.txt", "x", 1,
				false));
	(void)collect(s, &now);
	(void)gc_case_bytes(s, &files);
	assert_int_equal(files, 2);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(what_a_killed_writer_appended_goes)
{
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	unsigned files;
	const uint64_t before = gc_case_bytes(s, &files);
	int fd = openat(store_fd(s), "segments/00000001.seg",
			O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, "tail", 4), 4);
	(void)close(fd);
	assert_int_equal(collect(s, &now).freed, 4);
	assert_int_equal(gc_case_bytes(s, &files), before);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(what_no_environment_uses_is_deflated)
{
	const struct gc_case plain = {
		.files = 60, .seed = 5, .large = 9, .plain = true};
	const struct gc_case used = {.files = 60, .seed = 6, .plain = true};
	struct gc_options o = {.grace_days = 0, .compress = true};
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &plain, "a", 0);
	struct oid b = gc_case_put(s, &used, "b", 0);
	struct gc_result res;
	unsigned files;
	uint64_t before;

	gc_case_env(s, "one", &b);
	before = gc_case_bytes(s, &files);
	res = collect(s, &o);
	assert_true(res.compressed >= 50);
	assert_true(res.compressed < 70);
	assert_true(gc_case_bytes(s, &files) < before);
	assert_ok(gc_case_check(s, &a));
	assert_ok(gc_case_check(s, &b));
	/* Importing it again finds it. */
	before = gc_case_bytes(s, &files);
	(void)gc_case_put(s, &plain, "c", 0);
	assert_int_equal(gc_case_bytes(s, &files), before);
	/* Nothing is left to do; rewriting keeps the form. */
	assert_int_equal(collect(s, &o).compressed, 0);
	assert_ok(store_ref_delete(s, "b"));
	assert_ok(io_remove_tree(store_fd(s), "envs/one"));
	assert_ok(store_snapshot_forget(s, &b));
	(void)collect(s, &now);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(trash_is_emptied_when_that_is_asked_for)
{
	struct gc_options o = {.grace_days = 0, .trash = true};
	struct store *s = make_store(state);
	struct stat st;

	assert_ok(mkdirat(store_fd(s), "trash/1-x.1.1", 0700));
	assert_ok(mkdirat(store_fd(s), "trash/.new-1-x.1.1", 0700));
	(void)collect(s, &now);
	assert_ok(fstatat(store_fd(s), "trash/1-x.1.1", &st, 0));
	(void)collect(s, &o);
	assert_true(fstatat(store_fd(s), "trash/1-x.1.1", &st, 0) < 0);
	/* Somebody may be making that one. */
	assert_ok(fstatat(store_fd(s), "trash/.new-1-x.1.1", &st, 0));
	store_close(s);
}

/* --- others at work ------------------------------------------------------ */

static unsigned removed_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 3; fd < 256; fd++) {
		char path[64], name[512];
		ssize_t len;

		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		len = readlink(path, name, sizeof name - 1);
		name[MAX(len, 0)] = '\0';
		n += strstr(name, ".seg (deleted)") != NULL;
	}
	return n;
}

/* Opens the store, reads, lets the parent go on, and reads again. */
static int read_around_gc(void **state, const struct oid *id, int to, int from)
{
	struct store *s = make_store(state);
	char c = 'x';

	if (gc_case_check(s, id) < 0 || write(to, &c, 1) != 1 ||
	    read(from, &c, 1) != 1)
		return 1;
	if (gc_case_check(s, id) < 0)
		return 2;
	return removed_descriptors() ? 3 : 0;
}

TEST(who_has_a_removed_segment_open_reads_on_and_lets_it_go)
{
	int up[2], down[2], status;
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, "a", 0);
	char c;
	pid_t pid;

	(void)gc_case_put(s, &other, NULL, 1);
	store_close(s);
	assert_ok(pipe(up));
	assert_ok(pipe(down));
	pid = fork();
	if (pid == 0)
		_exit(read_around_gc(state, &a, up[1], down[0]));
	assert_int_equal(read(up[0], &c, 1), 1);
	s = make_store(state);
	assert_int_equal(collect(s, &now).segments, 1);
	assert_int_equal(write(down[1], &c, 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	store_close(s);
	for (int i = 0; i < 2; i++) {
		(void)close(up[i]);
		(void)close(down[i]);
	}
}

struct patience {
	unsigned waits;
	struct batch *batch;
	struct snapshot_info info;
};

/* gc waits: let the batch that it waits for end. */
static void end_batch(void *ctx)
{
	struct patience *p = ctx;

	p->waits++;
	if (p->batch)
		assert_ok(batch_commit(TAKE_PTR(p->batch), &p->info, "late"));
}

TEST(gc_waits_for_writers_and_keeps_what_they_found)
{
	struct patience p = {.waits = 0};
	struct gc_options o = {.waiting = end_batch, .ctx = &p};
	struct store *s = make_store(state);
	struct oid a = gc_case_put(s, &small, NULL, 1);
	_cleanup_buf_ struct buf bytes = {0};

	assert_ok(store_get(s, &a, &bytes));
	assert_ok(batch_begin(s, &p.batch));
	assert_ok(batch_put(p.batch, OID_SNAP, bytes.data, bytes.len,
			    &p.info.id));
	assert_int_equal(collect(s, &o).snapshots, 0);
	assert_int_equal(p.waits, 1);
	assert_ok(gc_case_check(s, &a));
	store_close(s);
}

TEST(a_pin_keeps_gc_out_but_not_the_gate)
{
	struct store *s = make_store(state);
	int lock, pin = -1;

	assert_ok(store_pin(s, &pin));
	lock = openat(store_fd(s), "lock", O_RDONLY | O_CLOEXEC);
	assert_true(flock(lock, LOCK_EX | LOCK_NB) < 0);
	assert_false(store_is_collecting(s));
	(void)close(pin);
	assert_ok(flock(lock, LOCK_EX | LOCK_NB));
	(void)close(lock);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(what_a_name_holds_stays_and_the_rest_goes),
		RUN_SCRATCH(
			a_young_snapshot_without_a_name_stays_an_old_one_goes),
		RUN_SCRATCH(an_environment_keeps_its_snapshot),
		RUN_SCRATCH(an_environment_that_cannot_be_read_stops_it),
		RUN_SCRATCH(a_snapshot_that_cannot_be_read_stops_it),
		RUN_SCRATCH(an_object_that_is_missing_stops_it),
		RUN_SCRATCH(a_dry_run_changes_nothing_and_says_what_would_be),
		RUN_SCRATCH(a_number_is_never_used_twice),
		RUN_SCRATCH(small_segments_are_rewritten_in_several_steps),
		RUN_SCRATCH(a_segment_that_a_writer_has_is_left_alone),
		RUN_SCRATCH(a_damaged_file_stays_and_the_others_move),
		RUN_SCRATCH(a_file_that_the_index_does_not_know_goes),
		RUN_SCRATCH(what_a_killed_writer_appended_goes),
		RUN_SCRATCH(what_no_environment_uses_is_deflated),
		RUN_SCRATCH(trash_is_emptied_when_that_is_asked_for),
		RUN_SCRATCH(
			who_has_a_removed_segment_open_reads_on_and_lets_it_go),
		RUN_SCRATCH(gc_waits_for_writers_and_keeps_what_they_found),
		RUN_SCRATCH(a_pin_keeps_gc_out_but_not_the_gate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
