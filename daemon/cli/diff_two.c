/* SPDX-License-Identifier: MIT */
/*
 * diff_two.c - the list of changed paths between two ends.
 *
 * Each path that may differ is looked up at both. Content is compared by the
 * names of objects between snapshots, else by bytes, and only when sizes are
 * equal. A deletion and an addition of the same content and attributes are a
 * rename; empty files are too alike for that.
 */
#include "cli/diff_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "git/index.h"

enum { HASH_MAX = 1 << 20 };

struct entry {
	const char *path;
	struct side_node nodes[2];
	const struct entry *from; /* of a rename */
	bool is_gone_elsewhere;	  /* a rename tells of it */
	bool has_hash;
	bool content; /* differs */
	uint8_t hash[GITINDEX_NAME_BYTES];
};

struct entries {
	struct diff_job *j;
	struct entry *v;
	size_t count;
	bool times;
	const char *at; /* where something failed */
};

static int add_bytes(void *ctx, const void *data, size_t len)
{
	gitblob_add(ctx, data, len);
	return 0;
}

static int hash(struct entries *e, const char *path, int end,
		const struct side_node *node,
		uint8_t ret_hash[GITINDEX_NAME_BYTES])
{
	struct gitblob b;
	int r;

	e->at = path;
	gitblob_begin(&b, node->size);
	r = side_read(e->j->end[end].side, path, node, add_bytes, &b);
	if (r == 0)
		gitblob_end(&b, ret_hash);
	return r;
}

/* Compares the same thing at both ends, or two paths; 1, 0 or an error. */
static int is_same_content(struct entries *e, const struct entry *old,
			   const struct entry *now)
{
	const struct side_node *a = &old->nodes[0], *b = &now->nodes[1];

	if (!S_ISREG(a->mode) && !S_ISLNK(a->mode))
		return a->rdev == b->rdev;
	e->at = now->path;
	return side_is_same(
		&(struct side_file){e->j->end[0].side, old->path, a},
		&(struct side_file){e->j->end[1].side, now->path, b});
}

static bool is_same_time(const struct side_node n[2])
{
	return n[0].mtime_sec == n[1].mtime_sec &&
	       n[0].mtime_nsec == n[1].mtime_nsec;
}

/* Whether a path that both ends have differs: 1, 0 or an error. */
static int differs(struct entries *e, struct entry *x)
{
	const struct side_node *n = x->nodes;
	int r;

	if ((n[0].mode & S_IFMT) != (n[1].mode & S_IFMT)) {
		x->content = true;
		return 1;
	}
	r = S_ISDIR(n[0].mode) ? 1 : is_same_content(e, x, x);
	if (r < 0)
		return r;
	x->content = r == 0;
	if (r == 0 || n[0].mode != n[1].mode || n[0].uid != n[1].uid ||
	    n[0].gid != n[1].gid)
		return 1;
	if (e->times && !S_ISDIR(n[0].mode) && !is_same_time(n))
		return 1;
	e->at = x->path;
	return diff_xattrs(e->j, x->path, n);
}

/* Whether a path that one end has is worth a line. */
static int shows(struct entries *e, struct entry *x)
{
	x->content = true;
	/* a new directory shows by what is in it */
	return S_ISDIR(x->nodes[1].mode)
		       ? side_is_empty(e->j->end[1].side, x->path)
		       : 1;
}

static int collect(struct entries *e)
{
	const struct diff_list *paths = &e->j->paths;

	e->v = calloc(paths->count + 1, sizeof *e->v);
	if (!e->v)
		return -ENOMEM;
	for (size_t i = 0; i < paths->count; i++) {
		struct entry *x = &e->v[e->count];
		int r;

		*x = (struct entry){.path = paths->v[i]};
		e->at = x->path;
		r = diff_look(e->j, x->path, x->nodes);
		if (r < 0)
			return r;
		if (!x->nodes[0].mode && !x->nodes[1].mode)
			continue;
		r = x->nodes[0].mode && x->nodes[1].mode ? differs(e, x)
							 : shows(e, x);
		if (r < 0)
			return r;
		e->count += r > 0;
	}
	return 0;
}

/* --- renames ------------------------------------------------------------- */

/* The end at which an entry stands alone; -1: it may be no part of a rename. */
static int end_of(const struct entry *x)
{
	const int end = x->nodes[0].mode ? 0 : 1;

	if (x->nodes[!end].mode || !x->nodes[end].size)
		return -1;
	return end;
}

static int compare_nodes(const struct side_node *a, const struct side_node *b)
{
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	if (a->mode != b->mode)
		return a->mode < b->mode ? -1 : 1;
	if (a->uid != b->uid)
		return a->uid < b->uid ? -1 : 1;
	return a->gid < b->gid ? -1 : a->gid > b->gid;
}

