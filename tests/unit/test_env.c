/* SPDX-License-Identifier: MIT */
/*
 * Operations on an environment: what POSIX says, over base and new files, and
 * that a replay of the journal gives back exactly the same.
 */
#include "env_case.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, env_case_setup, env_case_teardown)

static uint64_t make(struct env_case *c, uint64_t dir, const char *name,
		     const char *text)
{
	struct env_attr a;

	assert_ok(env_mknod(c->e, dir, name, S_IFREG | 0666, 0, &env_case_root,
			    &a));
	if (*text)
		assert_ok(env_write(c->e, a.ino, text, strlen(text), 0, false));
	return a.ino;
}

static void assert_text(struct env_case *c, uint64_t ino, const char *text)
{
	char got[256] = {0};

	assert_int_equal(env_read(c->e, ino, got, sizeof got - 1, 0),
			 strlen(text));
	assert_string_equal(got, text);
}

static void assert_replays(struct env_case *c)
{
	_cleanup_buf_ struct buf before = {0}, after = {0};

	env_case_dump(c, &before);
	env_case_reopen(c);
	env_case_dump(c, &after);
	assert_string_equal(buf_str(&before), buf_str(&after));
}

static void assert_diff(struct env_case *c, const char *rows)
{
	_cleanup_buf_ struct buf got = {0};

	env_case_diff(c, 0, &got);
	assert_string_equal(buf_str(&got), rows);
}

TEST(inode_numbers_are_preorder_positions)
{
	struct env_case *c = *state;

	assert_int_equal(env_case_at(c, "a.txt").ino, 2);
	assert_int_equal(env_case_at(c, "d/sub/y").ino, 7);
	assert_int_equal(env_case_at(c, "link").ino, 10);
	assert_int_equal(env_case_at(c, "d").nlink, 3);
	assert_true(make(c, ENV_ROOT, "new", "") > CASE_LAST_INO);
}

TEST(hard_links_of_the_base_are_one_inode)
{
	struct env_case *c = *state;
	struct env_attr a = env_case_at(c, "d/hl1");

	assert_int_equal(a.ino, env_case_at(c, "hl2").ino);
	assert_int_equal(a.nlink, 2);
	assert_ok(env_write(c->e, a.ino, "LI", 2, 0, false));
	assert_text(c, env_case_at(c, "hl2").ino, "LInked");
	assert_ok(env_unlink(c->e, env_case_at(c, "d").ino, "hl1"));
	assert_int_equal(env_case_at(c, "hl2").nlink, 1);
	assert_replays(c);
	assert_diff(c, "D d/hl1\nM hl2\n");
}

TEST(a_byte_in_a_big_file_costs_one_block)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_at(c, "d/big").ino;
	_cleanup_free_ uint8_t *data = malloc(CASE_BIG);
	struct env_stat st;

	assert_ok(env_write(c->e, ino, "!", 1, 200001, false));
	assert_int_equal(env_read(c->e, ino, data, CASE_BIG, 0), CASE_BIG);
	for (size_t i = 0; i < CASE_BIG; i++)
		assert_int_equal(data[i],
				 i == 200001 ? '!' : env_case_big(i));
	env_stat(c->e, &st);
	assert_true(st.data_bytes <= 4096);
	assert_diff(c, "M d/big\n");
	data[0] = env_case_big(200001);
	assert_ok(env_write(c->e, ino, data, 1, 200001, false));
	assert_diff(c, "");
}

TEST(bytes_beyond_a_cut_are_zeros_when_the_file_grows)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_at(c, "d/big").ino;
	struct env_attr v = {.size = 5001}, a;
	uint8_t data[9000];

	assert_ok(env_write(c->e, ino, "abcdef", 6, 4999, false));
	assert_ok(env_setattr(c->e, ino, ENV_SET_SIZE, &v, &a));
	v.size = 9000;
	assert_ok(env_setattr(c->e, ino, ENV_SET_SIZE, &v, &a));
	assert_int_equal(env_read(c->e, ino, data, 9000, 0), 9000);
	assert_memory_equal(data + 4999, "ab", 2);
	for (size_t i = 5001; i < 9000; i++)
		assert_int_equal(data[i], 0);
	assert_int_equal(data[4998], env_case_big(4998));
	assert_replays(c);
}

