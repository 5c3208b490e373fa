/* SPDX-License-Identifier: MIT */
/*
 * tar_tree.c - the tree of an archive, whose entries come in any order.
 *
 * A name and what it stands for are two things, as on a disk: a hard link is
 * another name of an inode, and a later entry of the same name replaces what
 * the name stands for and leaves other names alone. Some 200 bytes and the name
 * are kept of each entry; content is in the store already.
 *
 * Paths are walked name by name and no link on the way is followed, so there
 * is nothing outside of the tree that an entry could reach.
 *
 * At the end all directories are stored, the deepest first. Positions are
 * known on the way down, so the table of hard links comes out sorted.
 */
#include "exchange/tar_int.h"

#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/name.h"
#include "object/links.h"

/* --- names --------------------------------------------------------------- */

void tar_inode_unref(struct tar_inode *i)
{
	if (!i || --i->names)
		return;
	free(i->target);
	free(i);
}

static struct tar_inode *new_dir(void)
{
	struct tar_inode *i = calloc(1, sizeof *i);

	if (i)
		i->mode = S_IFDIR | 0755;
	return i;
}

static uint64_t name_hash(const struct tar_node *parent, const char *name,
			  size_t len)
{
	return hmap_hash_bytes(name, len, (uint64_t)(uintptr_t)parent);
}

static struct tar_node *find(const struct tar_tree *t,
			     const struct tar_node *parent, const char *name,
			     size_t len)
{
	struct hnode *h = hmap_first(&t->names, name_hash(parent, name, len));

	for (; h; h = hmap_next(h)) {
		struct tar_node *n = container_of(h, struct tar_node, node);

		if (n->parent == parent && n->name_len == len &&
		    !memcmp(n->name, name, len))
			return n;
	}
	return NULL;
}

static int add(struct tar_tree *t, struct tar_node *parent, const char *name,
	       size_t len, struct tar_node **ret_node)
{
	struct tar_node *n;
	int r;

	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (t->count >= t->max)
		return -EMFILE;
	n = calloc(1, sizeof *n + len);
	if (!n)
		return -ENOMEM;
	n->name_len = (uint8_t)len;
	memcpy(n->name, name, len);
	r = hmap_insert(&t->names, &n->node, name_hash(parent, name, len));
	if (r < 0) {
		free(n);
		return r;
	}
	n->parent = parent;
	if (parent) {
		n->next = parent->first;
		parent->first = n;
	}
	t->count++;
	*ret_node = n;
	return 0;
}

int tar_tree_init(struct tar_tree *t, uint64_t max)
{
	struct tar_inode *i = new_dir();
	int r;

	if (!i)
		return -ENOMEM;
	i->names = 1;
	t->max = MAX(max, 1U);
	r = add(t, NULL, "", 0, &t->root);
	if (r < 0)
		tar_inode_unref(i);
	else
		t->root->inode = i;
	return r;
}

void tar_tree_fini(struct tar_tree *t)
{
	struct hmap_cursor c = {.slot = 0};
	struct hnode *h;

	while ((h = hmap_each(&t->names, &c))) {
		struct tar_node *n = container_of(h, struct tar_node, node);

		hmap_remove(&t->names, h);
		tar_inode_unref(n->inode);
		free(n);
	}
	hmap_fini(&t->names);
}

/* --- paths --------------------------------------------------------------- */

/* Goes to a name of a directory; a directory above that no entry spoke of is
 * made when there is something to be put into it. */
static int step(struct tar_tree *t, const char *name, size_t len, bool make,
		struct tar_node **at)
{
	struct tar_node *dir = *at;
	struct tar_inode *i = dir->inode;

	if (!i) {
		i = new_dir();
		if (!i)
			return -ENOMEM;
		i->names = 1;
		dir->inode = i;
	}
	if (S_ISLNK(i->mode))
		return -ELOOP;
	if (!S_ISDIR(i->mode))
		return -ENOTDIR;
	*at = find(t, dir, name, len);
	if (*at)
		return 0;
	return make ? add(t, dir, name, len, at) : -ENOENT;
}

int tar_tree_at(struct tar_tree *t, const char *path, bool make,
		struct tar_node **ret_node)
{
	struct tar_node *at = t->root;
	unsigned depth = 0;
	int r = 0;

	while (*path && r == 0) {
		const size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.')
			return -EINVAL;
		if (n && !(n == 1 && path[0] == '.')) {
			if (++depth > FORMAT_MAX_DEPTH)
				return -ENAMETOOLONG;
			r = step(t, path, n, make, &at);
		}
		path += n + (path[n] == '/');
	}
	if (r == 0 && !make && !at->inode)
		r = -ENOENT;
	if (r == 0)
		*ret_node = at;
	return r;
}

