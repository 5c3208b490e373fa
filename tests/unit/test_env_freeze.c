/* SPDX-License-Identifier: MIT */
/*
 * A freeze against a snapshot that is made from everything the environment
 * shows (full_snap.h): the same id. And what it costs, what it leaves out, what
 * it refuses.
 */
#include "env_case.h"
#include "full_snap.h"

#include <sys/stat.h>

#include "base/err.h"
#include "env/freeze.h"
#include "object/format.h"
#include "store/gc.h"

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, env_case_setup, env_case_teardown)

static const struct buf nothing;

/* The kind of object whose next bytes are stored wrong, and which of them: the
 * last when there are fewer. */
static enum oid_kind spoil;
static size_t spoil_at = SIZE_MAX, spoiled_len;

int __real_batch_put(struct batch *b, enum oid_kind kind, const void *data,
		     size_t len, struct oid *ret_id);
int __wrap_batch_put(struct batch *b, enum oid_kind kind, const void *data,
		     size_t len, struct oid *ret_id);

int __wrap_batch_put(struct batch *b, enum oid_kind kind, const void *data,
		     size_t len, struct oid *ret_id)
{
	_cleanup_free_ uint8_t *copy = malloc(len + 1);

	memcpy(copy, data, len);
	if (kind == spoil) {
		spoil = OID_NONE;
		spoiled_len = len;
		copy[MIN(spoil_at, len - 1)] ^= 1;
	}
	return __real_batch_put(b, kind, copy, len, ret_id);
}

static void close_case(struct env_case *c)
{
	assert_ok(env_close_kept(c->e));
	c->e = NULL;
}

static int freeze(struct env_case *c, const struct buf *left,
		  struct freeze_result *ret)
{
	_cleanup_diag_ struct diag diag = {0};
	struct env *e;
	int r;

	if (c->e)
		close_case(c);
	assert_ok(env_open(c->store, "e", ENV_READ_ONLY, NULL, &e));
	r = env_freeze(e, left, &diag, ret);
	if (r < 0)
		assert_non_null(diag_line(&diag, 0));
	env_close(e);
	return r;
}

/* Freezes and compares with the whole; returns what it was. */
static struct freeze_result frozen(struct env_case *c)
{
	struct freeze_result r;
	struct oid whole;
	struct env *e;

	assert_ok(freeze(c, &nothing, &r));
	assert_ok(env_open(c->store, "e", ENV_READ_ONLY, NULL, &e));
	whole = full_snapshot(c->store, e);
	env_close(e);
	assert_memory_equal(&whole, &r.snapshot, sizeof whole);
	return r;
}

TEST(what_did_not_change_is_the_same_snapshot)
{
	struct env_case *c = *state;
	struct freeze_result r = frozen(c);

	assert_memory_equal(&r.snapshot, &c->snapshot, sizeof c->snapshot);
	assert_int_equal(r.trees, 1);
	assert_int_equal(r.files, 0);
	assert_int_equal(r.bytes, 0);
	assert_int_equal(r.inodes, CASE_LAST_INO);
	freeze_fini(&r);
}

TEST(a_change_costs_its_directories_and_its_file)
{
	struct env_case *c = *state;
	struct freeze_result r;

	env_case_write(c, env_case_at(c, "d/sub/y").ino, "new", 0);
	r = frozen(c);
	assert_int_equal(r.trees, 3);
	assert_int_equal(r.files, 1);
	freeze_fini(&r);
}

TEST(a_byte_in_a_big_file_costs_one_chunk)
{
	struct env_case *c = *state;
	struct freeze_result r;

	env_case_write(c, env_case_at(c, "d/big").ino, "!", 5);
	r = frozen(c);
	assert_int_equal(r.files, 1);
	assert_true(r.bytes > FORMAT_CHUNK_BYTES);
	assert_true(r.bytes < FORMAT_CHUNK_BYTES + 4096);
	freeze_fini(&r);
}

TEST(every_kind_of_change_is_in_it)
{
	struct env_case *c = *state;
	struct env_attr a = {.size = 150000, .mode = 0600};
	uint64_t big = env_case_at(c, "d/big").ino, n;
	struct freeze_result r;

	/* cut inside the first chunk's successor, grown again */
	assert_ok(env_setattr(c->e, big, ENV_SET_SIZE, &a, &a));
	a.size = 400001;
	assert_ok(env_setattr(c->e, big, ENV_SET_SIZE, &a, &a));
	n = env_case_make(c, ENV_ROOT, "new", S_IFDIR | 0700);
	env_case_make(c, n, "empty", S_IFDIR | 0755);
	env_case_make(c, n, "fifo", S_IFIFO | 0644);
	env_case_make(c, n, "dev", S_IFCHR | 0600);
	assert_ok(env_symlink(c->e, n, "ln", "../a.txt", &env_case_root, &a));
	n = env_case_make(c, n, "sparse", S_IFREG | 0644);
	env_case_write(c, n, "end", 3 * FORMAT_CHUNK_BYTES);
	assert_ok(env_link(c->e, n, ENV_ROOT, "zz", &a));
	assert_ok(env_setxattr(c->e, n, "user.mine", "12", 2, 0, false));
	assert_ok(env_removexattr(c->e, env_case_at(c, "d/x").ino, "user.k"));
	a.mode = 0600;
	assert_ok(env_setattr(c->e, env_case_at(c, "d").ino, ENV_SET_MODE, &a,
			      &a));
	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	r = frozen(c);
	assert_int_equal(r.sockets.len, 0);
	freeze_fini(&r);
}

