/* SPDX-License-Identifier: MIT */
/*
 * How: each row is marked: it stays, it goes, or it does not matter (a deleted
 * file that git ignores). Ignored files stay from the smallest to the greatest
 * as long as there is room: notes and secrets are small. Then directories whose
 * rows all go are told as one, when git ignores the directory or it is one of
 * dependencies: a list of names that people read.
 *
 * A pure rename always stays, since its content is in the base already.
 */
#include "cli/leave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What tools make again from other files. */
static const char *const caches[] = {
	"node_modules",	 "bower_components",
	".pnpm-store",	 ".venv",
	"venv",		 "__pycache__",
	".tox",		 ".nox",
	".mypy_cache",	 ".pytest_cache",
	".ruff_cache",	 ".hypothesis",
	".eggs",	 ".ipynb_checkpoints",
	"target",	 ".gradle",
	".m2",		 ".ccache",
	".cache",	 ".parcel-cache",
	".turbo",	 ".next",
	".nuxt",	 ".svelte-kit",
	".angular",	 ".dart_tool",
	"elm-stuff",	 ".terraform",
	".bundle",	 ".stack-work",
	"dist-newstyle", ".zig-cache",
	".direnv",	 ".nx",
};

enum mark { MARK_STAYS, MARK_NEUTRAL, MARK_GOES };

struct item {
	const char *path;
	size_t len;
	uint64_t bytes;
	bool is_dir;
	enum mark mark;
	enum rescue_why why;
};

struct entry {
	struct rescue_left left;
	size_t order;
	bool is_dir;
};

struct choice {
	const struct leave_policy *p;
	leave_ignored_fn ignored;
	void *ctx;
	struct item *items;
	size_t count;
	struct entry *entries;
	size_t entry_count;
};

static bool is_cache(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(caches); i++)
		if (strlen(caches[i]) == len && !memcmp(caches[i], name, len))
			return true;
	return false;
}

/* Says whether a path is in such a directory, or is one. */
static bool in_cache(const struct item *it)
{
	const char *p = it->path;

	for (;;) {
		size_t len = strcspn(p, "/");

		if ((p[len] || it->is_dir) && is_cache(p, len))
			return true;
		if (!p[len])
			return false;
		p += len + 1;
	}
}

/* --- marks --------------------------------------------------------------- */

static void go(struct item *it, enum rescue_why why)
{
	it->mark = MARK_GOES;
	it->why = why;
}

/* 1: it is one of those that the limits decide about. */
static int mark_row(struct choice *c, const struct gitchange *row,
		    struct item *it)
{
	int r;

	if (row->kind == DELTA_DELETED) {
		r = c->ignored(c->ctx, it->path, row->is_dir);
		it->mark = r > 0 ? MARK_NEUTRAL : MARK_STAYS;
		return MIN(r, 0);
	}
	if (!row->ignored || row->kind == DELTA_RENAMED)
		return 0;
	if (c->p->none)
		go(it, RESCUE_ASKED);
	else if (in_cache(it))
		go(it, RESCUE_CACHE);
	else if (it->bytes > c->p->each)
		go(it, RESCUE_LARGE);
	else
		return 1;
	return 0;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct item *const *x = a;
	const struct item *const *y = b;

