/* SPDX-License-Identifier: MIT */
/*
 * The index: rows come back, damaged values are refused, transactions are
 * isolated, a small address space is enough.
 */
#include "test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "store/index_int.h"

#if defined(__has_feature)
#define SANITIZED                                                              \
	(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *index_dir(void **state)
{
	const struct test_scratch *t = *state;

	return t->path;
}

static struct index *make_index(void **state)
{
	struct index *x = NULL;

	assert_ok(index_open(index_dir(state), INDEX_MAKE, &x));
	return x;
}

static const struct segment_place place = {
	.segment = 7,
	.stored_len = 1000,
	.offset = UINT64_C(1) << 33,
	.encoding = SEGMENT_DEFLATE,
};

static struct oid put_object(struct index *x, const char *text)
{
	struct oid id = oid_of(OID_BLOB, text, strlen(text));
	struct index_txn t = {0};

	assert_ok(index_txn_begin(x, true, &t));
	assert_ok(index_put_object(&t, &id, &place, true));
	assert_int_equal(index_put_object(&t, &id, &place, true), -EEXIST);
	assert_ok(index_txn_commit(&t));
	return id;
}

TEST(rows_come_back_after_a_reopen)
{
	struct index *x = make_index(state);
	const struct oid id = put_object(x, "a");
	const struct oid other = oid_of(OID_BLOB, "b", 1);
	struct segment_place have;

	index_close(x);
	x = make_index(state);
	assert_ok(index_lookup(x, &id, &have));
	assert_int_equal(have.segment, place.segment);
	assert_int_equal(have.stored_len, place.stored_len);
	assert_int_equal(have.offset, place.offset);
	assert_int_equal(have.encoding, place.encoding);
	assert_int_equal(index_lookup(x, &other, &have), -ENOENT);
	index_close(x);
	index_close(NULL);
}

TEST(an_aborted_transaction_changes_nothing)
{
	struct index *x = make_index(state);
	struct index_txn t = {0};
	uint64_t end;

	index_txn_end(&t);
	assert_ok(index_txn_begin(x, true, &t));
	assert_ok(index_put_segment(&t, 3, 64));
	assert_ok(index_get_segment(&t, 3, &end));
	assert_int_equal(end, 64);
	index_txn_end(&t);
	assert_ok(index_txn_begin(x, false, &t));
	assert_int_equal(index_get_segment(&t, 3, &end), -ENOENT);
	index_txn_end(&t);
	index_close(x);
}

TEST(a_reader_sees_one_state)
{
	struct index *x = make_index(state);
	const struct oid id = oid_of(OID_BLOB, "later", 5);
	struct segment_place have;
	struct index_txn old = {0};

	assert_ok(index_txn_begin(x, false, &old));
	(void)put_object(x, "later");
	assert_int_equal(index_get_object(&old, &id, &have), -ENOENT);
	assert_ok(index_lookup(x, &id, &have));
	index_txn_end(&old);
	/* The same transaction object, renewed, sees the present. */
	assert_ok(index_txn_begin(x, false, &old));
	assert_ok(index_get_object(&old, &id, &have));
	index_txn_end(&old);
	index_close(x);
}

TEST(many_readers_at_once_are_served)
{
	struct index *x = make_index(state);
	struct index_txn t[100] = {0};
	uint64_t n;

	(void)put_object(x, "a");
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			assert_ok(index_txn_begin(x, false, &t[i]));
			assert_ok(index_count(&t[i], INDEX_OBJECTS, &n));
			assert_int_equal(n, 1);
		}
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			index_txn_end(&t[i]);
	}
	index_close(x);
}

TEST(segments_are_listed_by_number)
{
	static const uint32_t numbers[] = {300, 1, 70000, 2, 255, 256};
	static const uint32_t sorted[] = {1, 2, 255, 256, 300, 70000};
	struct index *x = make_index(state);
	_cleanup_buf_ struct buf out = {0};
	struct index_txn t = {0};
	struct index_segment s;

	assert_ok(index_txn_begin(x, true, &t));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		assert_ok(index_put_segment(&t, numbers[i], numbers[i] * 8ULL));
	assert_ok(index_list_segments(&t, &out));
	assert_int_equal(out.len, sizeof s * ARRAY_SIZE(sorted));
	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++) {
		memcpy(&s, out.data + i * sizeof s, sizeof s);
		assert_int_equal(s.number, sorted[i]);
		assert_int_equal(s.end, sorted[i] * 8ULL);
	}
	index_txn_end(&t);
	index_close(x);
}

TEST(a_snapshot_string_beyond_its_bound_is_refused)
{
	_cleanup_free_ char *host = malloc(INDEX_MAX_HOST + 2);
	_cleanup_buf_ struct buf out = {0};
	struct snapshot_info info = {.host = host};

	memset(host, 'h', INDEX_MAX_HOST + 1);
	host[INDEX_MAX_HOST + 1] = '\0';
	assert_int_equal(index_encode_snapshot(&info, &out), -E2BIG);
	buf_clear(&out);
	host[INDEX_MAX_HOST] = '\0';
	assert_ok(index_encode_snapshot(&info, &out));
}

