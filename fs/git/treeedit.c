/* SPDX-License-Identifier: MIT */
/*
 * treeedit.c - nodes that are read when a change is below them.
 *
 * A node that was not read is its object's name. Children are kept sorted by
 * name alone, as a name is looked up without knowing its kind; git sorts a
 * directory as if its name ended in a slash, which is done when it is written.
 */
#include "git/treeedit_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "git/entries_int.h"

struct node {
	struct node **kids; /* sorted by name bytes */
	size_t count, cap;
	git_oid id; /* when it is not changed */
	uint32_t mode;
	bool read;    /* kids are known */
	bool changed; /* id is not known */
	bool there;   /* the origin has it, with what it leads to, or will */
	size_t name_len;
	char name[];
};

struct treeedit {
	struct gitodb *odb;
	struct node *root;
};

/* --- nodes ---------------------------------------------------------------- */

static struct node *node_new(const char *name, size_t len, uint32_t mode)
{
	struct node *n = calloc(1, sizeof *n + len + 1);

	if (!n)
		return NULL;
	memcpy(n->name, name, len);
	n->name_len = len;
	n->mode = mode;
	return n;
}

static void node_free(struct node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->count; i++)
		node_free(n->kids[i]);
	free(n->kids);
	free(n);
}

/* Makes a node an empty directory. */
static void node_empty(struct node *n)
{
	for (size_t i = 0; i < n->count; i++)
		node_free(n->kids[i]);
	n->count = 0;
	n->mode = GITMODE_TREE;
	n->read = n->changed = true;
	n->there = false;
}

static int name_compare(const struct node *n, const char *name, size_t len)
{
	const int c = memcmp(n->name, name, MIN(n->name_len, len));

	if (c)
		return c;
	return n->name_len < len ? -1 : n->name_len > len;
}

/* Finds a child, or where it would be. */
static bool kid_seek(const struct node *n, const char *name, size_t len,
		     size_t *ret_i)
{
	size_t low = 0, high = n->count;

	/* most come in order */
	if (high && name_compare(n->kids[high - 1], name, len) < 0)
		low = high;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (name_compare(n->kids[middle], name, len) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_i = low;
	return low < n->count && !name_compare(n->kids[low], name, len);
}

static int kid_insert(struct node *n, size_t i, struct node *kid)
{
	if (GROW(n->kids, n->count, n->cap, 8) < 0)
		return -ENOMEM;
	memmove(n->kids + i + 1, n->kids + i, (n->count - i) * sizeof *n->kids);
	n->kids[i] = kid;
	n->count++;
	return 0;
}

static void kid_remove(struct node *n, size_t i)
{
	node_free(n->kids[i]);
	n->count--;
	memmove(n->kids + i, n->kids + i + 1, (n->count - i) * sizeof *n->kids);
}

static int kid_read(struct node *up, const struct gittree_item *item)
{
	struct node *kid = node_new(item->name, item->name_len, item->mode);
	size_t i;
	int r;

	if (!kid)
		return -ENOMEM;
	kid->id = item->id;
	kid->there = up->there;
	if (kid_seek(up, item->name, item->name_len, &i))
		r = -EFSCORRUPTED; /* twice */
	else
		r = kid_insert(up, i, kid);
	if (r < 0)
		node_free(kid);
	return r;
}

/* Reads what a directory has. */
static int node_read(struct treeedit *t, struct node *n)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	const uint8_t *at, *end;
	struct gittree_item item;
	int r = 0;

	if (n->read)
		return 0;
	r = gitodb_read(t->odb, &n->id, &object);
	if (r == 0 && git_odb_object_type(object) != GIT_OBJECT_TREE)
		r = -EFSCORRUPTED;
	if (r < 0) {
		char hex[GIT_OID_HEXSZ + 1];

		git_oid_tostr(hex, sizeof hex, &n->id);
		return diag_fail(t->odb->diag, -EFSCORRUPTED,
				 "tree %s cannot be read", hex);
	}
	n->there = n->there || gitodb_has(t->odb, &n->id);
	at = git_odb_object_data(object);
	end = at + git_odb_object_size(object);
	while ((r = gittree_next(&at, end, &item)) > 0) {
		r = kid_read(n, &item);
		if (r < 0)
			return r;
	}
	n->read = r == 0;
	return r;
}

/* --- changes -------------------------------------------------------------- */

int treeedit_new(struct gitodb *o, const git_oid *tree,
		 struct treeedit **ret_edit)
{
	_cleanup_treeedit_ struct treeedit *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->odb = o;
	t->root = node_new("", 0, GITMODE_TREE);
	if (!t->root)
		return -ENOMEM;
	if (tree)
		t->root->id = *tree;
	else
		t->root->read = t->root->changed = true;
	*ret_edit = TAKE_PTR(t);
	return 0;
}

void treeedit_free(struct treeedit *t)
{
	if (!t)
		return;
	node_free(t->root);
	free(t);
}

/* The child of a name, made when there is none. */
static int kid_get(struct treeedit *t, struct node *up, const char *name,
		   size_t len, struct node **ret_kid)
{
	struct node *kid;
	size_t i;
	int r = node_read(t, up);

	if (r < 0)
		return r;
	if (kid_seek(up, name, len, &i)) {
		*ret_kid = up->kids[i];
		return 0;
	}
	kid = node_new(name, len, 0);
	if (!kid)
		return -ENOMEM;
	r = kid_insert(up, i, kid);
	if (r < 0) {
		node_free(kid);
		return r;
	}
	*ret_kid = kid;
	return 0;
}

