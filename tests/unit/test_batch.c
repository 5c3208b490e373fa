/* SPDX-License-Identifier: MIT */
/*
 * Batches: deduplication, planted collisions (through the naming seam of
 * batch_int.h), commits by themselves, two writers at once and killed ones.
 * Whatever needs two processes forks before this one opens a store.
 */
#include "test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "object/format.h"
#include "store/batch_int.h"
#include "store/store.h"

static const struct batch_seam_int seam_default = {
	.name = oid_of,
	.segment_bytes = UINT64_C(256) << 20,
	.pending = 256 << 10,
};

static int teardown(void **state)
{
	batch_seam_int = seam_default;
	return test_scratch_teardown(state);
}

#define RUN_SEAM(name)                                                         \
	cmocka_unit_test_setup_teardown(name, test_scratch_setup, teardown)

static const char *store_dir(void **state)
{
	static char path[512];
	const struct test_scratch *s = *state;

	(void)snprintf(path, sizeof path, "%s/store", s->path);
	return path;
}

static struct store *open_store(void **state)
{
	struct store *s = NULL;

	assert_ok(store_open(store_dir(state), STORE_CREATE, NULL, &s));
	return s;
}

static struct store_stat stat_of(struct store *s)
{
	struct store_stat st = {0};

	assert_ok(store_stat(s, &st));
	return st;
}

static void expect(struct store *s, const struct oid *id, const char *text)
{
	_cleanup_buf_ struct buf out = {0};

	assert_ok(store_get(s, id, &out));
	assert_int_equal(out.len, strlen(text));
	assert_memory_equal(out.data, text, out.len);
}

static struct oid put(struct batch *b, const char *text)
{
	struct oid id = {0};

	assert_ok(batch_put(b, OID_BLOB, text, strlen(text), &id));
	return id;
}

static off_t segment_size(struct store *s, const char *name)
{
	struct stat st;

	assert_ok(fstatat(store_fd(s), name, &st, 0));
	return st.st_size;
}

/* Every input of one length has the same name: the worst hash there is. */
static struct oid weak_name(enum oid_kind kind, const void *data, size_t len)
{
	return oid_of(kind, "................................", MIN(len, 32));
}

/* --- one writer --------------------------------------------------------- */

TEST(equal_bytes_are_stored_once)
{
	struct store *s = open_store(state);
	struct store_stat before;
	struct store_stat after;
	struct batch *b;
	struct oid first;
	struct oid id;

	assert_ok(batch_begin(s, &b));
	first = put(b, "hello");
	id = put(b, "hello");
	assert_true(oid_equal(&first, &id));
	assert_int_equal(batch_bytes_written(b), 56);
	assert_ok(batch_commit(b, NULL, NULL));
	before = stat_of(s);
	assert_ok(batch_begin(s, &b));
	id = put(b, "hello");
	assert_true(oid_equal(&first, &id));
	assert_int_equal(batch_bytes_written(b), 0);
	assert_ok(batch_commit(b, NULL, NULL));
	after = stat_of(s);
	assert_memory_equal(&before, &after, sizeof before);
	store_close(s);
}

TEST(kinds_are_told_apart)
{
	struct store *s = open_store(state);
	struct batch *b;
	struct oid blob;
	struct oid tree;
	struct oid id;

	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_BLOB, "x", 1, &blob));
	assert_ok(batch_put(b, OID_TREE, "x", 1, &tree));
	assert_false(oid_equal(&blob, &tree));
	assert_int_equal(batch_put(b, OID_NONE, "x", 1, &id), -EINVAL);
	assert_int_equal(batch_put(b, OID_KIND_END, "x", 1, &id), -EINVAL);
	assert_ok(batch_commit(b, NULL, NULL));
	store_close(s);
}