int tar_tree_set(struct tar_node *n, struct tar_inode *inode)
{
	if (n->first && !S_ISDIR(inode->mode))
		return -ENOTEMPTY;
	if (!n->parent && !S_ISDIR(inode->mode))
		return -ENOTDIR;
	inode->names++;
	tar_inode_unref(n->inode);
	n->inode = inode;
	return 0;
}

/* --- storing ------------------------------------------------------------- */

struct member {
	uint64_t position;
	const struct tar_inode *inode;
};

struct putting {
	struct importer *imp;
	uint64_t position; /* of the entry that came last */
	struct member *members;
	size_t count;
	size_t cap;
};

static int compare(const void *a, const void *b)
{
	const struct tar_node *x = *(struct tar_node *const *)a;
	const struct tar_node *y = *(struct tar_node *const *)b;
	const int c = memcmp(x->name, y->name, MIN(x->name_len, y->name_len));

	return c ? c : x->name_len - y->name_len;
}

/* The names of a directory, sorted. */
static int sort_names(const struct tar_node *dir, struct tar_node ***ret_v,
		      size_t *ret_count)
{
	size_t count = 0, i = 0;
	struct tar_node **v;

	for (const struct tar_node *n = dir->first; n; n = n->next)
		count++;
	v = calloc(count + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (struct tar_node *n = dir->first; n; n = n->next)
		v[i++] = n;
	qsort((void *)v, count, sizeof(*v), compare);
	*ret_v = v;
	*ret_count = count;
	return 0;
}

static void fill(const struct tar_inode *i, struct tree_entry *e)
{
	*e = (struct tree_entry){
		.mode = i->mode,
		.uid = i->uid,
		.gid = i->gid,
		.rdev = i->rdev,
		.mtime_sec = i->mtime_sec,
		.mtime_nsec = i->mtime_nsec,
		.size = i->size,
		.content = i->content,
		.xattrs = i->xattrs,
		.target = i->target,
		.target_len = (uint16_t)(i->target ? i->size : 0),
	};
}

static int note_name(struct putting *p, struct tar_inode *i)
{
	if (i->names < 2)
		return 0;
	if (GROW(p->members, p->count, p->cap, 256) < 0)
		return -ENOMEM;
	if (!i->first)
		i->first = p->position;
	p->members[p->count++] =
		(struct member){.position = p->position, .inode = i};
	return 0;
}

static int put_dir(struct putting *p, const struct tar_node *dir,
		   struct tree_entry *e);

static int put_node(struct putting *p, const struct tar_node *n,
		    struct tree_builder *b)
{
	struct tree_entry e;
	int r;

	p->position++;
	if (S_ISDIR(n->inode->mode)) {
		r = put_dir(p, n, &e);
	} else {
		fill(n->inode, &e);
		r = note_name(p, n->inode);
	}
	if (r < 0)
		return r;
	e.name = n->name;
	e.name_len = n->name_len;
	return tree_builder_add(b, &e);
}

static int put_tree(struct importer *imp, struct tree_builder *b,
		    struct tree_entry *e)
{
	int r;

	e->size = b->subdirs;
	e->below = b->total;
	buf_clear(&imp->object);
	r = tree_builder_finish(b, &imp->object);
	return r < 0 ? r
		     : import_put(imp, OID_TREE, imp->object.data,
				  imp->object.len, &e->content);
}

static int put_dir(struct putting *p, const struct tar_node *dir,
		   struct tree_entry *e)
{
	struct tree_builder b = {.count = 0};
	struct tar_node **v = NULL;
	size_t count = 0;
	int r = sort_names(dir, &v, &count);

	for (size_t i = 0; i < count && r == 0; i++)
		r = put_node(p, v[i], &b);
	free((void *)v);
	fill(dir->inode, e);
	if (r == 0)
		r = put_tree(p->imp, &b, e);
	tree_builder_fini(&b);
	return r;
}

static int put_links(struct putting *p, struct oid *ret_id)
{
	struct buf *out = &p->imp->object;
	int r;

	*ret_id = (struct oid){.b = {0}};
	if (!p->count)
		return 0;
	buf_clear(out);
	links_begin(out, p->count);
	for (size_t i = 0; i < p->count; i++) {
		const struct member *m = &p->members[i];

		links_add(out, &(struct links_entry){.position = m->position,
						     .first = m->inode->first,
						     .count = m->inode->names});
	}
	r = buf_error(out);
	return r < 0 ? r
		     : import_put(p->imp, OID_LINKS, out->data, out->len,
				  ret_id);
}

int tar_tree_put(struct importer *imp, struct tar_tree *t,
		 struct tree_entry *ret_root, struct oid *ret_links)
{
	struct putting p = {.imp = imp};
	int r = put_dir(&p, t->root, ret_root);

	if (r == 0)
		r = put_links(&p, ret_links);
	free(p.members);
	return r;
}