TEST(a_moved_directory_keeps_its_tree_and_its_links)
{
	struct env_case *c = *state;
	struct freeze_result r;

	env_case_make(c, ENV_ROOT, "0first", S_IFDIR | 0755);
	assert_ok(env_rename(c->e, ENV_ROOT, "d", env_case_at(c, "0first").ino,
			     "moved", 0));
	r = frozen(c);
	assert_int_equal(r.trees, 2); /* the root and 0first */
	assert_int_equal(r.files, 0);
	freeze_fini(&r);
}

TEST(one_name_of_a_linked_file_changes_all)
{
	struct env_case *c = *state;
	struct freeze_result r;

	env_case_write(c, env_case_at(c, "hl2").ino, "LINK", 0);
	r = frozen(c);
	assert_int_equal(r.trees, 2); /* d holds the other name */
	freeze_fini(&r);
}

/* The environment anew, on what was frozen. */
static void stand_on(struct env_case *c, const struct oid *snapshot)
{
	const struct env_info info = {.snapshot = *snapshot};

	assert_ok(env_remove(c->store, "e"));
	assert_ok(env_create(c->store, "e", &info));
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
}

TEST(names_of_a_linked_file_in_other_directories_change_with_it)
{
	struct env_case *c = *state;
	struct freeze_result r;
	struct env_attr a;
	uint64_t p = env_case_make(c, ENV_ROOT, "p", S_IFDIR | 0755);
	uint64_t q = env_case_make(c, ENV_ROOT, "q", S_IFDIR | 0755);
	uint64_t ino = env_case_make(c, p, "l", S_IFREG | 0644);

	assert_ok(env_link(c->e, ino, q, "l", &a));
	env_case_make(c, ENV_ROOT, "other", S_IFDIR | 0755);
	r = frozen(c);
	stand_on(c, &r.snapshot);
	freeze_fini(&r);
	env_case_write(c, env_case_at(c, "q/l").ino, "x", 0);
	r = frozen(c);
	assert_int_equal(r.trees, 3);
	freeze_fini(&r);
}

TEST(a_socket_is_left_out_and_named)
{
	struct env_case *c = *state;
	struct freeze_result r;

	env_case_make(c, env_case_at(c, "d").ino, "sock", S_IFSOCK | 0600);
	r = frozen(c);
	assert_int_equal(r.sockets.len, sizeof "d/sock");
	assert_string_equal((const char *)r.sockets.data, "d/sock");
	freeze_fini(&r);
}

static void open_frozen(struct env_case *c, const struct freeze_result *r)
{
	assert_ok(env_open_snapshot(c->store, &r->snapshot, &c->e));
}

static bool is_there(struct env_case *c, const char *dir, const char *name)
{
	struct env_attr a;

	return env_lookup(c->e, env_case_at(c, dir).ino, name, &a) == 0;
}

TEST(what_is_left_out_is_as_in_the_base_or_absent)
{
	struct env_case *c = *state;
	_cleanup_buf_ struct buf left = {0};
	struct freeze_result r;
	uint64_t n, d = env_case_at(c, "d").ino;
	char got[8] = "";

	env_case_write(c, env_case_at(c, "a.txt").ino, "CHANGED", 0);
	env_case_write(c, env_case_at(c, "d/sub/y").ino, "CHANGED", 0);
	env_case_write(c, env_case_at(c, "d/hl1").ino, "CHANGED", 0);
	env_case_make(c, d, "kept", S_IFREG | 0644);
	n = env_case_make(c, d, "cache", S_IFDIR | 0755);
	env_case_write(c, env_case_make(c, n, "f", S_IFREG | 0644), "x", 0);
	buf_put(&left, "d/sub\0d/cache\0hl2\0a.txt", 24);
	assert_ok(freeze(c, &left, &r));
	open_frozen(c, &r);
	assert_int_equal(env_read(c->e, env_case_at(c, "a.txt").ino, got, 8, 0),
			 6);
	assert_memory_equal(got, "hello\n", 6);
	assert_int_equal(
		env_read(c->e, env_case_at(c, "d/sub/y").ino, got, 8, 0), 2);
	assert_memory_equal(got, "yy", 2);
	/* one inode of the environment, two files now */
	assert_int_equal(env_read(c->e, env_case_at(c, "hl2").ino, got, 8, 0),
			 6);
	assert_memory_equal(got, "linked", 6);
	assert_int_equal(env_case_at(c, "hl2").nlink, 1);
	assert_int_equal(env_read(c->e, env_case_at(c, "d/hl1").ino, got, 8, 0),
			 7);
	assert_true(is_there(c, "d", "kept"));
	assert_false(is_there(c, "d", "cache"));
	freeze_fini(&r);
}