TEST(colliding_bytes_get_names_of_their_own)
{
	static const char *const texts[] = {"aaaa", "bbbb", "cccc"};
	struct store *s = open_store(state);
	struct oid ids[3];
	struct batch *b;

	batch_seam_int.name = weak_name;
	for (int round = 0; round < 3; round++) {
		assert_ok(batch_begin(s, &b));
		/* The first round collides within the batch's buffer. */
		for (size_t i = 0; i < 3; i++) {
			ids[i] = put(b, texts[i]);
			assert_int_equal(oid_counter(&ids[i]), i);
		}
		/* The second one in its flushed bytes. */
		if (round == 1)
			assert_ok(writer_flush(&b->writer));
		if (round < 2)
			for (size_t i = 0; i < 3; i++)
				ids[i] = put(b, texts[i]);
		assert_ok(batch_commit(b, NULL, NULL));
		for (size_t i = 0; i < 3; i++)
			expect(s, &ids[i], texts[i]);
	}
	assert_int_equal(stat_of(s).objects, 3);
	store_close(s);
}

TEST(flushed_pending_bytes_are_compared_too)
{
	struct store *s = open_store(state);
	struct oid a;
	struct oid b2;
	struct batch *b;

	batch_seam_int.name = weak_name;
	assert_ok(batch_begin(s, &b));
	a = put(b, "aaaa");
	assert_ok(writer_flush(&b->writer));
	b2 = put(b, "bbbb");
	assert_int_equal(oid_counter(&b2), 1);
	assert_true(oid_equal(&a, &(struct oid){0}) == false);
	a = put(b, "aaaa");
	assert_int_equal(oid_counter(&a), 0);
	assert_ok(batch_commit(b, NULL, NULL));
	expect(s, &a, "aaaa");
	expect(s, &b2, "bbbb");
	store_close(s);
}

TEST(counters_run_out_with_an_error)
{
	struct store *s = open_store(state);
	struct batch *b;
	struct oid id;
	char text[8];

	batch_seam_int.name = weak_name;
	assert_ok(batch_begin(s, &b));
	for (int i = 0; i < 256; i++) {
		(void)snprintf(text, sizeof text, "%04d", i);
		(void)put(b, text);
	}
	assert_int_equal(batch_put(b, OID_BLOB, "last", 4, &id), -EOVERFLOW);
	/* It sticks: what follows might name what is lost. */
	assert_int_equal(batch_put(b, OID_BLOB, "0001", 4, &id), -EOVERFLOW);
	assert_int_equal(batch_commit(b, NULL, NULL), -EOVERFLOW);
	assert_int_equal(stat_of(s).objects, 0);
	store_close(s);
}

TEST(an_aborted_batch_leaves_nothing)
{
	struct store *s = open_store(state);
	struct batch *b;
	struct oid id;

	batch_abort(NULL);
	assert_ok(batch_begin(s, &b));
	id = put(b, "never seen");
	assert_ok(writer_flush(&b->writer));
	assert_true(segment_size(s, "segments/00000001.seg") > 16);
	batch_abort(b);
	assert_int_equal(store_has(s, &id), 0);
	assert_int_equal(segment_size(s, "segments/00000001.seg"), 16);
	store_close(s);
}

TEST(a_batch_without_news_touches_no_file)
{
	struct store *s = open_store(state);
	struct snapshot_info info = {.time_sec = 1, .source = "/x"};
	uint64_t index_before;
	struct stat before;
	struct stat after;
	struct batch *b;

	for (int i = 0; i < 2; i++) {
		assert_ok(batch_begin(s, &b));
		assert_ok(batch_put(b, OID_SNAP, "snap", 4, &info.id));
		assert_ok(fstatat(store_fd(s), "index/data.mdb", &before, 0));
		index_before = stat_of(s).index_bytes;
		assert_ok(batch_commit(b, &info, "x"));
	}
	assert_ok(fstatat(store_fd(s), "index/data.mdb", &after, 0));
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(index_before, stat_of(s).index_bytes);
	assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	store_close(s);
}