int treeedit_set(struct treeedit *t, const char *path, uint32_t mode,
		 const git_oid *id)
{
	struct node *n = t->root;
	int r;

	while (*path) {
		const size_t len = strcspn(path, "/");

		n->changed = true;
		r = kid_get(t, n, path, len, &n);
		if (r < 0)
			return r;
		path += len + (path[len] == '/');
		if (*path && n->mode != GITMODE_TREE)
			node_empty(n);
	}
	node_empty(n);
	n->mode = mode;
	n->id = *id;
	n->read = n->changed = false;
	return 0;
}

/* Goes down to a path; ret_up is where it is. */
static int go(struct treeedit *t, const char *path, struct node **ret_up,
	      size_t *ret_i)
{
	struct node *n = t->root;

	for (;;) {
		const size_t len = strcspn(path, "/");
		int r = n->mode == GITMODE_TREE ? node_read(t, n) : -ENOENT;

		if (r < 0)
			return r;
		if (!kid_seek(n, path, len, ret_i))
			return -ENOENT;
		*ret_up = n;
		if (!path[len])
			return 0;
		n = n->kids[*ret_i];
		path += len + 1;
	}
}

int treeedit_find(struct treeedit *t, const char *path, uint32_t *ret_mode,
		  git_oid *ret_id)
{
	struct node *up;
	size_t i;
	int r = go(t, path, &up, &i);

	if (r < 0)
		return r;
	*ret_mode = up->kids[i]->mode;
	*ret_id = up->kids[i]->id;
	return 0;
}

/* All directories on the way have to be written. */
static void mark_way(struct treeedit *t, const char *path)
{
	struct node *n = t->root;
	size_t i;

	for (;;) {
		const size_t len = strcspn(path, "/");

		n->changed = true;
		if (!path[len] || !kid_seek(n, path, len, &i))
			return;
		n = n->kids[i];
		path += len + 1;
	}
}

int treeedit_remove(struct treeedit *t, const char *path)
{
	struct node *up;
	size_t i;
	int r = go(t, path, &up, &i);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (up->kids[i]->mode == GITMODE_TREE)
		return 0;
	mark_way(t, path);
	kid_remove(up, i);
	return 0;
}

/* --- writing -------------------------------------------------------------- */

static int git_compare(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a;
	const struct node *y = *(struct node *const *)b;
	const int c = memcmp(x->name, y->name, MIN(x->name_len, y->name_len));
	unsigned char p, q;

	if (c)
		return c;
	if (x->name_len == y->name_len)
		return 0;
	p = (unsigned char)x->name[MIN(x->name_len, y->name_len)];
	q = (unsigned char)y->name[MIN(x->name_len, y->name_len)];
	if (!p && x->mode == GITMODE_TREE)
		p = '/';
	if (!q && y->mode == GITMODE_TREE)
		q = '/';
	return p < q ? -1 : p > q;
}

static int node_write(struct treeedit *t, struct node *n);

/* Writes a child; 0 when nothing is left of it. */
static int kid_write(struct treeedit *t, struct node *kid)
{
	int r;

	if (kid->changed) {
		r = node_write(t, kid);
		return r < 0 ? r : kid->count > 0;
	}
	if (!kid->there && kid->mode != GITMODE_LINK) {
		r = gitodb_copy(t->odb, &kid->id);
		if (r < 0)
			return r;
	}
	return 1;
}

/* Writes all children; those of which nothing is left vanish. */
static int kids_write(struct treeedit *t, struct node *n)
{
	size_t kept = 0, i;
	int r = 0;

	for (i = 0; i < n->count; i++) {
		r = kid_write(t, n->kids[i]);
		if (r < 0)
			break;
		if (r)
			n->kids[kept++] = n->kids[i];
		else
			node_free(n->kids[i]);
	}
	memmove(n->kids + kept, n->kids + i, (n->count - i) * sizeof *n->kids);
	n->count -= i - kept;
	return r < 0 ? r : 0;
}

/* A directory that is changed. An empty one is none, but for the root. */
static int node_write(struct treeedit *t, struct node *n)
{
	_cleanup_buf_ struct buf bytes = {0};
	_cleanup_free_ struct node **sorted = NULL;
	int r = n->count ? kids_write(t, n) : 0;

	if (r < 0 || (!n->count && n != t->root))
		return r;
	sorted = malloc((n->count + 1) * sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n->count; i++)
		sorted[i] = n->kids[i];
	qsort(sorted, n->count, sizeof(struct node *), git_compare);
	for (size_t i = 0; i < n->count; i++) {
		buf_printf(&bytes, "%o %s", sorted[i]->mode, sorted[i]->name);
		buf_put_u8(&bytes, 0);
		buf_put(&bytes, sorted[i]->id.id, GIT_OID_RAWSZ);
	}
	r = buf_error(&bytes);
	if (r == 0)
		r = gitodb_put(t->odb, GITPACK_TREE, bytes.data, bytes.len,
			       &n->id);
	n->changed = false;
	n->there = true;
	return r;
}

int treeedit_write(struct treeedit *t, git_oid *ret_id)
{
	int r = t->root->changed ? node_write(t, t->root)
				 : gitodb_copy(t->odb, &t->root->id);

	if (r == 0)
		*ret_id = t->root->id;
	return r;
}
