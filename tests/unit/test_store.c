/* SPDX-License-Identifier: MIT */
/*
 * The life of a store: creation, refusal of what is none, objects of all
 * sizes, snapshot records. Stores are opened in this process; races of
 * creators use children that are forked before any store is open.
 */
#include "store_case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/name.h"
#include "object/format.h"
#include "store/store.h"

static const char *store_dir(void **state)
{
	static char path[512];
	const struct test_scratch *s = *state;

	(void)snprintf(path, sizeof path, "%s/store", s->path);
	return path;
}

static void fill(uint8_t *data, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245 + 12345;
		data[i] = (uint8_t)(seed >> 16);
	}
}

/* Replaces a file of the store. */
static void set_file(struct store *s, const char *name, const char *text)
{
	assert_ok(io_write_file(store_fd(s), name, text, strlen(text), false));
}

TEST(a_new_store_is_private_and_has_its_parts)
{
	static const char *const names[] = {"format",	"lock", "index",
					    "segments", "envs", "trash"};
	struct store *s = make_store(state);
	struct stat st;

	assert_ok(fstat(store_fd(s), &st));
	assert_int_equal(st.st_mode & 07777, 0700);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_ok(fstatat(store_fd(s), names[i], &st, 0));
	assert_int_equal(store_path(s)[0], '/');
	store_close(s);
}

TEST(parents_are_made_and_an_empty_directory_is_taken)
{
	const struct test_scratch *t = *state;
	struct store *s = NULL;
	char path[512];

	(void)snprintf(path, sizeof path, "%s/a/b/c/", t->path);
	assert_ok(store_open(path, STORE_CREATE, NULL, &s));
	store_close(s);
	(void)snprintf(path, sizeof path, "%s/empty", t->path);
	assert_ok(mkdir(path, 0755));
	assert_int_equal(store_open(path, 0, NULL, &s), -ENOENT);
	assert_ok(store_open(path, STORE_CREATE, NULL, &s));
	store_close(s);
	assert_ok(store_open(path, 0, NULL, &s));
	store_close(s);
}

TEST(an_interrupted_creation_in_place_is_gone_on_with)
{
	const struct test_scratch *t = *state;
	struct store *s = NULL;
	char path[512];

	assert_ok(mkdir(store_dir(state), 0700));
	(void)snprintf(path, sizeof path, "%s/store/segments", t->path);
	assert_ok(mkdir(path, 0700));
	(void)snprintf(path, sizeof path, "%s/store/lost+found", t->path);
	assert_ok(mkdir(path, 0700));
	s = make_store(state);
	store_close(s);
}

TEST(what_a_killed_creator_left_is_removed)
{
	const struct test_scratch *t = *state;
	struct store *s;
	char path[512];

	(void)snprintf(path, sizeof path, "%s/store.new-0123456789abcdef",
		       t->path);
	assert_ok(mkdir(path, 0700));
	(void)snprintf(path, sizeof path, "%s/store.new-mine", t->path);
	assert_ok(mkdir(path, 0700));
	s = make_store(state);
	store_close(s);
	assert_true(faccessat(t->fd, "store.new-0123456789abcdef", F_OK, 0) <
		    0);
	assert_ok(faccessat(t->fd, "store.new-mine", F_OK, 0));
}

TEST(a_missing_store_is_said_to_be_missing)
{
	_cleanup_diag_ struct diag d = {0};
	struct store *s = NULL;

	assert_int_equal(store_open(store_dir(state), 0, &d, &s), -ENOENT);
	assert_int_equal(d.count, 1);
	assert_non_null(strstr(diag_line(&d, 0), "no store"));
}

TEST(a_foreign_directory_is_refused)
{
	_cleanup_diag_ struct diag d = {0};
	const struct test_scratch *t = *state;
	struct store *s = NULL;

	assert_ok(io_write_file(t->fd, "precious", "x", 1, false));
	assert_int_equal(store_open(t->path, STORE_CREATE, &d, &s), -ENOTEMPTY);
	assert_int_equal(d.count, 1);
	assert_non_null(strstr(diag_line(&d, 0), "not empty"));
	assert_int_equal(store_open(t->path, 0, NULL, &s), -ENOTEMPTY);
	assert_ok(faccessat(t->fd, "precious", F_OK, 0));
	assert_true(faccessat(t->fd, "index", F_OK, 0) < 0);
}

