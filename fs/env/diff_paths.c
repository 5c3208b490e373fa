/* SPDX-License-Identifier: MIT */
/*
 * How: paths that may differ are
 *   - the base paths of every changed inode,
 *   - every changed name, under the directory's present and its base path,
 *   - everything below a directory that stood or stands there alone.
 * Each candidate is looked up on both sides; the set grows while it is walked.
 * A path in neither set cannot differ: its inode and all names above it are as
 * in the base.
 */
#include "env/diff_int.h"

#include "base/err.h"
#include "base/grow.h"

#include <string.h>
#include <sys/stat.h>

struct diff_path *diff_find(const struct diff_set *set, const char *path,
			    size_t len)
{
	struct hnode *n = hmap_first(&set->map, hmap_hash_bytes(path, len, 1));

	for (; n; n = hmap_next(n)) {
		struct diff_path *p = container_of(n, struct diff_path, node);

		if (p->len == len && !memcmp(p->path, path, len))
			return p;
	}
	return NULL;
}

static int set_add(struct diff_set *set, const char *path, size_t len)
{
	struct diff_path *p;
	int r;

	if (diff_find(set, path, len))
		return 0;
	if (GROW(set->paths, set->count, set->cap, 64) < 0)
		return -ENOMEM;
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->path = strndup(path, len);
	p->len = len;
	r = p->path ? hmap_insert(&set->map, &p->node,
				  hmap_hash_bytes(path, len, 1))
		    : -ENOMEM;
	if (r < 0) {
		free(p->path);
		free(p);
		return r;
	}
	set->paths[set->count++] = p;
	return 0;
}

/* Adds a path that a buffer holds; an empty one is the root. */
static int set_add_buf(struct diff_set *set, const struct buf *path)
{
	return set_add(set, path->len ? (const char *)path->data : "",
		       path->len);
}

/* Adds dir/name. */
static int set_add_below(struct diff_set *set, const char *dir, size_t dir_len,
			 const char *name, size_t len)
{
	_cleanup_buf_ struct buf b = {0};
	int r;

	buf_put(&b, dir, dir_len);
	if (dir_len)
		buf_put_u8(&b, '/');
	buf_put(&b, name, len);
	r = buf_error(&b);
	return r < 0 ? r : set_add_buf(set, &b);
}

void diff_free(struct diff_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		free(set->paths[i]->path);
		free(set->paths[i]);
	}
	free(set->paths);
	hmap_fini(&set->map);
	memset(set, 0, sizeof *set);
}

/* --- paths of numbers ------------------------------------------------------ */

/* Paths are put together from the end: numbers upwards first. */
static uint64_t chain_pop(struct buf *chain)
{
	uint64_t ino;

	chain->len -= sizeof ino;
	memcpy(&ino, chain->data + chain->len, sizeof ino);
	return ino;
}

int diff_base_path(struct env *e, uint64_t ino, struct buf *out)
{
	_cleanup_buf_ struct buf chain = {0};
	struct base_node n;
	int r = 0;

	while (ino != ENV_ROOT) {
		if (chain.len > FORMAT_MAX_DEPTH * sizeof ino)
			return -EFSCORRUPTED;
		buf_put(&chain, &ino, sizeof ino);
		r = base_find(&e->base, ino, &n);
		if (r < 0)
			return r;
		ino = n.parent;
	}
	r = buf_error(&chain);
	while (chain.len && r >= 0) {
		if (out->len)
			buf_put_u8(out, '/');
		r = base_name(&e->base, chain_pop(&chain), out);
	}
	return r;
}

/* Appends the present path of a directory. -ENOENT: it has none. */
static int dir_path(struct env *e, uint64_t ino, struct buf *out)
{
	_cleanup_buf_ struct buf chain = {0};
	struct iattr a;
	int r = 0;

	while (ino != ENV_ROOT) {
		if (chain.len > env_max_depth(e) * sizeof ino)
			return -EFSCORRUPTED;
		r = inode_get(e, ino, &a);
		if (r >= 0 && !a.nlink)
			r = -ENOENT;
		if (r < 0)
			return r;
		buf_put(&chain, &ino, sizeof ino);
		ino = a.parent;
	}
	r = buf_error(&chain);
	while (chain.len && r >= 0) {
		const struct inode *in;

		ino = chain_pop(&chain);
		in = itable_find(e, ino);
		if (out->len)
			buf_put_u8(out, '/');
		if (in && in->dent)
			buf_put(out, in->dent->name, in->dent->len);
		else
			r = base_name(&e->base, ino, out);
	}
	return r < 0 ? r : buf_error(out);
}

/* --- candidates ------------------------------------------------------------ */

