/* SPDX-License-Identifier: MIT */
/*
 * How: the snapshot is opened as a base of its own and walked beside the
 * environment, by lookups, not by the lists that the freeze was made from.
 * Every directory that was made anew is compared name by name: attributes,
 * extended attributes, targets, links; content byte by byte where the
 * environment has a block of its own, else by name. A directory that kept its
 * tree must have kept it.
 */
#include "env/freeze_int.h"

#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

struct pair { /* an inode with several names, on both sides */
	struct hnode node;
	uint64_t ino, theirs;
};

struct check {
	struct freeze *f;
	struct base base; /* the snapshot */
	struct hmap pairs;
	uint8_t *chunk;
	const char *differs; /* what */
};

static int differ(struct check *c, const char *what)
{
	c->differs = what;
	return -EIO;
}

/* --- one inode ----------------------------------------------------------- */

static int check_attrs(struct check *c, const struct iattr *a,
		       const struct base_node *n)
{
	bool device = S_ISCHR(a->mode) || S_ISBLK(a->mode);

	if (a->mode != n->mode || a->uid != n->uid || a->gid != n->gid ||
	    a->mtime.tv_sec != n->mtime.tv_sec ||
	    a->mtime.tv_nsec != n->mtime.tv_nsec ||
	    (device && a->rdev != n->rdev))
		return differ(c, "attributes");
	if (S_ISREG(a->mode) && a->size != n->size)
		return differ(c, "size");
	return 0;
}

static int check_xattrs(struct check *c, uint64_t ino,
			const struct base_node *n)
{
	_cleanup_buf_ struct buf mine = {0}, theirs = {0};
	int r = xattr_encode(c->f->e, ino, &mine);

	if (r >= 0 && !oid_is_null(&n->xattrs))
		r = store_get(c->base.store, &n->xattrs, &theirs);
	if (r < 0)
		return r;
	if (mine.len != theirs.len ||
	    (mine.len && memcmp(mine.data, theirs.data, mine.len) != 0))
		return differ(c, "extended attributes");
	return 0;
}

static int check_target(struct check *c, uint64_t ino, uint64_t position)
{
	_cleanup_buf_ struct buf mine = {0}, theirs = {0};
	int r = file_target_locked(c->f->e, ino, &mine);

	if (r >= 0)
		r = base_target(&c->base, position, &theirs);
	if (r < 0)
		return r;
	if (mine.len != theirs.len ||
	    memcmp(mine.data, theirs.data, mine.len) != 0)
		return differ(c, "target");
	return 0;
}

static int check_bytes(struct check *c, const struct iattr *a,
		       const struct base_node *n, uint64_t at)
{
	size_t part = (size_t)MIN(a->size - at, (uint64_t)FORMAT_CHUNK_BYTES);
	ssize_t got = file_read_locked(c->f->e, a->ino, c->f->chunk, part, at);
	int r;

	if (got < 0)
		return (int)got;
	r = base_read(&c->base, &n->content, n->size, c->chunk, part, at);
	if (r < 0)
		return r;
	if ((size_t)got != part || memcmp(c->chunk, c->f->chunk, part) != 0)
		return differ(c, "content");
	return 0;
}

static int check_big(struct check *c, const struct inode *in,
		     const struct base_node *n)
{
	struct object *theirs = NULL, *old = NULL;
	int r = base_object(&c->base, &n->content, &theirs);

	if (r >= 0 && oid_kind(&in->content) == OID_MANIFEST)
		r = base_object(&c->f->e->base, &in->content, &old);
	for (uint64_t i = 0; r >= 0 && i < theirs->manifest.count; i++) {
		struct oid is = manifest_chunk(&theirs->manifest, i), known;

		if (!freeze_known_chunk(in, old ? &old->manifest : NULL, i,
					&known))
			r = check_bytes(c, &in->a, n, i << FORMAT_CHUNK_SHIFT);
		else if (!oid_equal(&is, &known))
			r = differ(c, "content");
	}
	base_unpin(&c->f->e->base, old);
	base_unpin(&c->base, theirs);
	return r;
}

static int check_content(struct check *c, const struct iattr *a,
			 const struct base_node *n)
{
	const struct inode *in = itable_find(c->f->e, a->ino);
	struct base_node old;
	int r;

	if (!a->size)
		return oid_is_null(&n->content) ? 0 : differ(c, "content");
	if (!in || freeze_is_old_content(in)) {
		r = base_find(&c->f->e->base, a->ino, &old);
		if (r < 0)
			return r;
		return oid_equal(&old.content, &n->content)
			       ? 0
			       : differ(c, "content");
	}
	return a->size > FORMAT_CHUNK_BYTES ? check_big(c, in, n)
					    : check_bytes(c, a, n, 0);
}

/* Names of one inode must be names of one inode there. */
static int check_links(struct check *c, const struct iattr *a,
		       const struct base_node *n)
{
	struct hnode *h = hmap_first(&c->pairs, hmap_hash_u64(a->ino));
	struct pair *p;
	int r;

	if (a->nlink < 2)
		return n->nlink > 1 ? differ(c, "hard links") : 0;
	for (; h; h = hmap_next(h)) {
		p = container_of(h, struct pair, node);
		if (p->ino == a->ino)
			return p->theirs == n->ino ? 0
						   : differ(c, "hard links");
	}
	p = malloc(sizeof *p);
	if (!p)
		return -ENOMEM;
	*p = (struct pair){.ino = a->ino, .theirs = n->ino};
	r = hmap_insert(&c->pairs, &p->node, hmap_hash_u64(a->ino));
	if (r < 0)
		free(p);
	return r;
}