TEST(gc_takes_nothing_while_the_pin_is_open)
{
	struct env_case *c = *state;
	const struct gc_options dry = {.dry_run = true};
	struct freeze_result r;
	struct gc_result gc;
	struct oid id;

	env_case_write(c, env_case_at(c, "a.txt").ino, "other", 0);
	assert_ok(freeze(c, &nothing, &r));
	id = r.snapshot;
	assert_true(r.pin >= 0);
	assert_true(store_is_collecting(c->store) == false);
	assert_int_equal(store_has(c->store, &id), 1);
	freeze_fini(&r);
	assert_ok(store_gc(c->store, &dry, NULL, NULL, &gc));
	assert_true(gc.objects > 0); /* nobody needs it yet */
}

TEST(an_environment_that_is_open_for_changes_is_refused)
{
	struct env_case *c = *state;
	struct freeze_result r;

	assert_int_equal(env_freeze(c->e, &nothing, NULL, &r), -EINVAL);
}

/* Stores wrong bytes of one kind: the comparison must see it, or the bytes
 * cannot be read at all. */
static void assert_seen(struct env_case *c, enum oid_kind kind)
{
	struct freeze_result r;
	int err;

	spoil = kind;
	err = freeze(c, &nothing, &r);
	assert_int_equal(spoil, OID_NONE);
	assert_true(err == -EIO || err == -EFSCORRUPTED);
}

TEST(what_was_stored_wrong_is_seen)
{
	struct env_case *c = *state;
	uint64_t x = env_case_at(c, "d/x").ino;
	struct env_attr a;

	env_case_write(c, env_case_at(c, "d/big").ino, "!", 5);
	assert_seen(c, OID_BLOB);
	assert_seen(c, OID_MANIFEST);
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	assert_ok(env_setxattr(c->e, x, "user.k", "w", 1, 0, false));
	assert_ok(env_link(c->e, x, ENV_ROOT, "x2", &a));
	assert_seen(c, OID_XSET);
	assert_seen(c, OID_TREE);
	assert_seen(c, OID_LINKS);
}

TEST(no_byte_of_a_tree_may_be_another)
{
	struct env_case *c = *state;

	/* the first one that is stored is that of d/sub */
	env_case_write(c, env_case_at(c, "d/sub/y").ino, "new", 0);
	spoiled_len = 1;
	for (spoil_at = 0; spoil_at < spoiled_len; spoil_at++)
		assert_seen(c, OID_TREE);
	spoil_at = SIZE_MAX;
	assert_true(spoiled_len > 64);
}

TEST(the_mark_is_of_the_state)
{
	struct env_case *c = *state;
	struct env_mark a, b;

	env_get_mark(c->e, &a);
	assert_int_equal(a.salt | a.frames, 0);
	env_case_make(c, ENV_ROOT, "n", S_IFREG | 0644);
	env_get_mark(c->e, &a);
	assert_int_not_equal(a.salt, 0);
	env_case_reopen(c);
	env_get_mark(c->e, &b);
	assert_memory_equal(&a, &b, sizeof a);
	assert_ok(env_unlink(c->e, ENV_ROOT, "n"));
	env_get_mark(c->e, &b);
	assert_int_not_equal(a.frames, b.frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(what_did_not_change_is_the_same_snapshot),
		RUN_ENV(a_change_costs_its_directories_and_its_file),
		RUN_ENV(a_byte_in_a_big_file_costs_one_chunk),
		RUN_ENV(every_kind_of_change_is_in_it),
		RUN_ENV(a_moved_directory_keeps_its_tree_and_its_links),
		RUN_ENV(one_name_of_a_linked_file_changes_all),
		RUN_ENV(names_of_a_linked_file_in_other_directories_change_with_it),
		RUN_ENV(a_socket_is_left_out_and_named),
		RUN_ENV(what_is_left_out_is_as_in_the_base_or_absent),
		RUN_ENV(gc_takes_nothing_while_the_pin_is_open),
		RUN_ENV(an_environment_that_is_open_for_changes_is_refused),
		RUN_ENV(what_was_stored_wrong_is_seen),
		RUN_ENV(no_byte_of_a_tree_may_be_another),
		RUN_ENV(the_mark_is_of_the_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
