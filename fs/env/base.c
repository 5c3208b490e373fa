/* SPDX-License-Identifier: MIT */
/*
 * How: inode numbers are preorder positions, so a number is found by walking
 * down from the root, each step a binary search for the entry whose subtree
 * holds the position. No table, nothing per inode. Trees (and manifests and
 * xattr sets) are kept in a small LRU. Two direct-mapped tables make the walk
 * rare: where the trees of recently used directories are, and what was listed
 * or looked up last, since whoever lists a directory reads its files next.
 *
 * Why pins: callers read entries in place while other lookups may evict.
 */
#include "env/env_int.h"

#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

int base_bad(struct base *b, const struct oid *id, int err)
{
	/* A tree names what the store does not have. */
	if (err == -ENOENT)
		err = -EFSCORRUPTED;
	if (err == -EFSCORRUPTED || err == -EFSBADCRC || err == -EIO)
		b->bad = *id;
	return err;
}

/* --- the cache of objects ----------------------------------------------- */

static void lru_unlink(struct base *b, struct object *o)
{
	if (o->prev)
		o->prev->next = o->next;
	else
		b->lru_head = o->next;
	if (o->next)
		o->next->prev = o->prev;
	else
		b->lru_tail = o->prev;
	o->prev = o->next = NULL;
}

static void lru_push(struct base *b, struct object *o)
{
	o->next = b->lru_head;
	if (b->lru_head)
		b->lru_head->prev = o;
	else
		b->lru_tail = o;
	b->lru_head = o;
}

static void object_free(struct base *b, struct object *o)
{
	lru_unlink(b, o);
	hmap_remove(&b->objects, &o->node);
	b->cached_bytes -= o->bytes.cap + sizeof *o;
	buf_fini(&o->bytes);
	free(o);
}

/* The most recent ones stay whatever their size: a huge directory is costly to
 * load, and it is asked for again at once. */
static void cache_shrink(struct base *b)
{
	struct object *o = b->lru_tail, *keep = b->lru_head;

	for (int i = 1; keep && i < BASE_CACHE_KEEP; i++)
		keep = keep->next;
	while (keep && o != keep && b->cached_bytes > BASE_CACHE_BYTES) {
		struct object *prev = o->prev;

		if (!o->pins)
			object_free(b, o);
		o = prev;
	}
}

static int object_parse(struct object *o)
{
	struct xset set;
	int r;

	switch (oid_kind(&o->id)) {
	case OID_TREE:
		return tree_open(o->bytes.data, o->bytes.len, &o->tree);
	case OID_MANIFEST:
		r = manifest_open(o->bytes.data, o->bytes.len, &o->manifest);
		for (uint64_t i = 0; r >= 0 && i < o->manifest.count; i++) {
			struct oid id = manifest_chunk(&o->manifest, i);

			o->holes += oid_is_null(&id);
		}
		return r;
	case OID_XSET:
		return xset_open(o->bytes.data, o->bytes.len, &set);
	default:
		return -EFSCORRUPTED;
	}
}

int base_object(struct base *b, const struct oid *id,
		struct object **ret_object)
{
	uint64_t hash = oid_hash(id);
	struct hnode *n;
	struct object *o;
	int r;

	for (n = hmap_first(&b->objects, hash); n; n = hmap_next(n)) {
		o = container_of(n, struct object, node);
		if (!oid_equal(&o->id, id))
			continue;
		if (o != b->lru_head) {
			lru_unlink(b, o);
			lru_push(b, o);
		}
		o->pins++;
		*ret_object = o;
		return 0;
	}
	o = calloc(1, sizeof *o);
	if (!o)
		return -ENOMEM;
	o->id = *id;
	r = store_get(b->store, id, &o->bytes);
	if (r >= 0)
		r = object_parse(o);
	if (r < 0)
		r = base_bad(b, id, r);
	if (r >= 0)
		r = hmap_insert(&b->objects, &o->node, hash);
	if (r < 0) {
		buf_fini(&o->bytes);
		free(o);
		return r;
	}
	lru_push(b, o);
	b->cached_bytes += o->bytes.cap + sizeof *o;
	o->pins++;
	cache_shrink(b);
	*ret_object = o;
	return 0;
}

void base_unpin(struct base *b, struct object *o)
{
	if (!o)
		return;
	o->pins--;
	if (b->cached_bytes > BASE_CACHE_BYTES)
		cache_shrink(b);
}

