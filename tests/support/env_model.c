/* SPDX-License-Identifier: MIT */
/*
 * How: the model is read from the fresh environment through the same calls that
 * compare it later; what the calls say of the snapshot, other tests know.
 */
#include "env_model.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

const char *const model_names[NAMES] = {"a.txt", "d",	"big", "hl1",
					"hl2",	 "sub", "x",   "y",
					"link",	 "n1",	"n2",  "n3"};
const char *const model_xnames[XNAMES] = {"user.k", "user.a", "trusted.t",
					  "user.long"};

struct node nodes[INODES];
static struct env_case *tc;
static unsigned seed;

void model_seed(unsigned value)
{
	seed = value;
}

unsigned model_random(unsigned below)
{
	return (unsigned)rand_r(&seed) / 7 % below;
}

static struct node *at(int i)
{
	return &nodes[i];
}

int node_new(const struct env_attr *a, int parent)
{
	int i = ROOT;

	while (nodes[i].used)
		assert_true(++i < INODES);
	memset(&nodes[i], 0, sizeof nodes[i]);
	nodes[i] = (struct node){
		.used = true,
		.ino = a->ino,
		.size = a->size,
		.rdev = a->rdev,
		.mode = a->mode,
		.uid = a->uid,
		.gid = a->gid,
		.nlink = a->nlink,
		.parent = S_ISDIR(a->mode) ? parent : 0,
		.mtime = a->mtime,
		.ctime = a->ctime,
	};
	for (int x = 0; x < XNAMES; x++)
		nodes[i].xlen[x] = -1;
	if (S_ISREG(a->mode))
		nodes[i].data = calloc(1, a->size + 1);
	return i;
}

void node_free(int i)
{
	free(nodes[i].data);
	nodes[i] = (struct node){0};
}

int node_find(uint64_t ino)
{
	for (int i = ROOT; i < INODES; i++)
		if (nodes[i].used && nodes[i].ino == ino)
			return i;
	return 0;
}

static int name_index(const char *name, size_t len)
{
	for (int n = 0; n < NAMES; n++)
		if (strlen(model_names[n]) == len &&
		    !memcmp(model_names[n], name, len))
			return n;
	fail_msg("a strange name: %.*s", (int)len, name);
	return 0;
}

/* --- the model of the fresh environment -------------------------------------
 */

struct loading {
	int dir;
	struct env_attr attr[NAMES];
	bool there[NAMES];
	uint64_t last; /* cookie */
};

static bool take_name(void *ctx, const char *name, size_t len,
		      const struct env_attr *a, uint64_t next)
{
	struct loading *l = ctx;
	int n = name_index(name, len);

	assert_false(l->there[n]);
	assert_true(next > l->last);
	l->last = next;
	l->there[n] = true;
	l->attr[n] = *a;
	return true;
}

static void load_xattrs(int i)
{
	char v[16];

	for (int x = 0; x < XNAMES; x++) {
		ssize_t n = env_getxattr(tc->e, nodes[i].ino, model_xnames[x],
					 v, sizeof v);

		if (n < 0)
			continue;
		nodes[i].xlen[x] = (int)n;
		nodes[i].xbyte[x] = n ? (uint8_t)v[0] : 0;
	}
}

static void load_dir(int dir)
{
	struct loading l = {.dir = dir};

	assert_ok(env_readdir(tc->e, nodes[dir].ino, 0, take_name, &l));
	for (int n = 0; n < NAMES; n++) {
		_cleanup_buf_ struct buf t = {0};
		struct node *m;
		int i;

		if (!l.there[n])
			continue;
		i = node_find(l.attr[n].ino);
		if (!i)
			i = node_new(&l.attr[n], dir);
		m = at(i);
		nodes[dir].child[n] = i;
		load_xattrs(i);
		if (S_ISREG(m->mode))
			assert_int_equal(
				env_read(tc->e, m->ino, m->data, m->size, 0),
				m->size);
		if (S_ISLNK(m->mode)) {
			assert_ok(env_readlink(tc->e, m->ino, &t));
			(void)snprintf(m->target, sizeof m->target, "%s",
				       buf_str(&t));
		}
		if (S_ISDIR(m->mode))
			load_dir(i);
	}
}

void model_free(void)
{
	for (int i = ROOT; i < INODES; i++)
		if (nodes[i].used)
			node_free(i);
}

void model_load(struct env_case *c)
{
	struct env_attr a;

	tc = c;
	model_free();
	assert_ok(env_getattr(tc->e, ENV_ROOT, &a));
	assert_int_equal(node_new(&a, ROOT), ROOT);
	load_dir(ROOT);
}

