/* SPDX-License-Identifier: MIT */
/*
 * What counts against a quota, what is refused beyond it and what never is.
 * Random operations under narrow bounds: the sums agree with a count from
 * scratch after each few steps and after a replay, and nothing grows beyond.
 * The seed is printed; COWFS_SEED repeats a run, COWFS_STEPS makes it longer.
 */
#include "env_case.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "env/check.h"
#include "object/format.h"

enum { KIB = 1024, BLOCK = 4096 };

static struct env_case *tc;

static void limit(uint64_t bytes, uint64_t inodes)
{
	const struct env_limits l = {.bytes = bytes, .inodes = inodes};

	env_set_limits(tc->e, &l);
}

static void expect_use(uint64_t bytes, uint64_t inodes)
{
	struct env_use now, again;

	env_use(tc->e, &now);
	env_recount(tc->e, &again);
	assert_int_equal(now.bytes, bytes);
	assert_int_equal(now.inodes, inodes);
	assert_int_equal(again.bytes, bytes);
	assert_int_equal(again.inodes, inodes);
}

static int make(const char *name)
{
	struct env_attr a;

	return env_mknod(tc->e, ENV_ROOT, name, S_IFREG | 0644, 0,
			 &env_case_root, &a);
}

static int put(const char *path, uint64_t offset, size_t n)
{
	static uint8_t data[256 * KIB];

	assert_true(n <= sizeof data);
	memset(data, 'q', sizeof data);
	return env_write(tc->e, env_case_at(tc, path).ino, data, n, offset,
			 false);
}

static int resize(const char *path, uint64_t size)
{
	struct env_attr v = {.size = size}, a;

	return env_setattr(tc->e, env_case_at(tc, path).ino, ENV_SET_SIZE, &v,
			   &a);
}

/* --- what counts ------------------------------------------------------------
 */

TEST(what_is_looked_at_or_renamed_costs_nothing)
{
	struct env_attr v = {.mode = 0600}, a;

	tc = *state;
	assert_ok(env_setattr(tc->e, env_case_at(tc, "a.txt").ino, ENV_SET_MODE,
			      &v, &a));
	assert_ok(env_rename(tc->e, ENV_ROOT, "a.txt", ENV_ROOT, "z", 0));
	assert_ok(env_rename(tc->e, ENV_ROOT, "d", ENV_ROOT, "e", 0));
	assert_ok(
		env_link(tc->e, env_case_at(tc, "z").ino, ENV_ROOT, "zz", &a));
	assert_ok(env_unlink(tc->e, ENV_ROOT, "hl2"));
	assert_ok(resize("z", 3));
	assert_ok(resize("z", 1 << 30));
	expect_use(0, 0);
}

TEST(blocks_count_once_and_come_back)
{
	uint64_t big;

	tc = *state;
	assert_ok(put("d/big", 5000, 1)); /* one block of the base */
	expect_use(BLOCK, 0);
	assert_ok(put("d/big", 4096, 4096)); /* the same, in place */
	expect_use(BLOCK, 0);
	assert_ok(put("d/big", 3 * BLOCK - 1, 2));
	expect_use(3 * BLOCK, 0);
	big = env_case_at(tc, "d/big").ino;
	assert_ok(env_fallocate(tc->e, big,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				BLOCK, 2 * BLOCK));
	expect_use(BLOCK, 0);
	env_case_reopen(tc);
	expect_use(BLOCK, 0);
	assert_ok(resize("d/big", 100));
	expect_use(0, 0);
	assert_ok(make("n"));
	assert_ok(env_fallocate(tc->e, env_case_at(tc, "n").ino, 0, 0,
				10 * BLOCK));
	expect_use(10 * BLOCK, 1);
	assert_ok(put("n", 0, 20 * BLOCK));
	expect_use(20 * BLOCK, 1);
	env_case_reopen(tc);
	expect_use(20 * BLOCK, 1);
}

TEST(what_is_removed_counts_until_it_is_freed)
{
	struct env_attr a;
	uint64_t n;

	tc = *state;
	assert_ok(make("n"));
	assert_ok(make("m"));
	assert_ok(put("n", 0, 3 * BLOCK));
	n = env_case_at(tc, "n").ino;
	assert_ok(env_link(tc->e, n, ENV_ROOT, "n2", &a));
	assert_ok(env_unlink(tc->e, ENV_ROOT, "n"));
	expect_use(3 * BLOCK, 2); /* another name */
	assert_ok(env_rename(tc->e, ENV_ROOT, "m", ENV_ROOT, "n2", 0));
	expect_use(3 * BLOCK, 2); /* may be open */
	assert_true(env_is_orphan(tc->e, n));
	env_reap(tc->e, n);
	expect_use(0, 1);
	assert_ok(env_unlink(tc->e, ENV_ROOT, "n2"));
	env_case_reopen(tc); /* nobody has it open now */
	expect_use(0, 0);
}

