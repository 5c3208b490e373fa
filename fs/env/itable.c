/* SPDX-License-Identifier: MIT */
/*
 * How: a hash map from number to struct inode for what changed; everything
 * else is answered from the base. An inode of the base enters the table at its
 * first change and leaves it only when it is dropped.
 */
#include "env/env_int.h"

#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

struct inode *itable_find(struct env *e, uint64_t ino)
{
	struct hnode *n = hmap_first(&e->inodes, hmap_hash_u64(ino));

	for (; n; n = hmap_next(n)) {
		struct inode *in = container_of(n, struct inode, node);

		if (in->a.ino == ino)
			return in;
	}
	return NULL;
}

void inode_from_base(const struct base_node *n, struct iattr *ret_attr)
{
	*ret_attr = (struct iattr){
		.ino = n->ino,
		.parent = S_ISDIR(n->mode) ? n->parent : 0,
		.rdev = n->rdev,
		.size = n->size,
		.mode = n->mode,
		.uid = n->uid,
		.gid = n->gid,
		.nlink = n->nlink,
		.atime = n->mtime,
		.mtime = n->mtime,
		.ctime = n->mtime,
		.btime = n->mtime,
	};
}

/* The base's inode of this number; a later name of a hard link has a position
 * and no number of its own. */
static int base_inode(struct env *e, uint64_t ino, struct base_node *ret_node)
{
	int r = base_find(&e->base, ino, ret_node);

	return r >= 0 && ret_node->ino != ino ? -ENOENT : r;
}

static int itable_add(struct env *e, struct inode *in, uint64_t ino,
		      struct inode **ret_inode)
{
	int r = hmap_insert(&e->inodes, &in->node, hmap_hash_u64(ino));

	if (r < 0) {
		free(in);
		return r;
	}
	*ret_inode = in;
	return 0;
}

int itable_need(struct env *e, uint64_t ino, struct inode **ret_inode)
{
	struct inode *in = itable_find(e, ino);
	struct base_node n;
	int r;

	if (in) {
		*ret_inode = in;
		return 0;
	}
	r = base_inode(e, ino, &n);
	if (r < 0)
		return r;
	in = calloc(1, sizeof *in);
	if (!in)
		return -ENOMEM;
	inode_from_base(&n, &in->a);
	in->has_base = true;
	in->xset = n.xattrs;
	if (!oid_is_null(&n.xattrs))
		in->flags |= IFLAG_CAPS;
	if (S_ISREG(n.mode)) {
		in->content = n.content;
		in->base_size = n.size;
	}
	return itable_add(e, in, ino, ret_inode);
}

int itable_make(struct env *e, uint64_t ino, struct inode **ret_inode)
{
	struct inode *in;
	int r;

	if (ino <= e->base.last_ino || itable_find(e, ino))
		return itable_need(e, ino, ret_inode);
	in = calloc(1, sizeof *in);
	if (!in)
		return -ENOMEM;
	in->a.ino = ino;
	r = itable_add(e, in, ino, ret_inode);
	if (r >= 0)
		use_add(&e->use.inodes, 1);
	return r;
}

static void inode_free(struct env *e, struct inode *in)
{
	xattr_free_all(e, in);
	names_free(e, in);
	map_free(e, in);
	if (in->target)
		use_add(&e->use.bytes, -(uint64_t)strlen(in->target));
	free(in->target);
	free(in);
}

void itable_drop(struct env *e, struct inode *in)
{
	map_cut(e, in, 0);
	if (!in->has_base)
		use_add(&e->use.inodes, -UINT64_C(1));
	hmap_remove(&e->inodes, &in->node);
	inode_free(e, in);
}

void itable_free_all(struct env *e)
{
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&e->inodes, &c)))
		inode_free(e, container_of(n, struct inode, node));
	hmap_fini(&e->inodes);
}

int inode_get(struct env *e, uint64_t ino, struct iattr *ret_attr)
{
	const struct inode *in = itable_find(e, ino);
	struct base_node n;
	int r;

	if (in) {
		*ret_attr = in->a;
		return 0;
	}
	r = base_inode(e, ino, &n);
	if (r < 0)
		return r;
	inode_from_base(&n, ret_attr);
	return 0;
}

static void stat_fill(const struct iattr *a, uint64_t blocks,
		      struct env_attr *ret)
{
	*ret = (struct env_attr){
		.ino = a->ino,
		.size = S_ISDIR(a->mode) ? ENV_BLOCK : a->size,
		.blocks = S_ISDIR(a->mode) ? ENV_BLOCK / 512 : blocks,
		.rdev = a->rdev,
		.mode = a->mode,
		.nlink = a->nlink,
		.uid = a->uid,
		.gid = a->gid,
		.atime = a->atime,
		.mtime = a->mtime,
		.ctime = a->ctime,
		.btime = a->btime,
	};
}

/* Blocks of a changed file: its own, and what still shows of the base. An
 * estimate where both overlap, and never 0 for data. */
static uint64_t inode_blocks(struct env *e, const struct inode *in)
{
	uint64_t mine = in->private_blocks * (ENV_BLOCK / 512);
	uint64_t base;

	if (!in->base_size)
		return mine;
	base = base_blocks(&e->base, &in->content, in->base_size);
	return MAX(mine, base);
}

void inode_stat(struct env *e, const struct iattr *a, struct env_attr *ret)
{
	const struct inode *in = itable_find(e, a->ino);
	struct base_node n;
	uint64_t blocks = 0;

	if (S_ISREG(a->mode)) {
		if (in)
			blocks = inode_blocks(e, in);
		else if (base_find(&e->base, a->ino, &n) >= 0)
			blocks = base_blocks(&e->base, &n.content, n.size);
	}
	stat_fill(a, blocks, ret);
}

void inode_stat_node(struct env *e, const struct base_node *n,
		     struct env_attr *ret)
{
	const struct inode *in = itable_find(e, n->ino);
	struct iattr a;

	if (in) {
		inode_stat(e, &in->a, ret);
		return;
	}
	inode_from_base(n, &a);
	stat_fill(&a,
		  S_ISREG(n->mode)
			  ? base_blocks(&e->base, &n->content, n->size)
			  : 0,
		  ret);
}
