/* SPDX-License-Identifier: MIT */
/*
 * How: a directory whose names changed has a map from name to dent: a new
 * name, another inode under an old name, or a whiteout. The base tree shows
 * through where the map says nothing, unless the directory is opaque.
 *
 * Cookies: position + 1 in the base tree; new names get the base's count plus
 * a counter that never goes back. A name that is replaced while it exists
 * keeps its cookie, so that a reader in the middle sees it exactly once.
 */
#include "env/env_int.h"

#include "base/err.h"
#include "base/grow.h"

#include <string.h>
#include <sys/stat.h>

static uint64_t name_hash(const char *name, size_t len)
{
	return hmap_hash_bytes(name, len, 0);
}

struct dent *names_find(const struct names *n, const char *name, size_t len)
{
	struct hnode *h;

	if (!n)
		return NULL;
	h = hmap_first(&n->map, name_hash(name, len));
	for (; h; h = hmap_next(h)) {
		struct dent *d = container_of(h, struct dent, node);

		if (d->len == len && !memcmp(d->name, name, len))
			return d;
	}
	return NULL;
}

/* Says whether names of the base show in this directory. */
static bool shows_base(const struct env *e, uint64_t dir,
		       const struct inode *in)
{
	return dir <= e->base.last_ino && !(in && in->names &&
					    in->names->opaque);
}

int dir_find(struct env *e, uint64_t dir, const char *name, size_t len,
	     struct found *ret_found)
{
	struct inode *in = itable_find(e, dir);
	struct dent *d = names_find(in ? in->names : NULL, name, len);
	struct base_node n;
	uint32_t i;
	int r;

	if (d) {
		if (!d->ino)
			return -ENOENT;
		*ret_found = (struct found){d->ino, d->cookie};
		return 0;
	}
	if (!shows_base(e, dir, in))
		return -ENOENT;
	r = base_lookup(&e->base, dir, name, len, &n, &i);
	if (r < 0)
		return r;
	*ret_found = (struct found){n.ino, (uint64_t)i + 1};
	return 0;
}

int dir_find_attr(struct env *e, uint64_t dir, const char *name, size_t len,
		  struct env_attr *ret_attr)
{
	struct inode *in = itable_find(e, dir);
	struct dent *d = names_find(in ? in->names : NULL, name, len);
	struct base_node n;
	struct iattr a;
	int r;

	if (d) {
		if (!d->ino)
			return -ENOENT;
		r = inode_get(e, d->ino, &a);
		if (r >= 0)
			inode_stat(e, &a, ret_attr);
		return r == -ENOENT ? -EFSCORRUPTED : r;
	}
	if (!shows_base(e, dir, in))
		return -ENOENT;
	r = base_lookup(&e->base, dir, name, len, &n, NULL);
	if (r >= 0)
		inode_stat_node(e, &n, ret_attr);
	return r;
}

int dir_is_empty(struct env *e, uint64_t dir, bool *ret_empty)
{
	struct inode *in = itable_find(e, dir);
	struct object *o;
	int r;

	if (in && in->names) {
		*ret_empty = in->names->live == 0;
		return 0;
	}
	if (dir > e->base.last_ino) {
		*ret_empty = true;
		return 0;
	}
	r = base_dir(&e->base, dir, &o);
	if (r < 0)
		return r;
	*ret_empty = o->tree.count == 0;
	base_unpin(&e->base, o);
	return 0;
}

/* --- changes ------------------------------------------------------------- */

int names_need(struct env *e, struct inode *dir)
{
	struct object *o;
	struct names *n;
	int r;

	if (dir->names)
		return 0;
	n = calloc(1, sizeof *n);
	if (!n)
		return -ENOMEM;
	if (dir->has_base) {
		r = base_dir(&e->base, dir->a.ino, &o);
		if (r < 0) {
			free(n);
			return r;
		}
		n->base_count = n->live = o->tree.count;
		base_unpin(&e->base, o);
	}
	n->next_cookie = n->base_count + 1;
	dir->names = n;
	return 0;
}