TEST(xattrs_and_targets_count_their_bytes)
{
	struct env_attr a;
	uint64_t x;

	tc = *state;
	x = env_case_at(tc, "d/x").ino; /* has user.k=v */
	assert_ok(env_setxattr(tc->e, x, "user.ab", "1234", 4, 0, false));
	expect_use(6 + 1 + 7 + 4, 0);
	assert_ok(env_setxattr(tc->e, x, "user.ab", "1", 1, 0, false));
	expect_use(6 + 1 + 7 + 1, 0);
	env_case_reopen(tc);
	expect_use(6 + 1 + 7 + 1, 0);
	assert_ok(env_removexattr(tc->e, x, "user.ab"));
	assert_ok(env_removexattr(tc->e, x, "user.k"));
	expect_use(0, 0);
	assert_ok(env_symlink(tc->e, ENV_ROOT, "s", "target", &env_case_root,
			      &a));
	expect_use(6, 1);
	assert_ok(env_unlink(tc->e, ENV_ROOT, "s"));
	env_reap_all(tc->e);
	expect_use(0, 0);
}

/* --- what is refused ---------------------------------------------------------
 */

TEST(growth_beyond_is_refused_in_its_call_and_changes_nothing)
{
	char value[64] = "";
	struct env_attr a;

	tc = *state;
	limit(4 * BLOCK, 2);
	assert_ok(make("n"));
	assert_ok(put("n", 0, 3 * BLOCK));
	assert_int_equal(put("n", 3 * BLOCK, BLOCK + 1), -EDQUOT);
	assert_int_equal(env_case_at(tc, "n").size, 3 * BLOCK);
	assert_int_equal(put("d/big", BLOCK - 1, 2), -EDQUOT);
	assert_int_equal(
		env_fallocate(tc->e, env_case_at(tc, "n").ino, 0, 0, 5 * BLOCK),
		-EDQUOT);
	expect_use(3 * BLOCK, 1);
	assert_ok(put("n", 3 * BLOCK, BLOCK));
	assert_int_equal(put("a.txt", 0, 1), -EDQUOT);
	assert_int_equal(
		env_symlink(tc->e, ENV_ROOT, "s", "t", &env_case_root, &a),
		-EDQUOT);
	assert_int_equal(env_setxattr(tc->e, env_case_at(tc, "a.txt").ino,
				      "user.x", value, sizeof value, 0, false),
			 -EDQUOT);
	assert_ok(make("m")); /* an inode costs no bytes */
	assert_int_equal(make("o"), -EDQUOT);
	assert_int_equal(
		env_mkdir(tc->e, ENV_ROOT, "o", 0755, &env_case_root, &a),
		-EDQUOT);
	assert_int_equal(env_tmpfile(tc->e, ENV_ROOT, 0600, &env_case_root, &a),
			 -EDQUOT);
	assert_int_equal(env_rename(tc->e, ENV_ROOT, "m", ENV_ROOT, "o",
				    RENAME_WHITEOUT),
			 -EDQUOT);
	assert_int_equal(env_lookup(tc->e, ENV_ROOT, "o", &a), -ENOENT);
	expect_use(4 * BLOCK, 2);
	env_case_reopen(tc);
	expect_use(4 * BLOCK, 2);
}