TEST(holes_are_told_from_data)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_at(c, "d/big").ino, at;

	assert_ok(env_seek(c->e, ino, 10, SEEK_HOLE, &at));
	assert_int_equal(at, 131072);
	assert_ok(env_seek(c->e, ino, 131072, SEEK_DATA, &at));
	assert_int_equal(at, 262144);
	assert_ok(env_write(c->e, ino, "x", 1, 140000, false));
	assert_ok(env_seek(c->e, ino, 131072, SEEK_DATA, &at));
	assert_int_equal(at, 139264);
	assert_ok(env_seek(c->e, ino, at, SEEK_HOLE, &at));
	assert_int_equal(at, 143360);
	assert_int_equal(env_seek(c->e, ino, CASE_BIG, SEEK_DATA, &at), -ENXIO);
	assert_ok(env_fallocate(c->e, ino,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100,
				10000));
	assert_ok(env_seek(c->e, ino, 4096, SEEK_HOLE, &at));
	assert_int_equal(at, 4096);
	assert_replays(c);
}

TEST(a_base_directory_moves_with_all_below_it)
{
	struct env_case *c = *state;
	struct env_attr a, sub = env_case_at(c, "d/sub");

	assert_ok(env_write(c->e, env_case_at(c, "d/x").ino, "X", 1, 0, false));
	assert_ok(env_rename(c->e, ENV_ROOT, "d", ENV_ROOT, "e", 0));
	assert_int_equal(env_lookup(c->e, ENV_ROOT, "d", &a), -ENOENT);
	assert_text(c, env_case_at(c, "e/sub/y").ino, "yy");
	assert_text(c, env_case_at(c, "e/x").ino, "Xx");
	assert_ok(env_rename(c->e, env_case_at(c, "e").ino, "sub", ENV_ROOT,
			     "far", 0));
	assert_int_equal(env_case_at(c, "far").ino, sub.ino);
	assert_int_equal(env_case_at(c, "e").nlink, 2);
	assert_replays(c);
	assert_diff(c, "D d/\nD d/hl1\nD d/sub/\nD d/x\nR d/big e/big\n"
		       "A e/hl1\nA e/x\nR d/sub/y far/y\n");
	assert_ok(env_rename(c->e, ENV_ROOT, "far", env_case_at(c, "e").ino,
			     "sub", 0));
	assert_ok(env_rename(c->e, ENV_ROOT, "e", ENV_ROOT, "d", 0));
	assert_diff(c, "M d/x\n");
}

TEST(rename_refuses_what_posix_refuses)
{
	struct env_case *c = *state;
	uint64_t d = env_case_at(c, "d").ino, sub = env_case_at(c, "d/sub").ino;
	const unsigned keep = 1 /* RENAME_NOREPLACE */;
	struct env *e = c->e;

	assert_int_equal(env_rename(e, ENV_ROOT, "d", sub, "z", 0), -EINVAL);
	assert_int_equal(env_rename(e, ENV_ROOT, "a.txt", ENV_ROOT, "d", 0),
			 -EISDIR);
	assert_int_equal(env_rename(e, ENV_ROOT, "d", ENV_ROOT, "a.txt", 0),
			 -ENOTDIR);
	assert_int_equal(env_rename(e, d, "sub", ENV_ROOT, "d", 0), -ENOTEMPTY);
	assert_int_equal(env_rename(e, ENV_ROOT, "no", ENV_ROOT, "z", 0),
			 -ENOENT);
	assert_int_equal(env_rename(e, d, "x", ENV_ROOT, "a.txt", keep),
			 -EEXIST);
	assert_diff(c, "");
}

TEST(a_name_replaced_or_removed_and_made_again)
{
	struct env_case *c = *state;
	struct env_attr a;

	make(c, ENV_ROOT, "n", "new");
	assert_ok(env_rename(c->e, ENV_ROOT, "n", ENV_ROOT, "a.txt", 0));
	assert_text(c, env_case_at(c, "a.txt").ino, "new");
	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	assert_int_equal(env_lookup(c->e, ENV_ROOT, "a.txt", &a), -ENOENT);
	assert_ok(env_symlink(c->e, ENV_ROOT, "a.txt", "where", &env_case_root,
			      &a));
	assert_replays(c);
	assert_diff(c, "T a.txt\n");
	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	make(c, ENV_ROOT, "a.txt", "hello\n");
	assert_diff(c, "");
}

static bool first_name(void *ctx, const char *name, size_t len,
		       const struct env_attr *attr, uint64_t next)
{
	struct buf *b = ctx;

	buf_put(b, name, len);
	buf_put_u64(b, next);
	return false;
}