TEST(a_file_is_no_store)
{
	_cleanup_diag_ struct diag d = {0};
	const struct test_scratch *t = *state;
	struct store *s = NULL;

	assert_ok(io_write_file(t->fd, "store", "x", 1, false));
	assert_int_equal(store_open(store_dir(state), STORE_CREATE, &d, &s),
			 -ENOTDIR);
	assert_int_equal(d.count, 1);
}

static void refuse(void **state, const char *text, int err, const char *word)
{
	_cleanup_diag_ struct diag d = {0};
	struct store *s = make_store(state);

	set_file(s, "format", text);
	store_close(s);
	assert_int_equal(store_open(store_dir(state), STORE_CREATE, &d, &s),
			 err);
	assert_int_equal(d.count, 1);
	assert_non_null(strstr(diag_line(&d, 0), word));
}

/* Seals a format text by the rule that every version keeps. */
static const char *sealed(const char *text)
{
	static char out[256];

	(void)snprintf(out, sizeof out, "%schecksum %016llx\n", text,
		       (unsigned long long)oid_checksum(text, strlen(text),
							0x5443574d524f46));
	return out;
}

TEST(a_later_version_is_refused)
{
	refuse(state, sealed("cowfs store 2\nnew words\n"), -EPROTONOSUPPORT,
	       "newer");
}

TEST(another_hash_is_refused)
{
	refuse(state, sealed("cowfs store 1\nhash 9\nchunk 17\n"),
	       -EPROTONOSUPPORT, "hash");
}

TEST(a_damaged_format_is_refused)
{
	refuse(state,
	       "cowfs store 2\nhash 1\nchunk 17\n"
	       "checksum 0000000000000000\n",
	       -EFSBADCRC, "damaged");
}

TEST(an_empty_format_is_refused)
{
	refuse(state, "", -EFSBADCRC, "damaged");
}

TEST(a_lost_index_is_not_replaced_silently)
{
	_cleanup_diag_ struct diag d = {0};
	struct store *s = make_store(state);
	struct store *again;

	assert_ok(io_remove_tree(store_fd(s), "index"));
	store_close(s);
	assert_int_equal(store_open(store_dir(state), 0, &d, &again),
			 -EFSCORRUPTED);
	assert_int_equal(d.count, 1);
}

TEST(opens_in_one_process_share_the_store)
{
	struct store *a = make_store(state);
	struct store *b = make_store(state);

	assert_ptr_equal(a, b);
	store_close(a);
	assert_int_equal(store_fd(b) >= 0, 1);
	store_close(b);
	a = make_store(state);
	store_close(a);
}

/* Runs a child that creates and closes the store. */
static pid_t creator(const char *path, const int *go)
{
	const pid_t pid = fork();
	struct store *s;
	char c;

	if (pid != 0)
		return pid;
	/* All start when the parent closes its end. */
	(void)close(go[1]);
	if (read(go[0], &c, 1) != 0)
		_exit(2);
	if (store_open(path, STORE_CREATE, NULL, &s) < 0)
		_exit(1);
	store_close(s);
	_exit(0);
}

TEST(racing_creators_all_get_the_same_store)
{
	const struct test_scratch *t = *state;
	pid_t pids[6];
	int status;
	int go[2];

	for (int round = 0; round < 5; round++) {
		assert_ok(pipe2(go, O_CLOEXEC));
		for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
			pids[i] = creator(store_dir(state), go);
			assert_true(pids[i] > 0);
		}
		(void)close(go[0]);
		(void)close(go[1]);
		for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_int_equal(status, 0);
		}
		/* Nothing is left beside it. */
		assert_ok(io_remove_tree(AT_FDCWD, store_dir(state)));
		assert_ok(rmdir(t->path));
		assert_ok(mkdir(t->path, 0700));
	}
}