TEST(a_batch_that_grows_commits_by_itself)
{
	struct store *s = open_store(state);
	struct oid ids[100];
	struct batch *b;
	char text[600];
	char name[64];
	unsigned segments = 0;

	batch_seam_int.pending = 7;
	batch_seam_int.segment_bytes = 4096;
	assert_ok(batch_begin(s, &b));
	for (int i = 0; i < 100; i++) {
		_cleanup_buf_ struct buf out = {0};

		(void)snprintf(text, sizeof text, "%0500d", i);
		ids[i] = put(b, text);
		assert_ok(batch_get(b, &ids[i / 2], &out));
		assert_int_equal(out.len, 500);
	}
	assert_int_equal(store_has(s, &ids[0]), 1);
	assert_int_equal(store_has(s, &ids[99]), 0);
	assert_ok(batch_commit(b, NULL, NULL));
	for (int i = 0; i < 100; i++) {
		(void)snprintf(text, sizeof text, "%0500d", i);
		expect(s, &ids[i], text);
	}
	for (unsigned n = 1; n < 40; n++) {
		(void)snprintf(name, sizeof name, "segments/%08u.seg", n);
		segments += faccessat(store_fd(s), name, F_OK, 0) == 0;
	}
	/* 8 records of 552 bytes fill one. */
	assert_int_equal(segments, 13);
	store_close(s);
}

TEST(a_record_without_its_snapshot_object_is_refused)
{
	struct store *s = open_store(state);
	struct snapshot_info info = {.id = oid_of(OID_SNAP, "no", 2)};
	struct batch *b;
	struct oid id;

	assert_ok(batch_begin(s, &b));
	id = put(b, "blob");
	assert_int_equal(batch_commit(b, &info, "x"), -ENOENT);
	assert_int_equal(store_has(s, &id), 0);
	assert_ok(batch_begin(s, &b));
	assert_int_equal(batch_commit(b, NULL, "x"), -EINVAL);
	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_SNAP, "s", 1, &info.id));
	assert_int_equal(batch_commit(b, &info, "bad/name"), -EINVAL);
	assert_int_equal(stat_of(s).snapshots, 0);
	store_close(s);
}

TEST(a_damaged_record_is_healed_by_the_same_bytes)
{
	struct store *s = open_store(state);
	_cleanup_buf_ struct buf out = {0};
	_cleanup_close_ int fd = -1;
	struct batch *b;
	struct oid id;

	assert_ok(batch_begin(s, &b));
	id = put(b, "healthy");
	assert_ok(batch_commit(b, NULL, NULL));
	fd = openat(store_fd(s), "segments/00000001.seg", O_RDWR);
	assert_ok(io_pwrite(fd, "X", 1, 16 + 48));
	assert_int_equal(store_get(s, &id, &out), -EFSBADCRC);
	assert_ok(batch_begin(s, &b));
	id = put(b, "healthy");
	assert_int_equal(oid_counter(&id), 0);
	assert_ok(batch_commit(b, NULL, NULL));
	expect(s, &id, "healthy");
	assert_int_equal(stat_of(s).objects, 1);
	store_close(s);
}

/* --- two writers -------------------------------------------------------- */

TEST(two_batches_of_one_process_use_two_segments)
{
	struct store *s = open_store(state);
	struct batch *a;
	struct batch *b;
	struct oid same;
	struct oid id_a;
	struct oid id_b;

	assert_ok(batch_begin(s, &a));
	assert_ok(batch_begin(s, &b));
	same = put(a, "same");
	same = put(b, "same");
	id_a = put(a, "of a");
	id_b = put(b, "of b");
	assert_ok(batch_commit(a, NULL, NULL));
	assert_ok(batch_commit(b, NULL, NULL));
	expect(s, &same, "same");
	expect(s, &id_a, "of a");
	expect(s, &id_b, "of b");
	assert_int_equal(stat_of(s).objects, 3);
	assert_ok(faccessat(store_fd(s), "segments/00000002.seg", F_OK, 0));
	store_close(s);
}