TEST(cookies_never_go_back_and_deleting_while_reading_sees_all)
{
	struct env_case *c = *state;
	uint64_t dir = env_case_at(c, "d").ino, cookie = 0, last = 0;
	size_t seen = 0;

	for (int i = 0; i < 200; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "n%d", i);
		make(c, dir, name, "");
	}
	for (;; seen++) {
		_cleanup_buf_ struct buf b = {0};
		char name[64] = {0};
		struct env_attr a;

		/* a callback that stops has not taken the entry, but has seen
		 * its cookie */
		assert_ok(env_readdir(c->e, dir, cookie, first_name, &b));
		if (!b.len)
			break;
		memcpy(&cookie, b.data + b.len - 8, 8);
		memcpy(name, b.data, b.len - 8);
		assert_true(cookie > last);
		last = cookie;
		assert_ok(env_lookup(c->e, dir, name, &a));
		if (!S_ISDIR(a.mode))
			assert_ok(env_unlink(c->e, dir, name));
	}
	assert_int_equal(seen, 204);
	assert_replays(c);
	make(c, dir, "late", "");
	assert_int_equal(env_case_at(c, "d").nlink, 3);
}

TEST(a_removed_base_tree_stays_removed)
{
	struct env_case *c = *state;
	uint64_t d = env_case_at(c, "d").ino, sub = env_case_at(c, "d/sub").ino;
	struct env_attr a;

	assert_int_equal(env_rmdir(c->e, ENV_ROOT, "d"), -ENOTEMPTY);
	assert_ok(env_unlink(c->e, sub, "y"));
	assert_ok(env_rmdir(c->e, d, "sub"));
	assert_ok(env_unlink(c->e, d, "x"));
	assert_ok(env_unlink(c->e, d, "hl1"));
	assert_ok(env_unlink(c->e, d, "big"));
	assert_ok(env_rmdir(c->e, ENV_ROOT, "d"));
	assert_int_equal(env_mkdir(c->e, d, "z", 0755, &env_case_root, &a),
			 -ENOENT);
	assert_true(env_is_orphan(c->e, d));
	env_reap(c->e, d);
	assert_ok(env_mkdir(c->e, ENV_ROOT, "d", 0755, &env_case_root, &a));
	assert_int_equal(env_lookup(c->e, a.ino, "x", &a), -ENOENT);
	assert_replays(c);
	assert_diff(c, "D d/big\nD d/hl1\nD d/sub/\nD d/sub/y\nD d/x\n");
}

TEST(an_unlinked_file_works_until_it_is_reaped)
{
	struct env_case *c = *state;
	struct env_attr a = env_case_at(c, "a.txt");

	assert_ok(env_unlink(c->e, ENV_ROOT, "a.txt"));
	assert_ok(env_getattr(c->e, a.ino, &a));
	assert_int_equal(a.nlink, 0);
	assert_ok(env_write(c->e, a.ino, "J", 1, 0, false));
	assert_text(c, a.ino, "Jello\n");
	assert_true(env_is_orphan(c->e, a.ino));
	env_reap(c->e, a.ino);
	assert_false(env_is_orphan(c->e, a.ino));
	assert_replays(c);
	assert_diff(c, "D a.txt\n");
}

TEST(a_file_without_a_name_gets_one)
{
	struct env_case *c = *state;
	struct env_attr a;
	uint64_t ino;

	assert_ok(env_tmpfile(c->e, ENV_ROOT, 0600, &env_case_root, &a));
	ino = a.ino;
	assert_int_equal(a.nlink, 0);
	assert_ok(env_write(c->e, ino, "anon", 4, 0, false));
	assert_ok(env_link(c->e, ino, ENV_ROOT, "named", &a));
	assert_int_equal(a.nlink, 1);
	assert_false(env_is_orphan(c->e, ino));
	assert_replays(c);
	assert_text(c, env_case_at(c, "named").ino, "anon");
}

