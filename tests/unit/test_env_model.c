/* SPDX-License-Identifier: MIT */
/*
 * Random operations on an environment and on a simple model of a file system;
 * errors must agree at each step, everything else after each 50 steps and after
 * a replay. The seed is printed; COWFS_SEED repeats a run, COWFS_STEPS makes it
 * longer.
 */
#include "env_model.h"
#include "full_snap.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "env/freeze.h"

enum { PLACES = 90000 };

static struct env_case *tc;

static struct node *at(int i)
{
	return &nodes[i];
}

/* Picks a node: any, or of one kind (S_IFMT bits), 0 when none was met. */
static int pick(uint32_t kind)
{
	for (int tries = 0; tries < 400; tries++) {
		int i = ROOT +
			(int)model_random(tries < 300 ? 120 : INODES - ROOT);

		if (nodes[i].used &&
		    (!kind || (nodes[i].mode & S_IFMT) == kind) &&
		    (!is_dir(i) || nodes[i].nlink))
			return i;
	}
	return kind == S_IFDIR ? ROOT : 0;
}

static void touch(int i, unsigned what)
{
	nodes[i].moved |= what;
}

/* A freeze makes what everything that shows makes. */
static void freeze_and_compare(void)
{
	static const struct buf nothing;
	struct freeze_result r;
	struct oid whole;

	env_close(tc->e);
	assert_ok(env_open(tc->store, "e", ENV_READ_ONLY, NULL, &tc->e));
	assert_ok(env_freeze(tc->e, &nothing, NULL, &r));
	whole = full_snapshot(tc->store, tc->e);
	assert_memory_equal(&whole, &r.snapshot, sizeof whole);
	freeze_fini(&r);
}

/* --- operations on names
 * ------------------------------------------------------ */

static void drop_name(int dir, int n)
{
	int i = nodes[dir].child[n];

	nodes[dir].child[n] = 0;
	nodes[i].nlink = is_dir(i) ? 0 : nodes[i].nlink - 1;
	touch(i, CTIME);
	touch(dir, MTIME | CTIME);
}

static bool dir_empty(int dir)
{
	for (int n = 0; n < NAMES; n++)
		if (nodes[dir].child[n])
			return false;
	return true;
}

/* What a new inode below dir has. */
static void check_new(int dir, const struct env_attr *a, uint32_t mode)
{
	const struct node *d = at(dir);

	if (!S_ISLNK(mode))
		mode &= ~022u;
	if (S_ISDIR(mode) && (d->mode & S_ISGID))
		mode |= S_ISGID;
	assert_int_equal(a->mode, mode);
	assert_int_equal(a->uid, 0);
	assert_int_equal(a->gid, d->mode & S_ISGID ? d->gid : 0);
	assert_int_equal(node_find(a->ino), 0);
}

static void op_make(void)
{
	static const uint32_t kinds[] = {S_IFREG, S_IFREG, S_IFDIR,
					 S_IFLNK, S_IFCHR, S_IFIFO};
	int dir = pick(S_IFDIR), n = (int)model_random(NAMES), i, r;
	uint32_t kind = kinds[model_random(ARRAY_SIZE(kinds))],
		 mode = kind | 0777;
	struct env_attr a;

	if (kind == S_IFDIR)
		r = env_mkdir(tc->e, nodes[dir].ino, model_names[n], 0777,
			      &env_case_root, &a);
	else if (kind == S_IFLNK)
		r = env_symlink(tc->e, nodes[dir].ino, model_names[n], "target",
				&env_case_root, &a);
	else
		r = env_mknod(tc->e, nodes[dir].ino, model_names[n], mode, 77,
			      &env_case_root, &a);
	assert_int_equal(r, nodes[dir].child[n] ? -EEXIST : 0);
	if (r < 0)
		return;
	check_new(dir, &a, mode);
	i = node_new(&a, dir);
	(void)snprintf(nodes[i].target, sizeof nodes[i].target, "target");
	nodes[dir].child[n] = i;
	touch(dir, MTIME | CTIME);
}

static void op_tmpfile(void)
{
	int dir = pick(S_IFDIR);
	struct env_attr a;

	assert_ok(env_tmpfile(tc->e, nodes[dir].ino, 0777, &env_case_root, &a));
	check_new(dir, &a, S_IFREG | 0777);
	(void)node_new(&a, dir);
}

static void op_link(void)
{
	int i = pick(0), dir = pick(S_IFDIR), n = (int)model_random(NAMES), r;
	struct env_attr a;

	if (!i)
		return;
	r = env_link(tc->e, nodes[i].ino, nodes[dir].ino, model_names[n], &a);
	assert_int_equal(r, nodes[dir].child[n] ? -EEXIST
			    : is_dir(i)		? -EPERM
						: 0);
	if (r < 0)
		return;
	nodes[dir].child[n] = i;
	nodes[i].nlink++;
	touch(i, CTIME);
	touch(dir, MTIME | CTIME);
}