	return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

static int mark_all(struct choice *c, const struct gitchanges *changes)
{
	_cleanup_free_ struct item **pool =
		calloc(changes->count + 1, sizeof *pool);
	uint64_t sum = 0;
	size_t n = 0;

	if (!pool)
		return -ENOMEM;
	for (size_t i = 0; i < changes->count; i++) {
		const struct gitchange *row = &changes->rows[i];
		struct item *it = &c->items[c->count++];
		int r;

		*it = (struct item){.path = gitchange_path(changes, row),
				    .len = row->path_len,
				    .bytes = row->new_size,
				    .is_dir = row->is_dir};
		r = mark_row(c, row, it);
		if (r < 0)
			return r;
		if (r > 0)
			pool[n++] = it;
	}
	qsort((void *)pool, n, sizeof *pool, compare_bytes);
	for (size_t i = 0; i < n; i++) {
		sum += pool[i]->bytes;
		if (sum > c->p->together)
			go(pool[i], RESCUE_LARGE);
	}
	return 0;
}

/* --- names --------------------------------------------------------------- */

static void add_entry(struct choice *c, const struct item *first, size_t len,
		      bool is_dir, const struct rescue_left *sum)
{
	struct entry *e = &c->entries[c->entry_count];

	e->left = *sum;
	e->left.path = first->path;
	e->left.path_len = len;
	e->is_dir = is_dir;
	e->order = c->entry_count++;
}

static bool is_below(const struct item *it, const char *dir, size_t len)
{
	return it->len > len && it->path[len] == '/' &&
	       !memcmp(it->path, dir, len);
}

/* Sums up what goes of rows; says whether nothing of them stays. */
static bool sum_up(const struct choice *c, size_t from, size_t to,
		   struct rescue_left *ret)
{
	*ret = (struct rescue_left){0};
	for (size_t i = from; i < to; i++) {
		if (c->items[i].mark == MARK_STAYS)
			return false;
		if (c->items[i].mark != MARK_GOES)
			continue;
		ret->why = c->items[i].why;
		ret->files++;
		ret->bytes += c->items[i].bytes;
	}
	return ret->files > 0;
}

/* 1: the directory is told as one. */
static int tell_dir(struct choice *c, size_t from, size_t to, size_t len)
{
	const struct item *first = &c->items[from];
	_cleanup_free_ char *dir = NULL;
	struct rescue_left sum;
	const char *slash;
	int r;

	if (!sum_up(c, from, to, &sum))
		return 0;
	dir = strndup(first->path, len);
	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	slash = slash ? slash + 1 : dir;
	r = is_cache(slash, strlen(slash)) ? 1 : c->ignored(c->ctx, dir, true);
	if (r > 0)
		add_entry(c, first, len, true, &sum);
	return r;
}

/* Tells what goes of the rows from `from` to `to`, which agree in the first
 * `skip` bytes of their paths. */
static int tell(struct choice *c, size_t from, size_t to, size_t skip)
{
	for (size_t i = from, end; i < to; i = end) {
		const struct item *it = &c->items[i];
		size_t len = skip + strcspn(it->path + skip, "/");
		bool leaf = len == it->len;
		struct rescue_left sum;
		int r = 0;

		for (end = i + 1;
		     end < to && is_below(&c->items[end], it->path, len);)
			end++;
		if (leaf && end == i + 1) {
			if (it->mark == MARK_GOES && sum_up(c, i, end, &sum))
				add_entry(c, it, len, it->is_dir, &sum);
			continue;
		}
		r = tell_dir(c, i, end, len);
		/* a directory whose own row goes, but not all in it, stays */
		if (r == 0)
			r = tell(c, i + leaf, end, len + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- the list ------------------------------------------------------------ */

static int compare_sums(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->left.bytes != y->left.bytes)
		return x->left.bytes < y->left.bytes ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_order(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* Bytes that an entry takes; room is left for some sockets. */
static size_t entry_bytes(const struct entry *e)
{
	return e->left.path_len + 1 + 21;
}

static int write_list(struct choice *c, struct buf *list)
{
	enum { MOST = RESCUE_LEFT_MAX - (4 << 10) };
	size_t used = 0, n = 0;

	qsort(c->entries, c->entry_count, sizeof *c->entries, compare_sums);
	for (size_t i = 0; i < c->entry_count; i++) {
		if (used + entry_bytes(&c->entries[i]) > MOST ||
		    c->entries[i].left.path_len >= RESCUE_TEXT_MAX)
			continue;
		used += entry_bytes(&c->entries[i]);
		c->entries[n++] = c->entries[i];
	}
	qsort(c->entries, n, sizeof *c->entries, compare_order);
	for (size_t i = 0; i < n; i++) {
		struct rescue_left *left = &c->entries[i].left;
		_cleanup_buf_ struct buf path = {0};

		buf_put(&path, left->path, left->path_len);
		if (c->entries[i].is_dir)
			buf_put_u8(&path, '/');
		left->path = (const char *)path.data;
		left->path_len = path.len;
		rescue_left_put(list, left);
		left->path = NULL;
		if (path.failed)
			return -ENOMEM;
	}
	return buf_error(list);
}

int leave_choose(const struct leave_policy *p, const struct gitchanges *changes,
		 leave_ignored_fn ignored, void *ctx, struct buf *list)
{
	struct choice c = {.p = p, .ignored = ignored, .ctx = ctx};
	int r = 0;

	if (p->all || !changes->count)
		return 0;
	c.items = calloc(changes->count, sizeof *c.items);
	c.entries = calloc(changes->count, sizeof *c.entries);
	if (!c.items || !c.entries)
		r = -ENOMEM;
	if (r == 0)
		r = mark_all(&c, changes);
	if (r == 0)
		r = tell(&c, 0, c.count, 0);
	if (r == 0)
		r = write_list(&c, list);
	free(c.items);
	free(c.entries);
	return r;
}