static int check_dir(struct check *c, uint64_t mine, uint64_t theirs,
		     unsigned depth);

static int check_same_tree(struct check *c, uint64_t ino,
			   const struct base_node *n)
{
	struct base_node old;
	int r = base_find(&c->f->e->base, ino, &old);

	if (r >= 0 && !oid_equal(&old.content, &n->content))
		r = differ(c, "names");
	return r;
}

static int check_inode(struct check *c, uint64_t ino, const struct base_node *n,
		       unsigned depth)
{
	struct freeze *f = c->f;
	struct iattr a;
	int r = inode_get(f->e, ino, &a);

	if (r >= 0)
		r = check_attrs(c, &a, n);
	if (r >= 0)
		r = check_xattrs(c, ino, n);
	if (r < 0)
		return r;
	if (S_ISDIR(a.mode))
		return ino > f->e->base.last_ino || freeze_is_touched(f, ino)
			       ? check_dir(c, ino, n->ino, depth + 1)
			       : check_same_tree(c, ino, n);
	r = check_links(c, &a, n);
	if (r >= 0 && S_ISREG(a.mode))
		r = check_content(c, &a, n);
	if (r >= 0 && S_ISLNK(a.mode))
		r = check_target(c, ino, n->ino);
	return r;
}

/* --- one directory ------------------------------------------------------- */

/* A name that the environment has. */
static int check_name(struct check *c, uint64_t theirs, const char *name,
		      size_t len, bool socket)
{
	struct base_node n;
	int r;

	if (socket || freeze_is_left(c->f))
		return 0;
	r = base_lookup(&c->base, theirs, name, len, &n, NULL);
	return r == -ENOENT ? differ(c, "missing") : r;
}

/* A name that the snapshot has. */
static int check_entry(struct check *c, uint64_t mine,
		       const struct base_node *n, const char *name, size_t len,
		       unsigned depth)
{
	struct tree_entry old;
	struct found found;
	uint64_t ino;
	int r;

	if (freeze_is_left(c->f)) {
		r = freeze_base_entry(c->f, &old, &ino);
		if (r >= 0 && (!oid_equal(&old.content, &n->content) ||
			       old.mode != n->mode))
			r = differ(c, "not as in the base");
		return r == -ENOENT ? differ(c, "not left out") : r;
	}
	r = dir_find(c->f->e, mine, name, len, &found);
	if (r == -ENOENT)
		return differ(c, "not in the environment");
	return r < 0 ? r : check_inode(c, found.ino, n, depth);
}

struct names_of {
	struct check *c;
	uint64_t theirs;
	int r;
};

static bool each_name(void *ctx, const char *name, size_t len,
		      const struct env_attr *attr, uint64_t next)
{
	struct names_of *of = ctx;
	size_t old = freeze_path_push(of->c->f, name, len);

	of->r = check_name(of->c, of->theirs, name, len, S_ISSOCK(attr->mode));
	if (of->r >= 0)
		freeze_path_pop(of->c->f, old);
	return of->r >= 0;
}

static int check_dir(struct check *c, uint64_t mine, uint64_t theirs,
		     unsigned depth)
{
	struct names_of of = {.c = c, .theirs = theirs};
	struct object *o = NULL;
	int r = depth > FORMAT_MAX_DEPTH ? -ENAMETOOLONG : 0;

	if (r >= 0)
		r = dir_list_locked(c->f->e, mine, 0, each_name, &of);
	if (r >= 0)
		r = of.r;
	if (r >= 0)
		r = base_dir(&c->base, theirs, &o);
	for (uint32_t i = 0; r >= 0 && i < o->tree.count; i++) {
		struct tree_entry t;
		struct base_node n;
		size_t old;

		tree_entry_at(&o->tree, i, &t);
		base_entry_node(&c->base, theirs, o, i, &n);
		old = freeze_path_push(c->f, t.name, t.name_len);
		r = check_entry(c, mine, &n, t.name, t.name_len, depth);
		if (r >= 0)
			freeze_path_pop(c->f, old);
	}
	base_unpin(&c->base, o);
	return r;
}

/* --- the whole ----------------------------------------------------------- */

static void check_fini(struct check *c)
{
	struct hmap_cursor at = {0};
	struct hnode *h;

	while ((h = hmap_each(&c->pairs, &at)))
		free(container_of(h, struct pair, node));
	hmap_fini(&c->pairs);
	base_close(&c->base);
	free(c->chunk);
}

int freeze_check(struct freeze *f, const struct oid *snapshot,
		 struct diag *diag)
{
	_cleanup_(check_fini) struct check c = {.f = f};
	struct base_node root;
	int r = base_open(&c.base, f->e->store, snapshot);

	c.chunk = malloc(FORMAT_CHUNK_BYTES);
	if (r >= 0 && !c.chunk)
		r = -ENOMEM;
	if (r >= 0)
		r = base_find(&c.base, ENV_ROOT, &root);
	if (r >= 0)
		r = check_inode(&c, ENV_ROOT, &root, 0);
	if (r == -EIO && c.differs)
		diag_add(diag,
			 "%.*s: read back, it is not what was written: "
			 "%s",
			 (int)f->path.len,
			 f->path.len ? (const char *)f->path.data : "",
			 c.differs);
	return r;
}
