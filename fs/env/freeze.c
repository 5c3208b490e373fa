/* SPDX-License-Identifier: MIT */
/*
 * How: first the directories are found whose trees cannot be the base's any
 * more: those with changed names, those that hold a name of a changed inode,
 * and all above them. Then these are walked from the root, depth first, and
 * encoded; every other directory is its old tree object, whatever lies below
 * it. A tree that comes out as it was is found in the store and costs nothing.
 *
 * Positions are known on the way down, since an entry is added after
 * everything before it; so the names that share an inode are noted with their
 * new positions at once, those in old trees by the base's own table.
 *
 * The objects are committed without a record. A pin is taken before that, so
 * that no gc comes between them and whoever makes them a root.
 */
#include "env/freeze_int.h"

#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

struct touched {
	struct hnode node;
	uint64_t ino;
};

/* --- which directories --------------------------------------------------- */

bool freeze_is_touched(const struct freeze *f, uint64_t dir)
{
	struct hnode *n = hmap_first(&f->touched, hmap_hash_u64(dir));

	for (; n; n = hmap_next(n))
		if (container_of(n, struct touched, node)->ino == dir)
			return true;
	return false;
}

static int touched_add(struct freeze *f, uint64_t dir)
{
	struct touched *t = malloc(sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->ino = dir;
	r = hmap_insert(&f->touched, &t->node, hmap_hash_u64(dir));
	if (r < 0)
		free(t);
	return r;
}

/* A directory and all above it, up to one that is known. */
static int touch(struct freeze *f, uint64_t dir)
{
	uint64_t steps = 0;
	struct iattr a;

	while (!freeze_is_touched(f, dir)) {
		int r = touched_add(f, dir);

		if (r >= 0)
			r = inode_get(f->e, dir, &a);
		if (r < 0)
			return r;
		if (dir == ENV_ROOT || !a.nlink)
			break; /* one that is gone is in no other */
		if (steps++ > env_max_depth(f->e))
			return -EFSCORRUPTED;
		dir = a.parent;
	}
	return 0;
}

static int touch_inode(struct freeze *f, const struct inode *in)
{
	struct base_node n;
	int r = 0;

	if (in->names)
		r = touch(f, in->a.ino);
	if (r < 0 || !in->has_base || in->a.ino == ENV_ROOT)
		return r;
	if (S_ISDIR(in->a.mode))
		return in->a.nlink ? touch(f, in->a.parent) : 0;
	r = base_find(&f->e->base, in->a.ino, &n);
	return r < 0 ? r : touch(f, n.parent);
}

/* The base's other names of changed inodes. */
static int touch_links(struct freeze *f)
{
	const struct links *l = &f->e->base.links;
	struct links_entry entry;
	struct base_node n;
	int r = 0;

	for (uint64_t i = 0; i < l->count && r >= 0; i++) {
		links_at(l, i, &entry);
		if (entry.position == entry.first ||
		    !itable_find(f->e, entry.first + ENV_ROOT))
			continue;
		r = base_find(&f->e->base, entry.position + ENV_ROOT, &n);
		if (r >= 0)
			r = touch(f, n.parent);
	}
	return r;
}

static int touch_all(struct freeze *f)
{
	struct hmap_cursor c = {0};
	struct hnode *h;
	int r = touch(f, ENV_ROOT);

	while (r >= 0 && (h = hmap_each(&f->e->inodes, &c)))
		r = touch_inode(f, container_of(h, struct inode, node));
	return r < 0 ? r : touch_links(f);
}

/* --- entries ------------------------------------------------------------- */

static int build_dir(struct freeze *f, uint64_t ino, uint64_t position,
		     unsigned depth, struct tree_entry *t);

static int put(struct freeze *f, enum oid_kind kind, const struct buf *b,
	       struct oid *ret_id)
{
	return b->failed ? -ENOMEM
			 : batch_put(f->batch, kind, b->data, b->len, ret_id);
}

static int put_xattrs(struct freeze *f, uint64_t ino, struct oid *ret_id)
{
	const struct inode *in = itable_find(f->e, ino);
	_cleanup_buf_ struct buf set = {0};
	struct base_node n;
	int r;

	*ret_id = (struct oid){.b = {0}};
	if (!in) {
		r = base_find(&f->e->base, ino, &n);
		if (r >= 0)
			*ret_id = n.xattrs;
		return r;
	}
	if (!in->xattrs_own) {
		*ret_id = in->xset;
		return 0;
	}
	r = xattr_encode(f->e, ino, &set);
	return r < 0 || !set.len ? r : put(f, OID_XSET, &set, ret_id);
}

/* A directory as it is now: an old tree, or a new one. */
static int put_dir(struct freeze *f, uint64_t ino, uint64_t position,
		   unsigned depth, struct tree_entry *t)
{
	struct base_node n;
	int r;

	if (ino > f->e->base.last_ino || freeze_is_touched(f, ino))
		return build_dir(f, ino, position, depth, t);
	r = base_find(&f->e->base, ino, &n);
	if (r >= 0)
		r = freeze_old_tree(f, &n.content, t);
	return r < 0 ? r
		     : freeze_link_range(f, ino - ENV_ROOT, t->below + 1,
					 position);
}

/* What an inode is now, as an entry without a name. */
static int put_inode(struct freeze *f, const struct iattr *a, uint64_t position,
		     unsigned depth, struct tree_entry *t)
{
	int r;

	*t = (struct tree_entry){
		.mode = a->mode,
		.uid = a->uid,
		.gid = a->gid,
		.mtime_sec = a->mtime.tv_sec,
		.mtime_nsec = (uint32_t)a->mtime.tv_nsec,
	};
	r = put_xattrs(f, a->ino, &t->xattrs);
	if (r < 0)
		return r;
	switch (a->mode & S_IFMT) {
	case S_IFDIR:
		return put_dir(f, a->ino, position, depth, t);
	case S_IFREG:
		t->size = a->size;
		r = freeze_content(f, a, &t->content);
		break;
	case S_IFLNK:
		buf_clear(&f->target);
		r = file_target_locked(f->e, a->ino, &f->target);
		freeze_set_target(f, t);
		break;
	case S_IFCHR:
	case S_IFBLK:
		t->rdev = a->rdev;
		break;
	default:
		break;
	}
	if (r >= 0 && a->nlink > 1)
		r = freeze_link(f, position, a->ino, false);
	return r;
}

/* What the base has at a path that is left out. 1: it has something. */
static int put_left(struct freeze *f, uint64_t position, struct tree_entry *t)
{
	uint64_t ino;
	int r = freeze_base_entry(f, t, &ino);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(t->mode))
		r = freeze_link_range(f, ino - ENV_ROOT, t->below + 1,
				      position);
	else
		r = freeze_link(f, position, ino, true);
	return r < 0 ? r : 1;
}