TEST(attributes_of_a_base_file_change_without_its_bytes)
{
	struct env_case *c = *state;
	uint64_t ino = env_case_at(c, "d/x").ino;
	struct env_attr v = {.mode = 0600, .uid = 7}, a;
	char value[8];

	assert_ok(env_setattr(c->e, ino, ENV_SET_MODE | ENV_SET_UID, &v, &a));
	assert_int_equal(a.mode, S_IFREG | 0600);
	assert_int_equal(a.mtime.tv_sec, 1000);
	assert_int_equal(env_getxattr(c->e, ino, "user.k", value, 8), 1);
	assert_ok(env_setxattr(c->e, ino, "user.z", "1", 1, 0, false));
	assert_ok(env_removexattr(c->e, ino, "user.k"));
	assert_int_equal(env_getxattr(c->e, ino, "user.k", value, 8), -ENODATA);
	assert_int_equal(env_removexattr(c->e, ino, "user.k"), -ENODATA);
	assert_int_equal(env_setxattr(c->e, ino, "user.z", "2", 1, 1, false),
			 -EEXIST);
	assert_replays(c);
	assert_diff(c, "M d/x\n");
	assert_ok(env_setxattr(c->e, ino, "user.k", "v", 1, 0, false));
	assert_ok(env_removexattr(c->e, ino, "user.z"));
	v = (struct env_attr){.mode = 0644};
	assert_ok(env_setattr(c->e, ino, ENV_SET_MODE | ENV_SET_UID, &v, &a));
	assert_diff(c, "");
}

TEST(a_write_clears_capabilities_and_chown_setuid)
{
	struct env_case *c = *state;
	uint64_t ino = make(c, ENV_ROOT, "s", "x");
	struct env_attr v = {.mode = 06755, .uid = 5}, a;
	char value[8];

	assert_ok(env_setxattr(c->e, ino, "security.capability", "cap", 3, 0,
			       false));
	assert_ok(env_setattr(c->e, ino, ENV_SET_MODE, &v, &a));
	assert_ok(env_write(c->e, ino, "y", 1, 0, false));
	assert_int_equal(
		env_getxattr(c->e, ino, "security.capability", value, 8),
		-ENODATA);
	assert_ok(env_getattr(c->e, ino, &a));
	assert_int_equal(a.mode & 07777, 06755);
	assert_ok(env_setattr(c->e, ino, ENV_SET_UID, &v, &a));
	assert_int_equal(a.mode & 07777, 0755);
	assert_ok(env_setattr(c->e, ino, ENV_SET_MODE, &v, &a));
	assert_ok(env_write(c->e, ino, "y", 1, 0, true));
	assert_ok(env_getattr(c->e, ino, &a));
	assert_int_equal(a.mode & 07777, 0755);
}

TEST(chown_clears_setuid_of_all_but_folders)
{
	static const uint32_t kinds[] = {S_IFBLK, S_IFIFO, S_IFSOCK, S_IFDIR};
	struct env_case *c = *state;
	struct env_attr v = {.mode = 06755, .uid = 5}, a;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char name[] = {(char)('k' + i), '\0'};
		bool dir = kinds[i] == S_IFDIR;

		if (dir)
			assert_ok(env_mkdir(c->e, ENV_ROOT, name, 0755,
					    &env_case_root, &a));
		else
			assert_ok(env_mknod(c->e, ENV_ROOT, name,
					    kinds[i] | 0755, 0, &env_case_root,
					    &a));
		assert_ok(env_setattr(c->e, a.ino, ENV_SET_MODE, &v, &a));
		assert_ok(env_setattr(c->e, a.ino, ENV_SET_UID, &v, &a));
		assert_int_equal(a.mode & 07777, dir ? 06755 : 0755);
	}
}

TEST(a_torn_tail_is_cut_and_nothing_else)
{
	struct env_case *c = *state;
	_cleanup_close_ int fd = -1;
	struct env_stat st;

	make(c, ENV_ROOT, "whole", "1");
	env_stat(c->e, &st);
	make(c, ENV_ROOT, "torn", "");
	env_close(c->e);
	c->e = NULL;
	fd = openat(store_fd(c->store), "envs/e/journal", O_RDWR | O_CLOEXEC);
	assert_ok(ftruncate(fd, (off_t)st.journal_bytes + 30));
	assert_ok(env_open(c->store, "e", 0, NULL, &c->e));
	assert_diff(c, "A whole\n");
	make(c, ENV_ROOT, "after", "2");
	assert_replays(c);
}

TEST(a_second_open_is_refused)
{
	struct env_case *c = *state;
	struct env *other;

	assert_int_equal(env_open(c->store, "e", 0, NULL, &other), -EBUSY);
	assert_int_equal(env_open(c->store, "none", 0, NULL, &other), -ENOENT);
	assert_int_equal(env_open(c->store, "../x", 0, NULL, &other), -EINVAL);
}