TEST(beyond_the_quota_everything_else_works)
{
	struct env_attr a;
	char c;

	tc = *state;
	assert_ok(make("n"));
	assert_ok(make("m"));
	assert_ok(put("n", 0, 8 * BLOCK));
	limit(BLOCK, 1);
	assert_ok(put("n", 0, 8 * BLOCK)); /* in place */
	assert_ok(resize("n", 1 << 20));
	assert_ok(env_link(tc->e, env_case_at(tc, "n").ino, ENV_ROOT, "l", &a));
	assert_ok(env_rename(tc->e, ENV_ROOT, "l", ENV_ROOT, "k", 0));
	assert_int_equal(env_read(tc->e, env_case_at(tc, "n").ino, &c, 1, 0),
			 1);
	assert_int_equal(put("n", 8 * BLOCK, 1), -EDQUOT);
	assert_ok(resize("n", BLOCK / 2));
	expect_use(BLOCK, 2);
	assert_ok(env_unlink(tc->e, ENV_ROOT, "m"));
	env_reap_all(tc->e);
	assert_int_equal(make("m"), -EDQUOT);
	limit(2 * BLOCK, 2);
	assert_ok(make("m"));
	assert_ok(put("m", 0, 10));
	limit(0, 0);
	assert_ok(put("m", 0, 20 * BLOCK));
	assert_ok(make("more"));
}

TEST(a_directory_s_default_acl_counts_in_what_is_made_there)
{
	/* version 2; user rwx, user 7 r--, group r-x, mask rwx, other r-x */
	static const uint8_t acl[] = {2,    0,	  0,	0,    1,    0, 7, 0,
				      0xff, 0xff, 0xff, 0xff, 2,    0, 4, 0,
				      7,    0,	  0,	0,    4,    0, 5, 0,
				      0xff, 0xff, 0xff, 0xff, 0x10, 0, 7, 0,
				      0xff, 0xff, 0xff, 0xff, 0x20, 0, 5, 0,
				      0xff, 0xff, 0xff, 0xff};
	struct env_attr a;
	struct env_use use;

	tc = *state;
	assert_ok(env_setxattr(tc->e, ENV_ROOT, "system.posix_acl_default", acl,
			       sizeof acl, 0, false));
	env_use(tc->e, &use);
	assert_int_equal(use.bytes, 24 + sizeof acl);
	limit(use.bytes + 2 * sizeof acl, 0);
	assert_int_equal(
		env_mkdir(tc->e, ENV_ROOT, "n", 0755, &env_case_root, &a),
		-EDQUOT);
	expect_use(use.bytes, 0);
	limit(0, 0);
	assert_ok(env_mkdir(tc->e, ENV_ROOT, "n", 0755, &env_case_root, &a));
	expect_use(use.bytes + 24 + 23 + 2 * sizeof acl, 1);
}

TEST(statfs_shows_the_quota)
{
	struct env_space s;

	tc = *state;
	limit(10 * BLOCK, 5);
	assert_ok(make("n"));
	assert_ok(put("n", 0, 3 * BLOCK));
	assert_ok(env_setxattr(tc->e, env_case_at(tc, "n").ino, "user.x", "1",
			       1, 0, false));
	assert_ok(env_statfs(tc->e, &s));
	assert_int_equal(s.block_size, BLOCK);
	assert_int_equal(s.blocks, 10);
	assert_int_equal(s.blocks_free, 6); /* whole ones */
	assert_int_equal(s.blocks_avail, 6);
	assert_int_equal(s.inodes, 5);
	assert_int_equal(s.inodes_free, 4);
	limit(BLOCK, 1);
	assert_ok(env_statfs(tc->e, &s));
	assert_int_equal(s.blocks, 1);
	assert_int_equal(s.blocks_free, 0);
	assert_int_equal(s.inodes_free, 0);
	limit(0, 0);
	assert_ok(env_statfs(tc->e, &s));
	assert_true(s.blocks * s.block_size > 100 * BLOCK);
}

/* --- where the bounds are ----------------------------------------------------
 */

/* Writes the file `env` anew: `body` bytes of it, then tail, then a sum. */
static void rewrite_info(size_t drop, const void *tail, size_t n)
{
	_cleanup_close_ int dir = openat(store_fd(tc->store), "envs/e",
					 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_buf_ struct buf b = {0}, out = {0};

	assert_ok(io_read_file(dir, "env", 1 << 16, &b));
	buf_put(&out, b.data, b.len - 8 - drop);
	buf_put(&out, tail, n);
	buf_put_u64(&out, oid_checksum(out.data, out.len, 0));
	assert_ok(io_write_file(dir, "env", out.data, out.len, false));
}

static void take_rule(void *ctx, const char *rule, const char *text)
{
	(void)snprintf(ctx, 8, "%s", rule);
}

TEST(bounds_come_back_and_a_file_without_them_has_none)
{
	struct env_info info;

	tc = *state;
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.limits.bytes, 0);
	info.limits = (struct env_limits){5 * BLOCK, 7, 3600};
	assert_ok(env_write_info(tc->store, "e", &info));
	env_case_reopen(tc);
	assert_ok(make("n"));
	assert_int_equal(put("n", 0, 6 * BLOCK), -EDQUOT);
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.limits.inodes, 7);
	assert_int_equal(info.limits.ttl_sec, 3600);
	rewrite_info(32, NULL, 0); /* as written by an earlier version */
	env_case_reopen(tc);
	assert_ok(put("n", 0, 6 * BLOCK));
	rewrite_info(0, "later", 5); /* and without: too short */
	assert_int_equal(env_read_info(tc->store, "e", &info), -ERANGE);
}