/* --- comparing
 * ---------------------------------------------------------------- */

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void compare_attr(struct node *m, const struct env_attr *a)
{
	uint32_t subdirs = 0;

	assert_int_equal(a->ino, m->ino);
	assert_int_equal(a->mode, m->mode);
	assert_int_equal(a->uid, m->uid);
	assert_int_equal(a->gid, m->gid);
	assert_int_equal(a->rdev, m->rdev);
	if (S_ISDIR(m->mode)) {
		for (int n = 0; n < NAMES; n++)
			subdirs += m->child[n] && is_dir(m->child[n]);
		assert_int_equal(a->nlink, m->nlink ? 2 + subdirs : 0);
	} else {
		assert_int_equal(a->nlink, m->nlink);
		assert_int_equal(a->size, m->size);
	}
	assert_int_equal(same_time(a->mtime, m->mtime), !(m->moved & MTIME));
	assert_int_equal(same_time(a->ctime, m->ctime), !(m->moved & CTIME));
	m->mtime = a->mtime;
	m->ctime = a->ctime;
	m->moved = 0;
}

static void compare_xattrs(const struct node *m)
{
	static char v[70000];
	size_t list = 0;

	for (int x = 0; x < XNAMES; x++) {
		ssize_t n = env_getxattr(tc->e, m->ino, model_xnames[x], v,
					 sizeof v);

		assert_int_equal(n, m->xlen[x] < 0 ? -ENODATA : m->xlen[x]);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal((uint8_t)v[i], m->xbyte[x]);
		list += m->xlen[x] < 0 ? 0 : strlen(model_xnames[x]) + 1;
	}
	assert_int_equal(env_listxattr(tc->e, m->ino, NULL, 0), list);
}

/* No byte of a hole may be other than zero, and runs must end. */
static void compare_holes(const struct node *m)
{
	uint64_t from = 0, to;

	while (from < m->size) {
		int r = env_seek(tc->e, m->ino, from, SEEK_DATA, &to);

		if (r == -ENXIO)
			to = m->size;
		else
			assert_ok(r);
		for (; from < to; from++)
			assert_int_equal(m->data[from], 0);
		if (to == m->size)
			break;
		assert_ok(env_seek(tc->e, m->ino, to, SEEK_HOLE, &from));
		assert_true(from > to);
	}
}

static void compare_bytes(const struct node *m)
{
	_cleanup_free_ uint8_t *got = malloc(m->size + 1);
	size_t done = 0;

	while (done < m->size) { /* in odd pieces */
		size_t n = 1 + model_random(50000);

		n = MIN(n, m->size - done);

		assert_int_equal(env_read(tc->e, m->ino, got + done, n, done),
				 n);
		done += n;
	}
	assert_int_equal(env_read(tc->e, m->ino, got, 1, m->size), 0);
	assert_memory_equal(got, m->data, m->size);
	compare_holes(m);
}

static void compare_node(int i)
{
	_cleanup_buf_ struct buf t = {0};
	struct node *m = at(i);
	struct env_attr a;

	assert_ok(env_getattr(tc->e, m->ino, &a));
	compare_attr(m, &a);
	compare_xattrs(m);
	if (S_ISREG(m->mode)) {
		compare_bytes(m);
	} else if (S_ISLNK(m->mode)) {
		assert_ok(env_readlink(tc->e, m->ino, &t));
		assert_string_equal(buf_str(&t), m->target);
	}
}

static void compare_dir(int dir)
{
	struct loading l = {.dir = dir};
	uint64_t parent;

	assert_ok(env_readdir(tc->e, nodes[dir].ino, 0, take_name, &l));
	assert_ok(env_parent(tc->e, nodes[dir].ino, &parent));
	assert_int_equal(parent, nodes[nodes[dir].parent].ino);
	for (int n = 0; n < NAMES; n++) {
		struct env_attr a;
		int i = nodes[dir].child[n];
		int r = env_lookup(tc->e, nodes[dir].ino, model_names[n], &a);

		assert_int_equal(r, i ? 0 : -ENOENT);
		assert_int_equal(l.there[n], i != 0);
		if (!i)
			continue;
		assert_int_equal(a.ino, nodes[i].ino);
		assert_int_equal(l.attr[n].ino, nodes[i].ino);
		assert_int_equal(l.attr[n].nlink, a.nlink);
		assert_int_equal(l.attr[n].size, a.size);
	}
}

/* What counts against a quota is what is there. */
static void compare_use(void)
{
	struct env_use use, again;

	env_use(tc->e, &use);
	env_recount(tc->e, &again);
	assert_int_equal(use.bytes, again.bytes);
	assert_int_equal(use.inodes, again.inodes);
}

void model_compare(struct env_case *c)
{
	_cleanup_buf_ struct buf diff = {0};

	tc = c;
	for (int i = ROOT; i < INODES; i++) {
		if (!nodes[i].used)
			continue;
		compare_node(i);
		if (is_dir(i) && nodes[i].nlink)
			compare_dir(i);
	}
	env_case_diff(tc, DELTA_WITH_TIMES, &diff);
	compare_use();
}