/* Those that could be paired come together: first gone, then new ones. */
static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a;
	const struct entry *y = *(struct entry *const *)b;
	const int ex = end_of(x), ey = end_of(y);
	const int c = compare_nodes(&x->nodes[ex], &y->nodes[ey]);

	if (c)
		return c;
	return ex != ey ? ex - ey : strcmp(x->path, y->path);
}

static int need_hash(struct entries *e, struct entry *x)
{
	const int end = end_of(x);
	int r = x->has_hash ? 0
			    : hash(e, x->path, end, &x->nodes[end], x->hash);

	x->has_hash = r == 0;
	return r;
}

/* Many small files may be of one size, so they are hashed once each; big ones
 * are few. 1, 0 or an error. */
static int is_alike(struct entries *e, struct entry *old, struct entry *now)
{
	int r;

	if (old->nodes[0].size > HASH_MAX)
		return is_same_content(e, old, now);
	r = need_hash(e, old);
	if (r == 0)
		r = need_hash(e, now);
	return r < 0 ? r : !memcmp(old->hash, now->hash, sizeof old->hash);
}

/* 1: one is the other by another name. */
static int is_pair(struct entries *e, struct entry *old, struct entry *now)
{
	_cleanup_buf_ struct buf a = {0}, b = {0};
	int r = is_alike(e, old, now);

	if (r <= 0)
		return r;
	r = side_xattrs(e->j->end[0].side, old->path, &old->nodes[0], &a);
	if (r == 0)
		r = side_xattrs(e->j->end[1].side, now->path, &now->nodes[1],
				&b);
	if (r < 0)
		return r;
	return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

/* Pairs entries whose nodes are equal: v[0..count). */
static int pair_group(struct entries *e, struct entry **v, size_t count)
{
	size_t gone = 0;

	while (gone < count && end_of(v[gone]) == 0)
		gone++;
	for (size_t i = gone; i < count; i++) {
		for (size_t k = 0; k < gone && !v[i]->from; k++) {
			int r = v[k]->is_gone_elsewhere
					? 0
					: is_pair(e, v[k], v[i]);

			if (r < 0)
				return r;
			if (r == 0)
				continue;
			v[i]->from = v[k];
			v[k]->is_gone_elsewhere = true;
		}
	}
	return 0;
}

static int pair(struct entries *e)
{
	_cleanup_free_ struct entry **v = calloc(e->count + 1, sizeof *v);
	size_t count = 0, next;
	int r = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < e->count; i++)
		if (end_of(&e->v[i]) >= 0)
			v[count++] = &e->v[i];
	qsort((void *)v, count, sizeof *v, compare_entries);
	for (size_t i = 0; i < count && r >= 0; i = next) {
		const int end = end_of(v[i]);

		for (next = i + 1; next < count; next++)
			if (compare_nodes(&v[i]->nodes[end],
					  &v[next]->nodes[end_of(v[next])]))
				break;
		r = pair_group(e, v + i, next - i);
	}
	return r;
}

/* --- rows ---------------------------------------------------------------- */

static const char *status_of(const struct entry *x)
{
	if (x->from)
		return "R100";
	if (!x->nodes[0].mode)
		return "A";
	if (!x->nodes[1].mode)
		return "D";
	return (x->nodes[0].mode & S_IFMT) == (x->nodes[1].mode & S_IFMT) ? "M"
									  : "T";
}

static int add_row(const struct entry *x, struct diff_rows *rows)
{
	const struct side_node *old =
		x->from ? &x->from->nodes[0] : &x->nodes[0];
	const struct side_node *now = &x->nodes[1];
	struct diff_row row = {
		.status = status_of(x),
		.path = x->path,
		.path_len = strlen(x->path),
		.is_dir = S_ISDIR(now->mode ? now->mode : old->mode),
		.content = x->content && !x->from,
		.old_size = old->size,
		.new_size = now->size,
		.old_mode = old->mode,
		.new_mode = now->mode,
	};

	if (x->from) {
		row.old_path = x->from->path;
		row.old_path_len = strlen(row.old_path);
	}
	return diff_rows_add(rows, &row);
}

int diff_list_two(struct diff_job *j, enum diff_fields fields, bool times,
		  struct out *out, uint64_t *ret_count)
{
	struct entries e = {.j = j, .times = times, .at = "changes"};
	struct diff_rows rows = {0};
	int r = collect(&e);

	if (r == 0)
		r = pair(&e);
	for (size_t i = 0; i < e.count && r == 0; i++)
		if (!e.v[i].is_gone_elsewhere)
			r = add_row(&e.v[i], &rows);
	*ret_count = rows.count;
	if (r == 0)
		diff_rows_print(&rows, fields, out);
	diff_rows_fini(&rows);
	free(e.v);
	return r < 0 ? diff_fail(j, e.at, r) : CODE_DONE;
}