/* --- directories --------------------------------------------------------- */

/* The directory that is encoded. */
struct dir {
	uint64_t ino;
	uint64_t position;
	unsigned depth;
	struct object *old; /* its tree in the base, pinned, or NULL */
};

/* An entry of the base's tree, as it is or as its inode is now. */
static int put_old(struct freeze *f, const struct dir *d,
		   const struct freeze_child *c, uint64_t position,
		   struct tree_entry *t)
{
	struct base_node n;
	struct iattr a;
	int r;

	base_entry_node(&f->e->base, d->ino, d->old, c->i, &n);
	if (itable_find(f->e, n.ino) ||
	    (S_ISDIR(n.mode) && freeze_is_touched(f, n.ino))) {
		r = inode_get(f->e, n.ino, &a);
		return r < 0 ? r : put_inode(f, &a, position, d->depth + 1, t);
	}
	tree_entry_at(&d->old->tree, c->i, t);
	if (S_ISDIR(t->mode))
		return freeze_link_range(f, n.ino - ENV_ROOT, t->below + 1,
					 position);
	return n.nlink > 1 ? freeze_link(f, position, n.ino, false) : 0;
}

static int note_socket(struct freeze *f)
{
	buf_put(&f->result->sockets, f->path.data, f->path.len);
	buf_put_u8(&f->result->sockets, 0);
	return buf_error(&f->result->sockets);
}

/* Adds one name to the tree that is built. */
static int add_child(struct freeze *f, const struct dir *d,
		     const struct freeze_child *c, struct tree_builder *b)
{
	uint64_t at = d->position + b->total + 1;
	struct tree_entry t;
	struct iattr a;
	int r;

	if (freeze_is_left(f)) {
		r = put_left(f, at, &t);
		if (r <= 0)
			return r;
	} else if (!c->ino) {
		r = put_old(f, d, c, at, &t);
	} else {
		r = inode_get(f->e, c->ino, &a);
		if (r >= 0 && S_ISSOCK(a.mode))
			return note_socket(f);
		if (r >= 0)
			r = put_inode(f, &a, at, d->depth + 1, &t);
	}
	if (r < 0)
		return r;
	t.name = c->name;
	t.name_len = (uint16_t)c->len;
	return tree_builder_add(b, &t);
}

static int put_tree(struct freeze *f, struct tree_builder *b,
		    struct tree_entry *t)
{
	int r;

	t->size = b->subdirs;
	t->below = b->total;
	buf_clear(&f->object);
	r = tree_builder_finish(b, &f->object);
	if (r >= 0)
		r = put(f, OID_TREE, &f->object, &t->content);
	f->result->trees++;
	return r;
}

static int add_children(struct freeze *f, const struct dir *d,
			const struct freeze_list *c, struct tree_entry *t)
{
	struct tree_builder b = {0};
	int r = 0;

	for (size_t i = 0; i < c->count && r >= 0; i++) {
		const struct freeze_child *one = &c->v[i];
		size_t old = freeze_path_push(f, one->name, one->len);

		r = add_child(f, d, one, &b);
		if (r >= 0)
			freeze_path_pop(f, old);
	}
	if (r >= 0)
		r = put_tree(f, &b, t);
	tree_builder_fini(&b);
	return r;
}