/* --- open and close ------------------------------------------------------ */

static int base_load(struct base *b, const struct oid *snapshot)
{
	int r = store_get_snap(b->store, snapshot, &b->snap);

	if (r < 0)
		return r;
	b->last_ino = b->snap.total + ENV_ROOT;
	if (oid_is_null(&b->snap.links))
		return 0;
	r = store_get(b->store, &b->snap.links, &b->links_bytes);
	if (r < 0)
		return base_bad(b, &b->snap.links, r);
	return links_open(b->links_bytes.data, b->links_bytes.len, &b->links);
}

int base_open(struct base *b, struct store *s, const struct oid *snapshot)
{
	int r;

	memset(b, 0, sizeof *b);
	b->store = s;
	r = base_load(b, snapshot);
	if (r < 0)
		base_close(b);
	return r;
}

void base_own(struct base *b, uint32_t uid, uint32_t gid)
{
	b->owned = true;
	b->uid = uid;
	b->gid = gid;
}

void base_close(struct base *b)
{
	while (b->lru_head)
		object_free(b, b->lru_head);
	hmap_fini(&b->objects);
	buf_fini(&b->links_bytes);
	free(b->slots);
	free(b->nodes);
	free(b->chunk);
	b->slots = NULL;
	b->nodes = NULL;
	b->chunk = NULL;
}

/* --- numbers to entries -------------------------------------------------- */

static struct dir_slot *slot_of(struct base *b, uint64_t ino)
{
	if (!b->slots)
		b->slots = calloc(BASE_DIR_SLOTS, sizeof *b->slots);
	return b->slots ? &b->slots[ino % BASE_DIR_SLOTS] : NULL;
}

static void slot_put(struct base *b, uint64_t ino, uint64_t parent,
		     const struct oid *tree)
{
	struct dir_slot *slot = slot_of(b, ino);

	if (slot)
		*slot = (struct dir_slot){ino, parent, *tree};
}

static struct base_node *node_of(struct base *b, uint64_t ino)
{
	if (!b->nodes)
		b->nodes = calloc(BASE_NODE_SLOTS, sizeof *b->nodes);
	return b->nodes ? &b->nodes[ino % BASE_NODE_SLOTS] : NULL;
}

static void node_put(struct base *b, const struct base_node *n)
{
	struct base_node *slot = node_of(b, n->ino);

	if (slot)
		*slot = *n;
}

/* Programs that gave their owner's rights would give another's now. */
static void node_own(const struct base *b, struct base_node *n)
{
	if (!b->owned)
		return;
	n->uid = b->uid;
	n->gid = b->gid;
	if (!S_ISDIR(n->mode))
		n->mode &= ~(uint32_t)(S_ISUID | S_ISGID);
}

static void root_node(const struct base *b, struct base_node *ret)
{
	const struct snap *s = &b->snap;

	*ret = (struct base_node){
		.ino = ENV_ROOT,
		.parent = ENV_ROOT,
		.mode = s->mode,
		.uid = s->uid,
		.gid = s->gid,
		.nlink = 2 + s->subdirs,
		.mtime = {s->mtime_sec, s->mtime_nsec},
		.content = s->tree,
		.xattrs = s->xattrs,
	};
	node_own(b, ret);
}

static void node_fill(const struct base *b, uint64_t dir_ino,
		      const struct tree_entry *t, struct base_node *ret)
{
	struct links_entry l;
	uint64_t ino = dir_ino + t->start;

	*ret = (struct base_node){
		.ino = ino,
		.parent = dir_ino,
		.mode = t->mode,
		.uid = t->uid,
		.gid = t->gid,
		.nlink = 1,
		.rdev = t->rdev,
		.size = t->size,
		.mtime = {t->mtime_sec, t->mtime_nsec},
		.content = t->content,
		.xattrs = t->xattrs,
	};
	node_own(b, ret);
	if (S_ISDIR(t->mode)) {
		ret->nlink = 2 + (uint32_t)t->size;
		ret->size = 0;
	} else if (b->links.count &&
		   links_find(&b->links, ino - ENV_ROOT, &l)) {
		ret->ino = l.first + ENV_ROOT;
		ret->nlink = l.count;
	}
}