TEST(a_collision_between_two_batches_refuses_the_second)
{
	struct store *s = open_store(state);
	struct batch *a;
	struct batch *b;
	struct oid id_a;
	struct oid id_b;

	batch_seam_int.name = weak_name;
	assert_ok(batch_begin(s, &a));
	assert_ok(batch_begin(s, &b));
	id_a = put(a, "aaaa");
	id_b = put(b, "bbbb");
	assert_true(oid_equal(&id_a, &id_b));
	assert_ok(batch_commit(a, NULL, NULL));
	assert_int_equal(batch_commit(b, NULL, NULL), -EEXIST);
	expect(s, &id_a, "aaaa");
	/* The second try sees the first one's object. */
	assert_ok(batch_begin(s, &b));
	id_b = put(b, "bbbb");
	assert_int_equal(oid_counter(&id_b), 1);
	assert_ok(batch_commit(b, NULL, NULL));
	expect(s, &id_a, "aaaa");
	expect(s, &id_b, "bbbb");
	store_close(s);
}

static int write_many(const char *path, int own)
{
	struct store *s;
	struct batch *b;
	struct oid id;
	char text[64];
	int r = store_open(path, STORE_CREATE, NULL, &s);

	for (int round = 0; r == 0 && round < 20; round++) {
		r = batch_begin(s, &b);
		for (int i = 0; r == 0 && i < 50; i++) {
			(void)snprintf(text, sizeof text, "%d %d of %d", round,
				       i, i % 2 ? own : 0);
			r = batch_put(b, OID_BLOB, text, strlen(text), &id);
		}
		if (r == 0)
			r = batch_commit(b, NULL, NULL);
	}
	store_close(s);
	return r;
}