TEST(objects_of_all_sizes_come_back)
{
	static const size_t sizes[] = {0,    1,	      7,       8,
				       9,    4095,    4096,    131072,
				       1000, 1048528, 1048529, 5000000};
	_cleanup_free_ uint8_t *data = malloc(5000000);
	_cleanup_free_ uint8_t *raw = malloc(5000000);
	struct oid ids[ARRAY_SIZE(sizes)];
	struct store *s = make_store(state);
	struct batch *b;

	assert_ok(batch_begin(s, &b));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_buf_ struct buf out = {0};

		fill(data, sizes[i], (unsigned)i);
		assert_ok(batch_put(b, OID_BLOB, data, sizes[i], &ids[i]));
		assert_int_equal(oid_length(&ids[i]), sizes[i]);
		assert_int_equal(store_has(s, &ids[i]), 0);
		buf_put_u8(&out, 42);
		assert_ok(batch_get(b, &ids[i], &out));
		assert_int_equal(out.len, sizes[i] + 1);
		assert_memory_equal(out.data + 1, data, sizes[i]);
	}
	assert_ok(batch_commit(b, NULL, NULL));
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			_cleanup_buf_ struct buf out = {0};

			fill(data, sizes[i], (unsigned)i);
			assert_int_equal(store_has(s, &ids[i]), 1);
			assert_ok(store_read(s, &ids[i], raw));
			assert_memory_equal(raw, data, sizes[i]);
			assert_ok(store_get(s, &ids[i], &out));
			assert_int_equal(out.len, sizes[i]);
			assert_memory_equal(out.data, data, sizes[i]);
		}
		store_close(s);
		s = make_store(state);
	}
	store_close(s);
}

TEST(an_unknown_object_is_not_there)
{
	struct store *s = make_store(state);
	struct oid id = oid_of(OID_BLOB, "x", 1);
	struct oid none = {0};
	_cleanup_buf_ struct buf out = {0};
	char raw[1];

	assert_int_equal(store_has(s, &id), 0);
	assert_int_equal(store_read(s, &id, raw), -ENOENT);
	assert_int_equal(store_get(s, &id, &out), -ENOENT);
	assert_int_equal(store_get(s, &none, &out), -ENOENT);
	store_close(s);
}

struct seen {
	struct store *store;
	struct snapshot_info info;
	int count;
};

static int see(void *ctx, const struct snapshot_info *info)
{
	struct seen *seen = ctx;
	struct oid id;

	assert_string_equal(info->source, "/home/me/tree");
	assert_string_equal(info->host, "");
	assert_string_equal(info->message, "two\nlines");
	seen->info = *info;
	seen->count++;
	/* A callback may change the store. */
	assert_ok(store_ref_set(seen->store, "from-callback", &info->id));
	assert_ok(store_ref_get(seen->store, "from-callback", &id));
	return 0;
}

static int stop(void *ctx, const struct snapshot_info *info)
{
	return 77;
}

TEST(a_snapshot_record_comes_back)
{
	struct store *s = make_store(state);
	struct snapshot_info info = {.time_sec = -5,
				     .inodes = 12,
				     .bytes = UINT64_C(1) << 40,
				     .source = "/home/me/tree",
				     .host = NULL,
				     .message = "two\nlines"};
	struct seen seen = {.store = s};
	struct oid other = oid_of(OID_SNAP, "other", 5);
	struct oid id;
	struct batch *b;

	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_SNAP, "snap", 4, &info.id));
	assert_ok(batch_commit(b, &info, "demo"));
	assert_ok(store_snapshots(s, see, &seen));
	assert_ok(store_snapshot(s, &info.id, see, &seen));
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.info.time_sec, -5);
	assert_int_equal(seen.info.inodes, 12);
	assert_int_equal(seen.info.bytes, UINT64_C(1) << 40);
	assert_true(oid_equal(&seen.info.id, &info.id));
	assert_int_equal(store_snapshot(s, &other, see, &seen), -ENOENT);
	assert_int_equal(store_snapshots(s, stop, NULL), 77);
	assert_ok(store_ref_get(s, "demo:latest", &id));
	assert_true(oid_equal(&id, &info.id));
	store_close(s);
}