/* Encodes a directory from its names; sets what its entry says of it. */
static int build_dir(struct freeze *f, uint64_t ino, uint64_t position,
		     unsigned depth, struct tree_entry *t)
{
	const struct inode *in = itable_find(f->e, ino);
	const struct names *names = in ? in->names : NULL;
	struct dir d = {.ino = ino, .position = position, .depth = depth};
	struct freeze_list c = {0};
	int r = 0;

	if (depth > FORMAT_MAX_DEPTH)
		return -ENAMETOOLONG;
	if (ino <= f->e->base.last_ino && !(names && names->opaque))
		r = base_dir(&f->e->base, ino, &d.old);
	if (r >= 0)
		r = freeze_list_fill(names, d.old, &c);
	if (r >= 0)
		r = add_children(f, &d, &c, t);
	base_unpin(&f->e->base, d.old);
	freeze_list_fini(&c);
	return r;
}

/* --- the whole ----------------------------------------------------------- */

static int put_snapshot(struct freeze *f, struct oid *ret_id)
{
	struct tree_entry root;
	struct snap s;
	struct iattr a;
	int r = inode_get(f->e, ENV_ROOT, &a);

	if (r >= 0)
		r = put_inode(f, &a, 0, 0, &root);
	if (r < 0)
		return r;
	s = (struct snap){
		.mode = root.mode,
		.uid = root.uid,
		.gid = root.gid,
		.mtime_sec = root.mtime_sec,
		.mtime_nsec = root.mtime_nsec,
		.subdirs = (uint32_t)root.size,
		.total = root.below,
		.tree = root.content,
		.xattrs = root.xattrs,
	};
	r = freeze_links_put(f, &s.links);
	if (r < 0)
		return r;
	buf_clear(&f->object);
	snap_encode(&s, &f->object);
	f->result->inodes = s.total + 1;
	return put(f, OID_SNAP, &f->object, ret_id);
}

static int freeze_locked(struct freeze *f, const struct buf *left,
			 struct oid *ret_id)
{
	int r = freeze_left_init(f, left);

	f->chunk = malloc(FORMAT_CHUNK_BYTES);
	if (r >= 0 && !f->chunk)
		r = -ENOMEM;
	if (r >= 0)
		r = touch_all(f);
	return r < 0 ? r : put_snapshot(f, ret_id);
}

static void freeze_free(struct freeze *f)
{
	struct hmap_cursor c = {0};
	struct hnode *h;

	while ((h = hmap_each(&f->touched, &c)))
		free(container_of(h, struct touched, node));
	hmap_fini(&f->touched);
	batch_abort(f->batch);
	free((void *)f->left);
	free(f->members);
	free(f->chunk);
	buf_fini(&f->path);
	buf_fini(&f->target);
	buf_fini(&f->object);
}

void freeze_fini(struct freeze_result *r)
{
	buf_fini(&r->sockets);
	if (r->pin >= 0)
		(void)close(TAKE_FD(r->pin));
}

static int commit(struct freeze *f)
{
	int r = store_pin(f->e->store, &f->result->pin);

	f->result->bytes = batch_bytes_written(f->batch);
	return r < 0 ? r : batch_commit(TAKE_PTR(f->batch), NULL, NULL);
}

/* Whether the objects are read back and compared: nobody may change the
 * environment then. */
enum checking { CHECKED, UNCHECKED };

static int freeze(struct freeze *f, const struct buf *left,
		  enum checking checking, struct diag *diag)
{
	size_t told = diag ? diag->count : 0;
	int r = batch_begin(f->e->store, &f->batch);

	if (r < 0)
		return r;
	if (checking == CHECKED)
		batch_is_urgent(f->batch);
	mutex_lock(&f->e->lock);
	r = freeze_locked(f, left, &f->result->snapshot);
	mutex_unlock(&f->e->lock);
	if (r >= 0)
		r = commit(f);
	if (r >= 0 && checking == CHECKED) {
		buf_clear(&f->path);
		mutex_lock(&f->e->lock);
		r = freeze_check(f, &f->result->snapshot, diag);
		mutex_unlock(&f->e->lock);
	}
	if (r < 0 && diag && diag->count == told)
		diag_add(diag, "%.*s: %s", (int)f->path.len,
			 f->path.len ? (const char *)f->path.data : "",
			 err_text(r));
	return r;
}

static int freeze_env(struct env *e, const struct buf *left,
		      enum checking checking, struct diag *diag,
		      struct freeze_result *ret)
{
	struct freeze_result result = {.pin = -1};
	_cleanup_(freeze_free) struct freeze f = {.e = e, .result = &result};
	int r = freeze(&f, left, checking, diag);

	if (r < 0)
		freeze_fini(&result);
	else
		*ret = result;
	return r;
}

int env_freeze(struct env *e, const struct buf *left, struct diag *diag,
	       struct freeze_result *ret)
{
	return e->read_only ? freeze_env(e, left, CHECKED, diag, ret) : -EINVAL;
}

int env_snapshot(struct env *e, struct diag *diag, struct freeze_result *ret)
{
	const struct buf none = {0};

	return freeze_env(e, &none, UNCHECKED, diag, ret);
}