static int add_names(struct diff_set *set, const struct names *names,
		     const struct buf *dir)
{
	struct hmap_cursor c = {0};
	struct hnode *h;

	while ((h = hmap_each(&names->map, &c))) {
		const struct dent *d = container_of(h, struct dent, node);
		int r = set_add_below(set, (const char *)dir->data, dir->len,
				      d->name, d->len);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_inode(struct env *e, struct diff_set *set,
		     const struct inode *in)
{
	_cleanup_buf_ struct buf base = {0}, now = {0};
	int r = 0;

	if (in->has_base) {
		r = diff_base_path(e, in->a.ino, &base);
		if (r >= 0)
			r = set_add_buf(set, &base);
	}
	if (r < 0 || !in->names || !S_ISDIR(in->a.mode))
		return r;
	if (in->has_base)
		r = add_names(set, in->names, &base);
	if (r < 0 || !in->a.nlink)
		return r;
	r = dir_path(e, in->a.ino, &now);
	if (r == -ENOENT) /* below a directory that is gone */
		return 0;
	return r < 0 ? r : add_names(set, in->names, &now);
}

/* Adds the other names of changed inodes that the base has several of. */
static int add_links(struct env *e, struct diff_set *set)
{
	for (uint64_t i = 0; i < e->base.links.count; i++) {
		_cleanup_buf_ struct buf path = {0};
		struct links_entry l;
		int r;

		links_at(&e->base.links, i, &l);
		if (!itable_find(e, l.first + ENV_ROOT))
			continue;
		r = diff_base_path(e, l.position + ENV_ROOT, &path);
		if (r >= 0)
			r = set_add_buf(set, &path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- both sides of a path -------------------------------------------------- */

/* Both start at `up`, a directory above that is known, or at the root. */
static int base_at(struct env *e, const struct diff_path *up, const char *path,
		   struct base_node *ret)
{
	int r = 0;

	if (up && !up->in_base)
		return -ENOENT;
	if (up)
		*ret = up->old;
	else
		r = base_find(&e->base, ENV_ROOT, ret);
	while (r >= 0 && *path) {
		size_t len = strcspn(path, "/");

		if (!S_ISDIR(ret->mode))
			return -ENOENT;
		r = base_lookup(&e->base, ret->ino, path, len, ret, NULL);
		path += len + (path[len] == '/');
	}
	return r;
}

static int now_at(struct env *e, const struct diff_path *up, const char *path,
		  struct iattr *ret)
{
	int r = 0;

	if (up && !up->is_now)
		return -ENOENT;
	if (up)
		*ret = up->now;
	else
		r = inode_get(e, ENV_ROOT, ret);
	while (r >= 0 && *path) {
		size_t len = strcspn(path, "/");
		struct found f;

		if (!S_ISDIR(ret->mode))
			return -ENOENT;
		r = dir_find(e, ret->ino, path, len, &f);
		if (r >= 0)
			r = inode_get(e, f.ino, ret);
		path += len + (path[len] == '/');
	}
	return r;
}

struct below {
	struct diff_set *set;
	const struct diff_path *dir;
	int error;
};

static bool below_now(void *ctx, const char *name, size_t len,
		      const struct env_attr *attr, uint64_t next)
{
	struct below *b = ctx;

	(void)attr;
	(void)next;
	b->error = set_add_below(b->set, b->dir->path, b->dir->len, name, len);
	return b->error >= 0;
}

static int below_base(struct env *e, struct diff_set *set,
		      const struct diff_path *dir)
{
	struct tree_entry t;
	struct object *o;
	int r = base_dir(&e->base, dir->old.ino, &o);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < o->tree.count && r >= 0; i++) {
		tree_entry_at(&o->tree, i, &t);
		r = set_add_below(set, dir->path, dir->len, t.name,
				  t.name_len);
	}
	base_unpin(&e->base, o);
	return r;
}

static int path_load(struct env *e, struct diff_set *set, struct diff_path *p)
{
	struct below b = {set, p, 0};
	const char *name = strrchr(p->path, '/');
	struct diff_path *up = NULL;
	bool same;
	int r;

	if (name)
		up = diff_find(set, p->path, (size_t)(name++ - p->path));
	if (!up || !up->loaded) {
		up = NULL;
		name = p->path;
	}
	r = base_at(e, up, name, &p->old);
	if (r < 0 && r != -ENOENT)
		return r;
	p->in_base = r >= 0;
	r = now_at(e, up, name, &p->now);
	if (r < 0 && r != -ENOENT)
		return r;
	p->is_now = r >= 0;
	p->loaded = true;
	same = p->in_base && p->is_now && p->old.ino == p->now.ino;
	r = 0;
	if (!same && p->in_base && S_ISDIR(p->old.mode))
		r = below_base(e, set, p);
	if (r >= 0 && !same && p->is_now && S_ISDIR(p->now.mode)) {
		r = dir_list_locked(e, p->now.ino, 0, below_now, &b);
		if (r >= 0)
			r = b.error;
	}
	return r;
}

int diff_collect(struct env *e, struct diff_set *set)
{
	struct hmap_cursor c = {0};
	struct hnode *h;
	int r = 0;

	while (r >= 0 && (h = hmap_each(&e->inodes, &c)))
		r = add_inode(e, set, container_of(h, struct inode, node));
	if (r >= 0)
		r = add_links(e, set);
	for (size_t i = 0; r >= 0 && i < set->count; i++)
		r = path_load(e, set, set->paths[i]);
	return r;
}