TEST(what_is_read_only_changes_nothing)
{
	struct env_case *c = *state;
	struct env_attr a;

	make(c, ENV_ROOT, "n", "1");
	env_close(c->e);
	assert_ok(env_open(c->store, "e", ENV_READ_ONLY, NULL, &c->e));
	assert_int_equal(env_unlink(c->e, ENV_ROOT, "n"), -EROFS);
	assert_int_equal(env_mkdir(c->e, ENV_ROOT, "m", 0755, &env_case_root,
				   &a),
			 -EROFS);
	assert_int_equal(env_write(c->e, env_case_at(c, "n").ino, "2", 1, 0,
				   false),
			 -EROFS);
	assert_diff(c, "A n\n");
}

/* One random operation; errors are fine, only the state counts. */
static void random_op(struct env_case *c, unsigned *seed)
{
	static const char *const names[] = {"a.txt", "d", "x", "sub", "y", "p",
					    "q", "big", "hl1"};
	const char *n1 = names[(unsigned)rand_r(seed) % ARRAY_SIZE(names)];
	const char *n2 = names[(unsigned)rand_r(seed) % ARRAY_SIZE(names)];
	uint64_t d1 = 1 + (uint64_t)rand_r(seed) % 40;
	uint64_t d2 = 1 + (uint64_t)rand_r(seed) % 40;
	struct env_attr a, v = {.size = (uint64_t)rand_r(seed) % 20000};
	uint8_t data[6000];

	memset(data, rand_r(seed), sizeof data);
	switch (rand_r(seed) % 11) {
	case 0:
		(void)env_mkdir(c->e, d1, n1, 0755, &env_case_root, &a);
		break;
	case 1:
		(void)env_mknod(c->e, d1, n1, S_IFREG | 0644, 0, &env_case_root,
				&a);
		break;
	case 2:
		(void)env_unlink(c->e, d1, n1);
		break;
	case 3:
		(void)env_rmdir(c->e, d1, n1);
		break;
	case 4:
	case 5:
		(void)env_rename(c->e, d1, n1, d2, n2,
				 rand_r(seed) % 4 == 0 ? 2 : 0);
		break;
	case 6:
		(void)env_link(c->e, d2, d1, n1, &a);
		break;
	case 7:
	case 8:
		(void)env_write(c->e, d1, data, (unsigned)rand_r(seed) % 6000,
				(uint64_t)rand_r(seed) % 290000, false);
		break;
	case 9:
		(void)env_setattr(c->e, d1, ENV_SET_SIZE, &v, &a);
		break;
	default:
		(void)env_fallocate(c->e, d1, rand_r(seed) % 2 ? 3 : 0,
				    (uint64_t)rand_r(seed) % 280000, 9000);
	}
}

TEST(random_changes_replay_to_the_same_state)
{
	struct env_case *c = *state;
	unsigned seed = 42;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 400; i++)
			random_op(c, &seed);
		env_reap_all(c->e);
		assert_replays(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(inode_numbers_are_preorder_positions),
		RUN_ENV(hard_links_of_the_base_are_one_inode),
		RUN_ENV(a_byte_in_a_big_file_costs_one_block),
		RUN_ENV(bytes_beyond_a_cut_are_zeros_when_the_file_grows),
		RUN_ENV(holes_are_told_from_data),
		RUN_ENV(a_base_directory_moves_with_all_below_it),
		RUN_ENV(rename_refuses_what_posix_refuses),
		RUN_ENV(a_name_replaced_or_removed_and_made_again),
		RUN_ENV(cookies_never_go_back_and_deleting_while_reading_sees_all),
		RUN_ENV(a_removed_base_tree_stays_removed),
		RUN_ENV(an_unlinked_file_works_until_it_is_reaped),
		RUN_ENV(a_file_without_a_name_gets_one),
		RUN_ENV(attributes_of_a_base_file_change_without_its_bytes),
		RUN_ENV(a_write_clears_capabilities_and_chown_setuid),
		RUN_ENV(chown_clears_setuid_of_all_but_folders),
		RUN_ENV(a_torn_tail_is_cut_and_nothing_else),
		RUN_ENV(a_second_open_is_refused),
		RUN_ENV(what_is_read_only_changes_nothing),
		RUN_ENV(random_changes_replay_to_the_same_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