static void op_remove(void)
{
	int dir = pick(S_IFDIR), n = (int)model_random(NAMES);
	int i = nodes[dir].child[n], r, want = 0;
	bool rmdir_it = i && model_random(10) ? is_dir(i) : model_random(2);

	if (!i)
		want = -ENOENT;
	else if (is_dir(i) != rmdir_it)
		want = rmdir_it ? -ENOTDIR : -EISDIR;
	else if (rmdir_it && !dir_empty(i))
		want = -ENOTEMPTY;
	r = rmdir_it ? env_rmdir(tc->e, nodes[dir].ino, model_names[n])
		     : env_unlink(tc->e, nodes[dir].ino, model_names[n]);
	assert_int_equal(r, want);
	if (r >= 0)
		drop_name(dir, n);
}

static bool below(int dir, int top)
{
	for (; dir != ROOT; dir = nodes[dir].parent)
		if (dir == top)
			return true;
	return top == ROOT;
}

/* What rename answers; 1: it does nothing. */
static int rename_expect(int d1, int from, int d2, int to, unsigned flags)
{
	bool swap = flags & RENAME_EXCHANGE;

	if (!from)
		return -ENOENT;
	if ((is_dir(from) && below(d2, from)) ||
	    (swap && to && is_dir(to) && below(d1, to)))
		return -EINVAL;
	if (swap)
		return !to ? -ENOENT : from == to ? 1 : 0;
	if (!to)
		return 0;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (from == to)
		return 1;
	if (is_dir(from) != is_dir(to))
		return is_dir(from) ? -ENOTDIR : -EISDIR;
	return is_dir(to) && !dir_empty(to) ? -ENOTEMPTY : 0;
}

static void rename_model(int d1, int n1, int d2, int n2, unsigned flags)
{
	int from = nodes[d1].child[n1], to = nodes[d2].child[n2];
	struct env_attr a;

	if (flags & RENAME_EXCHANGE) {
		nodes[d1].child[n1] = to;
		touch(to, CTIME);
		if (is_dir(to))
			nodes[to].parent = d1;
	} else {
		if (to)
			drop_name(d2, n2);
		nodes[d1].child[n1] = 0;
	}
	nodes[d2].child[n2] = from;
	if (is_dir(from))
		nodes[from].parent = d2;
	touch(from, CTIME);
	touch(d1, MTIME | CTIME);
	touch(d2, MTIME | CTIME);
	if (!(flags & RENAME_WHITEOUT))
		return;
	assert_ok(env_lookup(tc->e, nodes[d1].ino, model_names[n1], &a));
	assert_int_equal(a.mode, S_IFCHR);
	assert_int_equal(a.rdev, 0);
	nodes[d1].child[n1] = node_new(&a, d1);
}

static void op_rename(void)
{
	static const unsigned choice[] = {0,
					  0,
					  0,
					  0,
					  RENAME_NOREPLACE,
					  RENAME_EXCHANGE,
					  RENAME_EXCHANGE,
					  RENAME_WHITEOUT};
	unsigned flags = choice[model_random(ARRAY_SIZE(choice))];
	int d1 = pick(S_IFDIR), d2 = model_random(3) ? pick(S_IFDIR) : d1;
	int n1 = (int)model_random(NAMES), n2 = (int)model_random(NAMES);
	int r = env_rename(tc->e, nodes[d1].ino, model_names[n1], nodes[d2].ino,
			   model_names[n2], flags);
	int want = rename_expect(d1, nodes[d1].child[n1], d2,
				 nodes[d2].child[n2], flags);

	assert_int_equal(r, want > 0 ? 0 : want);
	if (want == 0)
		rename_model(d1, n1, d2, n2, flags);
}

/* --- operations on content and attributes -----------------------------------
 */

static void model_resize(struct node *m, uint64_t size)
{
	m->data = realloc(m->data, size + 1);
	assert_non_null(m->data);
	if (size > m->size)
		memset(m->data + m->size, 0, size - m->size);
	m->size = size;
}

static uint64_t place(void)
{
	uint64_t v = model_random(PLACES);

	return model_random(3) ? v : v & ~UINT64_C(4095);
}

static void op_write(void)
{
	static uint8_t data[40000];
	int i = pick(S_IFREG);
	uint64_t offset = place();
	size_t n = model_random(model_random(4) ? 6000 : sizeof data);

	if (!i)
		return;
	memset(data, (int)model_random(256), n);
	assert_ok(env_write(tc->e, nodes[i].ino, data, n, offset, false));
	if (!n)
		return;
	if (offset + n > nodes[i].size)
		model_resize(at(i), offset + n);
	memcpy(nodes[i].data + offset, data, n);
	touch(i, MTIME | CTIME);
}

static void op_copy(void)
{
	int in = pick(S_IFREG), out = pick(S_IFREG);
	uint64_t from = place(), to = place();
	size_t n = 1 + model_random(9000), can = 0;

	if (!in || in == out)
		return;
	if (from < nodes[in].size)
		can = MIN(n, nodes[in].size - from);
	assert_int_equal(env_copy_range(tc->e, nodes[in].ino, from,
					nodes[out].ino, to, n),
			 can);
	if (!can)
		return;
	if (to + can > nodes[out].size)
		model_resize(at(out), to + can);
	memcpy(nodes[out].data + to, nodes[in].data + from, can);
	touch(out, MTIME | CTIME);
}