TEST(bounds_that_make_no_sense_are_told)
{
	static const uint64_t bad[][3] = {{UINT64_C(1) << 63, 0, 0},
					  {0, UINT64_C(1) << 53, 0},
					  {0, 0, FORMAT_MAX_TTL + 1}};
	struct env_checked checked;
	struct env_info info;
	char rule[8] = "";

	tc = *state;
	env_close(tc->e);
	tc->e = NULL;
	assert_ok(env_check(tc->store, "e", take_rule, rule, &checked));
	assert_string_equal(rule, "");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		rewrite_info(i ? 24 : 32, bad[i], sizeof bad[i]);
		rule[0] = '\0';
		assert_ok(env_check(tc->store, "e", take_rule, rule, &checked));
		assert_string_equal(rule, "E30");
		assert_int_equal(checked.state, ENV_LOST);
	}
	/* what a later version adds behind them is nobody's */
	rewrite_info(24, (const uint64_t[]){BLOCK, 1, 1, 0, 99}, 40);
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.limits.bytes, BLOCK);
}

TEST(network_and_ports_come_back_and_a_file_without_them_has_none)
{
	struct env_info info;

	tc = *state;
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.net, ENV_NET_AUTO);
	assert_int_equal(info.ports.count, 0);
	info.net = ENV_NET_HOST;
	info.ports = (struct env_ports){2, {3000, 65535}};
	assert_ok(env_write_info(tc->store, "e", &info));
	memset(&info, 0, sizeof info);
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.net, ENV_NET_HOST);
	assert_int_equal(info.ports.count, 2);
	assert_int_equal(info.ports.v[0], 3000);
	assert_int_equal(info.ports.v[1], 65535);
	rewrite_info(4, "\x88\x13\0", 2); /* one short */
	assert_int_equal(env_read_info(tc->store, "e", &info), -EDOM);
	rewrite_info(10, NULL, 0); /* as written by an earlier version */
	assert_ok(env_read_info(tc->store, "e", &info));
	assert_int_equal(info.ports.count, 0);
}

/* --- random operations -------------------------------------------------------
 */

enum { FILES = 24, SPACE = 40 * BLOCK, INODE_SPACE = 12 };

static unsigned seed;
static unsigned refused;

static unsigned any(unsigned below)
{
	return (unsigned)rand_r(&seed) / 7 % below;
}

/* A file by its place in the names n0 to n23 and the base's; 0: not there. */
static uint64_t any_file(char name[8], uint64_t *ret_dir)
{
	static const char *const base[] = {"big", "hl1", "x"};
	unsigned i = any(FILES + 3);
	struct env_attr a;

	*ret_dir = i < FILES ? ENV_ROOT : 3;
	if (i < FILES)
		(void)snprintf(name, 8, "n%u", i);
	else
		(void)snprintf(name, 8, "%s", base[i - FILES]);
	return env_lookup(tc->e, *ret_dir, name, &a) < 0 ? 0 : a.ino;
}

static int grow(uint64_t ino)
{
	static uint8_t data[6 * BLOCK];
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE};
	uint64_t offset = any(30 * BLOCK);
	size_t n = 1 + any(sizeof data);

	switch (any(4)) {
	case 0:
		return env_fallocate(tc->e, ino, modes[any(2)], offset, n);
	case 1:
		return env_setxattr(tc->e, ino, any(2) ? "user.k" : "user.l",
				    data, any(3000), 0, false);
	default:
		return env_write(tc->e, ino, data, n, offset, false);
	}
}

static int make_any(const char *name, uint64_t dir)
{
	struct env_attr a;

	switch (any(4)) {
	case 0:
		return env_symlink(tc->e, dir, name, "some/target",
				   &env_case_root, &a);
	case 1:
		return env_link(tc->e, 2, dir, name, &a);
	default:
		return env_mknod(tc->e, dir, name, S_IFREG | 0644, 0,
				 &env_case_root, &a);
	}
}

