/* SPDX-License-Identifier: MIT */
/*
 * count.c - two trees side by side; what has the same name is not looked at.
 *
 * libgit2 compares blobs here, not trees: comparing trees it would read the
 * origin's index and look for attributes of every path in its work tree.
 */
#include "git/count_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/grow.h"
#include "git/entries_int.h"

enum { DEPTH_MAX = 2048 };
#define LINES_MAX_BYTES (UINT64_C(8) << 20)

struct blob_list {
	git_oid *ids;
	size_t count, cap;
};

struct counting {
	struct gitodb *o;
	struct gitcount *count;
	struct blob_list gone, made; /* without the other side */
};

static void counting_fini(struct counting *c)
{
	free(c->gone.ids);
	free(c->made.ids);
}

static int list_add(struct blob_list *l, const git_oid *id)
{
	if (GROW(l->ids, l->count, l->cap, 64) < 0)
		return -ENOMEM;
	l->ids[l->count++] = *id;
	return 0;
}

/* --- lines ---------------------------------------------------------------- */

static int add_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
		    const git_diff_line *line, void *ctx)
{
	struct gitcount *count = ctx;

	(void)delta;
	(void)hunk;
	count->insertions += line->origin == GIT_DIFF_LINE_ADDITION;
	count->deletions += line->origin == GIT_DIFF_LINE_DELETION;
	return 0;
}

static int read_blob(struct counting *c, const git_oid *id,
		     git_odb_object **ret_object)
{
	git_object_t type;
	size_t size;

	if (git_odb_read_header(&size, &type, c->o->there, id) < 0 ||
	    size > LINES_MAX_BYTES || type != GIT_OBJECT_BLOB)
		return -ENOENT;
	return git_odb_read(ret_object, c->o->there, id) < 0 ? -ENOENT : 0;
}

/* Either side may be NULL. What cannot be read has no lines. */
static int count_lines(struct counting *c, const git_oid *old,
		       const git_oid *new)
{
	_cleanup_git_odb_object_ git_odb_object *a = NULL, *b = NULL;

	c->count->files++;
	if ((old && read_blob(c, old, &a) < 0) ||
	    (new &&read_blob(c, new, &b) < 0))
		return 0;
	return git_diff_buffers(a ? git_odb_object_data(a) : NULL,
				a ? git_odb_object_size(a) : 0, NULL,
				b ? git_odb_object_data(b) : NULL,
				b ? git_odb_object_size(b) : 0, NULL, NULL,
				NULL, NULL, NULL, add_line, c->count) < 0
		       ? -ENOMEM
		       : 0;
}

/* --- trees ---------------------------------------------------------------- */

static int count_dir(struct counting *c, const git_oid *old, const git_oid *new,
		     unsigned depth);

/* One side is missing, or they are of two kinds. */
static int count_single(struct counting *c, const struct gittree_item *item,
			bool gone, unsigned depth)
{
	if (item->mode == GITMODE_TREE)
		return count_dir(c, gone ? &item->id : NULL,
				 gone ? NULL : &item->id, depth + 1);
	if (item->mode == GITMODE_LINK) {
		c->count->files++;
		return 0;
	}
	return list_add(gone ? &c->gone : &c->made, &item->id);
}

static int count_pair(struct counting *c, const struct gittree_item *old,
		      const struct gittree_item *new, unsigned depth)
{
	int r;

	if (git_oid_equal(&old->id, &new->id) && old->mode == new->mode)
		return 0;
	if (old->mode == GITMODE_TREE && new->mode == GITMODE_TREE)
		return count_dir(c, &old->id, &new->id, depth + 1);
	if (S_ISREG(old->mode) && S_ISREG(new->mode))
		return count_lines(c, &old->id, &new->id);
	r = count_single(c, old, true, depth);
	return r < 0 ? r : count_single(c, new, false, depth);
}

struct side {
	git_odb_object *object;
	const uint8_t *at, *end;
	struct gittree_item item;
	int more; /* 1: there is an item */
};

static void side_fini(struct side *s)
{
	git_odb_object_free(s->object);
}

static int side_open(struct counting *c, const git_oid *id, struct side *s)
{
	int r;

	if (!id)
		return 0;
	r = git_odb_read(&s->object, c->o->there, id);
	if (r < 0)
		return -ENOENT;
	s->at = git_odb_object_data(s->object);
	s->end = s->at + git_odb_object_size(s->object);
	s->more = gittree_next(&s->at, s->end, &s->item);
	return s->more < 0 ? s->more : 0;
}

/* In the order that both are sorted by. */
static int compare(const struct side *a, const struct side *b)
{
	const struct gittree_item *x = &a->item, *y = &b->item;
	const size_t n = MIN(x->name_len, y->name_len);
	int c;
	unsigned char p, q;

	if (!a->more || !b->more)
		return a->more ? -1 : 1;
	c = memcmp(x->name, y->name, n);
	if (c || x->name_len == y->name_len)
		return c;
	p = (unsigned char)x->name[n];
	q = (unsigned char)y->name[n];
	if (!p && x->mode == GITMODE_TREE)
		p = '/';
	if (!q && y->mode == GITMODE_TREE)
		q = '/';
	return p < q ? -1 : p > q;
}

static int count_dir(struct counting *c, const git_oid *old, const git_oid *new,
		     unsigned depth)
{
	_cleanup_(side_fini) struct side a = {.more = 0}, b = {.more = 0};
	int r = depth < DEPTH_MAX ? side_open(c, old, &a) : -EFSCORRUPTED;

	if (r == 0)
		r = side_open(c, new, &b);
	while (r == 0 && (a.more || b.more)) {
		const int order = compare(&a, &b);

		if (!order)
			r = count_pair(c, &a.item, &b.item, depth);
		else
			r = count_single(c, order < 0 ? &a.item : &b.item,
					 order < 0, depth);
		if (r == 0 && order <= 0)
			a.more = gittree_next(&a.at, a.end, &a.item);
		if (r == 0 && order >= 0)
			b.more = gittree_next(&b.at, b.end, &b.item);
		if (a.more < 0 || b.more < 0)
			r = -EFSCORRUPTED;
	}
	return r;
}

static int compare_ids(const void *a, const void *b)
{
	return git_oid_cmp(a, b);
}

/* What went and came under the same name of an object was moved. */
static int count_rest(struct counting *c)
{
	size_t i = 0, j = 0;
	int r = 0;

	if (c->gone.count)
		qsort(c->gone.ids, c->gone.count, sizeof(git_oid), compare_ids);
	if (c->made.count)
		qsort(c->made.ids, c->made.count, sizeof(git_oid), compare_ids);
	while (r == 0 && (i < c->gone.count || j < c->made.count)) {
		int order = i == c->gone.count ? 1 : -1;

		if (i < c->gone.count && j < c->made.count)
			order = git_oid_cmp(&c->gone.ids[i], &c->made.ids[j]);
		if (!order)
			c->count->files++;
		else
			r = count_lines(c, order < 0 ? &c->gone.ids[i] : NULL,
					order < 0 ? NULL : &c->made.ids[j]);
		i += order <= 0;
		j += order >= 0;
	}
	return r;
}

int gitcount_trees(struct gitodb *o, const git_oid *from, const git_oid *to,
		   struct gitcount *ret_count)
{
	struct gitcount count = {.files = 0};
	_cleanup_(counting_fini) struct counting c = {.o = o, .count = &count};
	int r = 0;

	if (!from || !git_oid_equal(from, to))
		r = count_dir(&c, from, to, 0);
	if (r == 0)
		r = count_rest(&c);
	if (r == 0)
		*ret_count = count;
	return r;
}