static void op_fallocate(void)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE};
	int i = pick(S_IFREG), mode = modes[model_random(ARRAY_SIZE(modes))];
	uint64_t offset = place(), end = offset + 1 + model_random(30000);

	if (!i)
		return;
	assert_ok(
		env_fallocate(tc->e, nodes[i].ino, mode, offset, end - offset));
	touch(i, MTIME | CTIME);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > nodes[i].size)
		model_resize(at(i), end);
	end = MIN(end, nodes[i].size);
	if ((mode & ~FALLOC_FL_KEEP_SIZE) && end > offset)
		memset(nodes[i].data + offset, 0, end - offset);
}

static void op_truncate(void)
{
	struct env_attr v = {.size = model_random(9) ? place() : 0}, a;
	int i = pick(S_IFREG);

	if (!i)
		return;
	assert_ok(env_setattr(tc->e, nodes[i].ino, ENV_SET_SIZE, &v, &a));
	model_resize(at(i), v.size);
	touch(i, MTIME | CTIME);
}

static void op_chattr(void)
{
	static const uint32_t modes[] = {0644, 06755, 02755, 0400, 02644};
	struct env_attr v = {.uid = model_random(3), .gid = model_random(3)}, a;
	int i = pick(0);
	struct node *m = at(i);

	v.mode = modes[model_random(ARRAY_SIZE(modes))];
	if (!i)
		return;
	if (model_random(2)) {
		assert_ok(env_setattr(tc->e, m->ino, ENV_SET_MODE, &v, &a));
		m->mode = (m->mode & S_IFMT) | v.mode;
	} else {
		assert_ok(env_setattr(tc->e, m->ino, ENV_SET_UID | ENV_SET_GID,
				      &v, &a));
		m->uid = v.uid;
		m->gid = v.gid;
		if (!S_ISDIR(m->mode))
			m->mode &= ~(m->mode & S_IXGRP ? 06000u : 04000u);
	}
	touch(i, CTIME);
}

static void op_xattr(void)
{
	static uint8_t v[65536];
	int i = pick(0), x = (int)model_random(XNAMES), r, want = 0;
	int flags = model_random(3)   ? 0
		    : model_random(2) ? XATTR_CREATE
				      : XATTR_REPLACE;
	size_t n = x == 3 ? model_random(65537) : model_random(20);

	if (!i)
		return;
	if (model_random(3) == 0) {
		r = env_removexattr(tc->e, nodes[i].ino, model_xnames[x]);
		assert_int_equal(r, nodes[i].xlen[x] < 0 ? -ENODATA : 0);
		nodes[i].xlen[x] = -1;
	} else {
		if (flags == XATTR_CREATE && nodes[i].xlen[x] >= 0)
			want = -EEXIST;
		if (flags == XATTR_REPLACE && nodes[i].xlen[x] < 0)
			want = -ENODATA;
		memset(v, (int)model_random(256), n);
		r = env_setxattr(tc->e, nodes[i].ino, model_xnames[x], v, n,
				 flags, false);
		assert_int_equal(r, want);
		if (r >= 0) {
			nodes[i].xlen[x] = (int)n;
			nodes[i].xbyte[x] = v[0];
		}
	}
	if (r >= 0)
		touch(i, CTIME);
}

static void reap_all(bool by_replay)
{
	for (int i = ROOT; i < INODES; i++) {
		if (!nodes[i].used || nodes[i].nlink)
			continue;
		assert_true(env_is_orphan(tc->e, nodes[i].ino));
		if (!by_replay)
			env_reap(tc->e, nodes[i].ino);
		node_free(i);
	}
}

static void step(void)
{
	static void (*const ops[])(void) = {
		op_make,  op_make,   op_make,	   op_remove,	op_remove,
		op_link,  op_rename, op_rename,	   op_rename,	op_write,
		op_write, op_copy,   op_fallocate, op_truncate, op_chattr,
		op_xattr, op_tmpfile};

	ops[model_random(ARRAY_SIZE(ops))]();
}

static unsigned number_of(const char *variable, unsigned otherwise)
{
	const char *s = getenv(variable);

	return s ? (unsigned)strtoul(s, NULL, 10) : otherwise;
}

TEST(an_environment_behaves_as_the_model)
{
	unsigned steps = number_of("COWFS_STEPS", 6000), seed;

	tc = *state;
	seed = number_of("COWFS_SEED", (unsigned)time(NULL));
	print_message("COWFS_SEED=%u\n", seed);
	model_seed(seed);
	model_load(tc);
	for (unsigned i = 1; i <= steps; i++) {
		step();
		if (i % 50 == 0)
			model_compare(tc);
		if (i % 400 == 0)
			reap_all(false);
		if (i % 1000 == 0) {
			reap_all(true);
			freeze_and_compare();
			env_case_reopen(tc);
			model_compare(tc);
		}
	}
	model_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			an_environment_behaves_as_the_model, env_case_setup,
			env_case_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