TEST(a_cut_snapshot_row_is_refused)
{
	_cleanup_buf_ struct buf strings = {0};
	_cleanup_buf_ struct buf out = {0};
	struct snapshot_info info = {
		.source = "/s", .host = "h", .message = "m", .git_head = "b"};
	struct snapshot_info have;
	/* three numbers and three blocks: where rows ended before */
	const size_t earlier = 24 + 3 * 4 + 4;

	assert_ok(index_encode_snapshot(&info, &out));
	for (size_t n = 0; n < out.len; n++)
		assert_int_equal(index_decode_snapshot(&info.id, out.data, n,
						       &strings, &have),
				 n == earlier ? 0 : -EFSCORRUPTED);
	assert_ok(index_decode_snapshot(&info.id, out.data, earlier, &strings,
					&have));
	assert_string_equal(have.message, "m");
	assert_string_equal(have.git_head, "");
	assert_string_equal(have.git_commit, "");
	assert_ok(index_decode_snapshot(&info.id, out.data, out.len, &strings,
					&have));
	assert_string_equal(have.source, "/s");
	assert_string_equal(have.git_dir, "");
	assert_string_equal(have.git_head, "b");
	/* Bytes of a later revision behind it are ignored. */
	buf_put_u32(&out, 1);
	assert_ok(index_decode_snapshot(&info.id, out.data, out.len, &strings,
					&have));
	/* A string with a NUL in it would be cut silently. */
	out.data[24 + 4] = '\0';
	assert_int_equal(index_decode_snapshot(&info.id, out.data, out.len,
					       &strings, &have),
			 -EFSCORRUPTED);
}

/* Flips one bit in the bytes that follow each occurrence of a key in LMDB's
 * file; returns how many there were. */
static int flip_after(void **state, const struct oid *key, size_t at)
{
	const struct test_scratch *t = *state;
	_cleanup_close_ int fd = openat(t->fd, "data.mdb", O_RDWR);
	_cleanup_buf_ struct buf file = {0};
	int hits = 0;

	assert_ok(io_read_file(t->fd, "data.mdb", 1 << 24, &file));
	for (size_t i = 0; i + OID_BYTES + at < file.len; i++) {
		if (memcmp(file.data + i, key->b, OID_BYTES) != 0)
			continue;
		file.data[i + OID_BYTES + at] ^= 1;
		assert_ok(io_pwrite(fd, &file.data[i + OID_BYTES + at], 1,
				    i + OID_BYTES + at));
		hits++;
	}
	return hits;
}

TEST(a_damaged_value_is_refused)
{
	struct index *x = make_index(state);
	const struct oid id = put_object(x, "a");
	struct segment_place have;
	struct index_txn t = {0};
	_cleanup_buf_ struct buf out = {0};

	index_close(x);
	for (size_t at = 0; at < 28; at++) {
		assert_true(flip_after(state, &id, at) > 0);
		x = make_index(state);
		assert_int_equal(index_lookup(x, &id, &have), -EFSBADCRC);
		assert_ok(index_txn_begin(x, false, &t));
		assert_int_equal(index_list(&t, INDEX_OBJECTS,
					    index_key_of(NULL, 0), &out),
				 -EFSBADCRC);
		index_txn_end(&t);
		index_close(x);
		assert_true(flip_after(state, &id, at) > 0);
	}
	x = make_index(state);
	assert_ok(index_lookup(x, &id, &have));
	index_close(x);
}

TEST(a_value_under_another_key_is_refused)
{
	struct index *x = make_index(state);
	const struct oid id = put_object(x, "a");
	struct oid moved = id;
	struct segment_place have;

	index_close(x);
	/* The last byte of the key itself: the row is now of another name. */
	assert_true(flip_after(state, &id, (size_t)-1) > 0);
	moved.b[OID_BYTES - 1] ^= 1;
	x = make_index(state);
	assert_int_equal(index_lookup(x, &id, &have), -ENOENT);
	assert_int_equal(index_lookup(x, &moved, &have), -EFSBADCRC);
	index_close(x);
}

TEST(a_file_that_is_no_index_is_refused)
{
	const struct test_scratch *t = *state;
	struct index *x = NULL;
	char page[8192];

	memset(page, 'x', sizeof page);
	assert_ok(io_write_file(t->fd, "data.mdb", page, sizeof page, false));
	assert_int_equal(index_open(index_dir(state), INDEX_MAKE, &x), -EFSCORRUPTED);
}

TEST(a_limited_address_space_is_enough)
{
	const struct rlimit limit = {UINT64_C(2) << 30, UINT64_C(2) << 30};
	struct index *x = NULL;
	pid_t pid;
	int status;

	if (SANITIZED)
		skip(); /* sanitizers need terabytes of their own */
	pid = fork();
	if (pid == 0)
		_exit(setrlimit(RLIMIT_AS, &limit) < 0 ||
		      index_open(index_dir(state), INDEX_MAKE, &x) < 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(rows_come_back_after_a_reopen),
		RUN_SCRATCH(an_aborted_transaction_changes_nothing),
		RUN_SCRATCH(a_reader_sees_one_state),
		RUN_SCRATCH(many_readers_at_once_are_served),
		RUN_SCRATCH(segments_are_listed_by_number),
		RUN_SCRATCH(a_snapshot_string_beyond_its_bound_is_refused),
		RUN_SCRATCH(a_cut_snapshot_row_is_refused),
		RUN_SCRATCH(a_damaged_value_is_refused),
		RUN_SCRATCH(a_value_under_another_key_is_refused),
		RUN_SCRATCH(a_file_that_is_no_index_is_refused),
		RUN_SCRATCH(a_limited_address_space_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