/* What never fails, however full it is. */
static int shrink(uint64_t ino, const char *name, uint64_t dir)
{
	struct env_attr v = {.size = any(30 * BLOCK)}, a;
	char to[8];
	int r;

	switch (any(6)) {
	case 0:
		return env_setattr(tc->e, ino, ENV_SET_SIZE, &v, &a);
	case 1:
		r = env_fallocate(tc->e, ino,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  any(30) * BLOCK, (1 + any(9)) * BLOCK);
		/* half a block of the base is copied first */
		return r == -EDQUOT ? 0 : r;
	case 2:
		r = env_removexattr(tc->e, ino, "user.l");
		return r == -ENODATA ? 0 : r;
	case 3:
		(void)snprintf(to, sizeof to, "n%u", any(FILES));
		return env_rename(tc->e, dir, name, ENV_ROOT, to, 0);
	default:
		return env_unlink(tc->e, dir, name);
	}
}

static void step(void)
{
	struct env_use before, after;
	char name[8];
	uint64_t dir, ino = any_file(name, &dir);
	bool full = false;
	struct env_attr a;
	int r;

	env_use(tc->e, &before);
	if (!ino) {
		r = make_any(name, dir);
	} else if (any(5) < 3) {
		r = env_getattr(tc->e, ino, &a);
		assert_ok(r);
		r = S_ISREG(a.mode) ? grow(ino) : 0;
	} else {
		assert_ok(env_getattr(tc->e, ino, &a));
		r = S_ISREG(a.mode) ? shrink(ino, name, dir)
				    : env_unlink(tc->e, dir, name);
		assert_ok(r);
		full = true; /* may copy a set of the base */
	}
	env_use(tc->e, &after);
	if (r < 0) {
		assert_int_equal(r, -EDQUOT);
		assert_memory_equal(&before, &after, sizeof before);
		refused++;
	}
	assert_true(full || after.bytes <= SPACE ||
		    after.bytes <= before.bytes);
	assert_true(after.inodes <= INODE_SPACE);
}

static void check_sums(void)
{
	struct env_use now;

	env_recount(tc->e, &now);
	expect_use(now.bytes, now.inodes);
}

static unsigned number_of(const char *variable, unsigned otherwise)
{
	const char *s = getenv(variable);

	return s ? (unsigned)strtoul(s, NULL, 10) : otherwise;
}

TEST(sums_are_those_of_a_count_from_scratch)
{
	unsigned steps = number_of("COWFS_STEPS", 20000);

	tc = *state;
	refused = 0;
	seed = number_of("COWFS_SEED", (unsigned)time(NULL));
	print_message("COWFS_SEED=%u\n", seed);
	for (unsigned i = 1; i <= steps; i++) {
		struct env_use before;

		if (i % 1000 == 1)
			limit(SPACE, INODE_SPACE);
		step();
		if (i % 20 == 0)
			check_sums();
		if (i % 50 == 0)
			env_reap_all(tc->e);
		if (i % 200 == 0) /* compacts, now and then */
			(void)env_tend(tc->e);
		if (i % 1000)
			continue;
		env_reap_all(tc->e);
		env_use(tc->e, &before);
		env_case_reopen(tc);
		expect_use(before.bytes, before.inodes);
	}
	assert_true(refused > steps / 100);
}

#define RUN_ENV(name)                                                          \
	cmocka_unit_test_setup_teardown(name, env_case_setup, env_case_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_ENV(what_is_looked_at_or_renamed_costs_nothing),
		RUN_ENV(blocks_count_once_and_come_back),
		RUN_ENV(what_is_removed_counts_until_it_is_freed),
		RUN_ENV(xattrs_and_targets_count_their_bytes),
		RUN_ENV(growth_beyond_is_refused_in_its_call_and_changes_nothing),
		RUN_ENV(beyond_the_quota_everything_else_works),
		RUN_ENV(a_directory_s_default_acl_counts_in_what_is_made_there),
		RUN_ENV(statfs_shows_the_quota),
		RUN_ENV(bounds_come_back_and_a_file_without_them_has_none),
		RUN_ENV(bounds_that_make_no_sense_are_told),
		RUN_ENV(network_and_ports_come_back_and_a_file_without_them_has_none),
		RUN_ENV(sums_are_those_of_a_count_from_scratch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