void base_entry_node(struct base *b, uint64_t dir_ino, const struct object *o,
		     uint32_t i, struct base_node *ret_node)
{
	struct tree_entry t;

	tree_entry_at(&o->tree, i, &t);
	node_fill(b, dir_ino, &t, ret_node);
	if (S_ISDIR(t.mode))
		slot_put(b, ret_node->ino, dir_ino, &t.content);
	/* of several names only the first one's parent is the inode's */
	if (ret_node->ino == dir_ino + t.start)
		node_put(b, ret_node);
}

/* Walks from the root to the directory that holds position ino; returns its
 * tree pinned and the index of the entry. */
static int base_walk(struct base *b, uint64_t ino, uint64_t *ret_dir,
		     struct object **ret_object, uint32_t *ret_i)
{
	struct oid tree = b->snap.tree;
	uint64_t dir = ENV_ROOT;
	struct object *o;
	struct tree_entry t;
	uint32_t i;
	int r;

	if (ino <= ENV_ROOT || ino > b->last_ino)
		return -ENOENT;
	for (unsigned depth = 0; depth <= FORMAT_MAX_DEPTH; depth++) {
		r = base_object(b, &tree, &o);
		if (r < 0)
			return r;
		r = tree_find_start(&o->tree, ino - dir, &i);
		if (r < 0) {
			base_unpin(b, o);
			return -EFSCORRUPTED;
		}
		tree_entry_at(&o->tree, i, &t);
		if (dir + t.start == ino) {
			*ret_dir = dir;
			*ret_object = o;
			*ret_i = i;
			return 0;
		}
		slot_put(b, dir + t.start, dir, &t.content);
		dir += t.start;
		tree = t.content;
		base_unpin(b, o);
	}
	return -EFSCORRUPTED;
}

int base_find(struct base *b, uint64_t ino, struct base_node *ret_node)
{
	const struct base_node *slot;
	struct object *o;
	uint64_t dir;
	uint32_t i;
	int r;

	if (ino == ENV_ROOT) {
		root_node(b, ret_node);
		return 0;
	}
	slot = node_of(b, ino);
	if (slot && slot->ino == ino) {
		*ret_node = *slot;
		return 0;
	}
	r = base_walk(b, ino, &dir, &o, &i);
	if (r < 0)
		return r;
	base_entry_node(b, dir, o, i, ret_node);
	base_unpin(b, o);
	return 0;
}

int base_dir(struct base *b, uint64_t ino, struct object **ret_object)
{
	struct dir_slot *slot;
	struct base_node n;
	int r;

	if (ino == ENV_ROOT)
		return base_object(b, &b->snap.tree, ret_object);
	slot = slot_of(b, ino);
	if (slot && slot->ino == ino)
		return base_object(b, &slot->tree, ret_object);
	r = base_find(b, ino, &n);
	if (r < 0)
		return r;
	if (!S_ISDIR(n.mode))
		return -ENOTDIR;
	return base_object(b, &n.content, ret_object);
}

int base_lookup(struct base *b, uint64_t dir_ino, const char *name, size_t len,
		struct base_node *ret_node, uint32_t *ret_index)
{
	struct object *o;
	uint32_t i;
	int r = base_dir(b, dir_ino, &o);

	if (r < 0)
		return r;
	r = tree_lookup(&o->tree, name, len, &i);
	if (r >= 0) {
		base_entry_node(b, dir_ino, o, i, ret_node);
		if (ret_index)
			*ret_index = i;
	}
	base_unpin(b, o);
	return r;
}

/* Appends the name, or the target, of the entry at a position. */
static int entry_text(struct base *b, uint64_t ino, bool target,
		      struct buf *out)
{
	struct tree_entry t;
	struct object *o;
	uint64_t dir;
	uint32_t i;
	int r = base_walk(b, ino, &dir, &o, &i);

	if (r < 0)
		return r;
	tree_entry_at(&o->tree, i, &t);
	if (target)
		buf_put(out, t.target, t.target_len);
	else
		buf_put(out, t.name, t.name_len);
	base_unpin(b, o);
	return buf_error(out);
}

int base_name(struct base *b, uint64_t ino, struct buf *out)
{
	return entry_text(b, ino, false, out);
}

int base_target(struct base *b, uint64_t ino, struct buf *out)
{
	return entry_text(b, ino, true, out);
}