TEST(writers_in_several_processes_lose_nothing)
{
	pid_t pids[4];
	struct store *s;
	char text[64];
	int status;

	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(write_many(store_dir(state), i + 1) ? 1 : 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	s = open_store(state);
	assert_int_equal(stat_of(s).objects, 20 * (25 + 4 * 25));
	for (int own = 1; own <= 4; own++) {
		for (int i = 0; i < 20 * 50; i++) {
			struct oid id;

			(void)snprintf(text, sizeof text, "%d %d of %d", i / 50,
				       i % 50, i % 2 ? own : 0);
			id = oid_of(OID_BLOB, text, strlen(text));
			expect(s, &id, text);
		}
	}
	store_close(s);
}

/* Commits one object, flushes another one to the file, and dies. */
static void die_in_a_batch(const char *path)
{
	struct store *s;
	struct batch *b;
	struct oid id;

	if (store_open(path, STORE_CREATE, NULL, &s) < 0 ||
	    batch_begin(s, &b) < 0 ||
	    batch_put(b, OID_BLOB, "kept", 4, &id) < 0 ||
	    batch_commit(b, NULL, NULL) < 0 || batch_begin(s, &b) < 0 ||
	    batch_put(b, OID_BLOB, "lost", 4, &id) < 0 ||
	    writer_flush(&b->writer) < 0)
		_exit(1);
	_exit(0);
}

TEST(a_killed_writer_leaves_a_tail_that_the_next_one_cuts)
{
	const struct oid kept = oid_of(OID_BLOB, "kept", 4);
	const struct oid lost = oid_of(OID_BLOB, "lost", 4);
	const pid_t pid = fork();
	struct store *s;
	struct batch *b;
	struct oid id;
	int status;

	if (pid == 0)
		die_in_a_batch(store_dir(state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	s = open_store(state);
	expect(s, &kept, "kept");
	assert_int_equal(store_has(s, &lost), 0);
	assert_int_equal(segment_size(s, "segments/00000001.seg"), 16 + 2 * 56);
	assert_ok(batch_begin(s, &b));
	id = put(b, "new");
	assert_int_equal(segment_size(s, "segments/00000001.seg"), 16 + 56);
	assert_ok(batch_commit(b, NULL, NULL));
	expect(s, &kept, "kept");
	expect(s, &id, "new");
	assert_int_equal(stat_of(s).segment_bytes, 16 + 2 * 56);
	store_close(s);
}

/* Reads every object that the index names. */
static uint64_t read_all_objects(struct store *s)
{
	_cleanup_buf_ struct buf rows = {0};
	struct index_txn t = {0};
	uint64_t count = 0;
	struct bytes in;

	assert_ok(index_txn_begin(s->index, false, &t));
	assert_ok(index_list(&t, INDEX_OBJECTS, index_key_of(NULL, 0), &rows));
	index_txn_end(&t);
	in = bytes_of(rows.data, rows.len);
	for (; in.left > 0; count++) {
		_cleanup_buf_ struct buf out = {0};
		struct oid id;
		size_t n;

		memcpy(id.b, bytes_block(&in, OID_BYTES, &n), OID_BYTES);
		(void)bytes_block(&in, INDEX_MAX_VALUE, &n);
		assert_ok(store_get(s, &id, &out));
		id = oid_of(OID_BLOB, out.data, out.len);
		assert_int_equal(store_has(s, &id), 1);
	}
	return count;
}

/* Imports without end, until it is killed. */
static void write_for_ever(const char *path, int ready)
{
	static char data[20000];
	struct store *s;
	struct batch *b;
	struct oid id;

	if (store_open(path, STORE_CREATE, NULL, &s) < 0 ||
	    write(ready, "x", 1) != 1)
		_exit(1);
	for (unsigned i = (unsigned)getpid() * 1000;; i++) {
		if (batch_begin(s, &b) < 0)
			_exit(1);
		for (unsigned k = 0; k < 5; k++) {
			(void)snprintf(data, sizeof data, "%u %u", i, k);
			if (batch_put(b, OID_BLOB, data, sizeof data, &id) < 0)
				_exit(1);
		}
		if (batch_commit(b, NULL, NULL) < 0)
			_exit(1);
	}
}

TEST(writers_killed_at_any_time_leave_a_whole_store)
{
	uint64_t last = 0;
	int ready[2];

	assert_ok(pipe2(ready, O_CLOEXEC));
	for (int round = 0; round < 15; round++) {
		struct store *s;
		uint64_t count;
		pid_t pids[2];
		int status;
		char c[2];

		for (int i = 0; i < 2; i++) {
			pids[i] = fork();
			if (pids[i] == 0)
				write_for_ever(store_dir(state), ready[1]);
		}
		assert_int_equal(io_read(ready[0], c, 2), 2);
		(void)usleep(1000 + 1777 * (unsigned)round);
		for (int i = 0; i < 2; i++) {
			assert_ok(kill(pids[i], SIGKILL));
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFSIGNALED(status));
		}
		s = open_store(state);
		count = read_all_objects(s);
		/* Nothing that was committed is lost. */
		assert_true(count >= last && count % 5 == 0);
		last = count;
		store_close(s);
	}
	(void)close(ready[0]);
	(void)close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SEAM(equal_bytes_are_stored_once),
		RUN_SEAM(kinds_are_told_apart),
		RUN_SEAM(colliding_bytes_get_names_of_their_own),
		RUN_SEAM(flushed_pending_bytes_are_compared_too),
		RUN_SEAM(counters_run_out_with_an_error),
		RUN_SEAM(an_aborted_batch_leaves_nothing),
		RUN_SEAM(a_batch_without_news_touches_no_file),
		RUN_SEAM(a_batch_that_grows_commits_by_itself),
		RUN_SEAM(a_record_without_its_snapshot_object_is_refused),
		RUN_SEAM(a_damaged_record_is_healed_by_the_same_bytes),
		RUN_SEAM(two_batches_of_one_process_use_two_segments),
		RUN_SEAM(a_collision_between_two_batches_refuses_the_second),
		RUN_SEAM(writers_in_several_processes_lose_nothing),
		RUN_SEAM(a_killed_writer_leaves_a_tail_that_the_next_one_cuts),
		RUN_SEAM(writers_killed_at_any_time_leave_a_whole_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