TEST(counters_count)
{
	struct store *s = make_store(state);
	struct snapshot_info info = {0};
	struct store_stat st;
	struct batch *b;
	struct oid id;

	assert_ok(store_stat(s, &st));
	assert_int_equal(st.objects, 0);
	assert_int_equal(st.segment_bytes, 0);
	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_BLOB, "abc", 3, &id));
	assert_ok(batch_put(b, OID_SNAP, "snap", 4, &info.id));
	assert_ok(batch_commit(b, &info, "a:b"));
	assert_ok(store_stat(s, &st));
	assert_int_equal(st.objects, 2);
	assert_int_equal(st.snapshots, 1);
	assert_int_equal(st.refs, 1);
	assert_int_equal(st.segment_bytes, 16 + 2 * 56);
	assert_true(st.index_bytes > 0);
	store_close(s);
}

TEST(environments_are_listed_in_the_order_of_their_names)
{
	static const char *const made[] = {"b", ".new-1", "a2", "a"};
	struct store *s = make_store(state);
	_cleanup_buf_ struct buf names = {0};
	char path[32];

	assert_ok(store_env_names(s, O_NOFOLLOW, &names));
	assert_int_equal(names.len, 0);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		(void)snprintf(path, sizeof path, "envs/%s", made[i]);
		assert_ok(mkdirat(store_fd(s), path, 0700));
	}
	assert_ok(store_env_names(s, O_NOFOLLOW, &names));
	assert_int_equal(names.len, 3 * (NAME_MAX_LABEL + 1));
	assert_string_equal((char *)names.data, "a");
	assert_string_equal((char *)names.data + NAME_MAX_LABEL + 1, "a2");
	assert_string_equal((char *)names.data + 2 * (NAME_MAX_LABEL + 1), "b");
	assert_ok(unlinkat(store_fd(s), "envs/a", AT_REMOVEDIR));
	assert_ok(unlinkat(store_fd(s), "envs/a2", AT_REMOVEDIR));
	assert_ok(unlinkat(store_fd(s), "envs/b", AT_REMOVEDIR));
	assert_ok(unlinkat(store_fd(s), "envs/.new-1", AT_REMOVEDIR));
	assert_ok(renameat(store_fd(s), "envs", store_fd(s), "elsewhere"));
	assert_int_equal(store_env_names(s, O_NOFOLLOW, &names), -ENOENT);
	assert_ok(symlinkat("elsewhere", store_fd(s), "envs"));
	assert_int_equal(store_env_names(s, O_NOFOLLOW, &names), -ENOTDIR);
	assert_ok(store_env_names(s, 0, &names));
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(
			environments_are_listed_in_the_order_of_their_names),
		RUN_SCRATCH(a_new_store_is_private_and_has_its_parts),
		RUN_SCRATCH(parents_are_made_and_an_empty_directory_is_taken),
		RUN_SCRATCH(an_interrupted_creation_in_place_is_gone_on_with),
		RUN_SCRATCH(what_a_killed_creator_left_is_removed),
		RUN_SCRATCH(a_missing_store_is_said_to_be_missing),
		RUN_SCRATCH(a_foreign_directory_is_refused),
		RUN_SCRATCH(a_file_is_no_store),
		RUN_SCRATCH(a_later_version_is_refused),
		RUN_SCRATCH(another_hash_is_refused),
		RUN_SCRATCH(a_damaged_format_is_refused),
		RUN_SCRATCH(an_empty_format_is_refused),
		RUN_SCRATCH(a_lost_index_is_not_replaced_silently),
		RUN_SCRATCH(opens_in_one_process_share_the_store),
		RUN_SCRATCH(racing_creators_all_get_the_same_store),
		RUN_SCRATCH(objects_of_all_sizes_come_back),
		RUN_SCRATCH(an_unknown_object_is_not_there),
		RUN_SCRATCH(a_snapshot_record_comes_back),
		RUN_SCRATCH(counters_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