size_t names_place(const struct names *n, uint64_t cookie)
{
	size_t lo = 0, hi = n->order_len;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (n->order[mid].cookie < cookie)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void order_compact(struct names *n)
{
	size_t to = 0;

	for (size_t i = 0; i < n->order_len; i++)
		if (n->order[i].dent)
			n->order[to++] = n->order[i];
	n->order_len = to;
	n->order_gone = 0;
}

static int order_add(struct names *n, struct dent *d)
{
	size_t i = names_place(n, d->cookie);

	if (i < n->order_len && n->order[i].cookie == d->cookie) {
		if (n->order[i].dent)
			return -EFSCORRUPTED; /* a cookie twice */
		n->order[i].dent = d;
		n->order_gone--;
		return 0;
	}
	if (GROW(n->order, n->order_len, n->order_cap, 8) < 0)
		return -ENOMEM;
	memmove(&n->order[i + 1], &n->order[i],
		(n->order_len - i) * sizeof *n->order);
	n->order[i] = (struct order){d->cookie, d};
	n->order_len++;
	return 0;
}

static void order_remove(struct names *n, const struct dent *d)
{
	size_t i = names_place(n, d->cookie);

	if (i == n->order_len || n->order[i].dent != d)
		return; /* it stood in a base slot */
	n->order[i].dent = NULL;
	if (++n->order_gone > n->order_len / 2)
		order_compact(n);
}

/* A directory remembers the dent that names it, for paths. */
static void dent_unlink_dir(struct env *e, const struct dent *d)
{
	struct inode *child = d->ino ? itable_find(e, d->ino) : NULL;

	if (child && child->dent == d)
		child->dent = NULL;
}

static void dent_link_dir(struct env *e, struct dent *d)
{
	struct inode *child = d->ino ? itable_find(e, d->ino) : NULL;

	if (child && S_ISDIR(child->a.mode))
		child->dent = d;
}

static int dent_new(struct names *n, const char *name, size_t len,
		    struct dent **ret_dent)
{
	struct dent *d = calloc(1, sizeof *d + len);
	int r;

	if (!d)
		return -ENOMEM;
	d->len = (uint8_t)len;
	memcpy(d->name, name, len);
	r = hmap_insert(&n->map, &d->node, name_hash(name, len));
	if (r < 0) {
		free(d);
		return r;
	}
	*ret_dent = d;
	return 0;
}

/* Says in which base slot a name stands (0: in none). */
static int base_slot(struct env *e, const struct inode *dir, const char *name,
		     size_t len, uint64_t *ret_slot)
{
	struct base_node b;
	uint32_t i;
	int r;

	*ret_slot = 0;
	if (!shows_base(e, dir->a.ino, dir))
		return 0;
	r = base_lookup(&e->base, dir->a.ino, name, len, &b, &i);
	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		*ret_slot = (uint64_t)i + 1;
	return r;
}

int names_set(struct env *e, struct inode *dir, const char *name, size_t len,
	      uint64_t ino, uint64_t cookie)
{
	struct names *n = dir->names;
	struct dent *d = names_find(n, name, len);
	uint64_t slot;
	int r;

	if (!d) {
		r = base_slot(e, dir, name, len, &slot);
		if (r < 0)
			return r;
		r = dent_new(n, name, len, &d);
		if (r < 0)
			return r;
		if (!slot)
			n->live++;
	} else if (d->ino && d->cookie == cookie) {
		dent_unlink_dir(e, d);
		d->ino = ino;
		dent_link_dir(e, d);
		return 0;
	} else {
		dent_unlink_dir(e, d);
		if (d->ino)
			order_remove(n, d);
		else
			n->live++;
	}
	d->ino = ino;
	d->cookie = cookie;
	if (cookie >= n->next_cookie)
		n->next_cookie = cookie + 1;
	dent_link_dir(e, d);
	return cookie > n->base_count ? order_add(n, d) : 0;
}

int names_remove(struct env *e, struct inode *dir, const char *name, size_t len)
{
	struct names *n = dir->names;
	struct dent *d = names_find(n, name, len);
	uint64_t slot;
	int r = base_slot(e, dir, name, len, &slot);

	if (r < 0)
		return r;
	if (d ? !d->ino : !slot)
		return -EFSCORRUPTED; /* there is no such name */
	n->live--;
	if (d) {
		dent_unlink_dir(e, d);
		order_remove(n, d);
		if (!slot) {
			hmap_remove(&n->map, &d->node);
			free(d);
			return 0;
		}
	} else {
		r = dent_new(n, name, len, &d);
		if (r < 0) {
			n->live++;
			return r;
		}
	}
	d->ino = 0;
	d->cookie = slot;
	return 0;
}

void names_free(struct env *e, struct inode *dir)
{
	struct names *n = dir->names;
	struct hmap_cursor c = {0};
	struct hnode *h;

	if (!n)
		return;
	while ((h = hmap_each(&n->map, &c)))
		free(container_of(h, struct dent, node));
	hmap_fini(&n->map);
	free(n->order);
	free(n);
	dir->names = NULL;
}

int dir_next_cookie(struct env *e, uint64_t dir, uint64_t *ret_cookie)
{
	struct inode *in = itable_find(e, dir);
	struct object *o;
	int r;

	if (in && in->names) {
		*ret_cookie = in->names->next_cookie;
		return 0;
	}
	*ret_cookie = 1;
	if (dir > e->base.last_ino)
		return 0;
	r = base_dir(&e->base, dir, &o);
	if (r < 0)
		return r;
	*ret_cookie += o->tree.count;
	base_unpin(&e->base, o);
	return 0;
}
