/* SPDX-License-Identifier: MIT */
/*
 * How: what an environment stores itself is a sum over its changed inodes: own
 * blocks, the bytes of own xattrs and of new symlinks' targets; and how many
 * of the inodes are new. Whoever changes one of these adds the difference to
 * e->use, in apply.c's calls only, so that a replay comes to the same sum.
 * Names cost nothing: there are as many as inodes, but for hard links.
 *
 * What grows asks here first, in the call itself and before a byte is written;
 * what a transaction has asked for adds up until it is begun anew. Shrinking
 * asks nobody. The disk under the store is asked in the same place: its
 * reserve is for what deletes and for the journal.
 *
 * The sums are read without the lock (ps must not wait for a slow disk), so
 * they are written as single words.
 */
#include "env/env_int.h"

#include "store/space.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

enum { RECORD_BYTES = 512 }; /* that a change takes in the journal, about */

void use_add(uint64_t *sum, uint64_t n)
{
	__atomic_store_n(sum, *sum + n, __ATOMIC_RELAXED);
}

int grow_take(struct env *e, uint64_t bytes, uint64_t inodes)
{
	const struct env_limits *l = &e->info.limits;

	e->grow.bytes += bytes;
	e->grow.inodes += inodes;
	if (l->bytes && bytes && e->use.bytes + e->grow.bytes > l->bytes)
		return -EDQUOT;
	if (l->inodes && inodes && e->use.inodes + e->grow.inodes > l->inodes)
		return -EDQUOT;
	return space_take(e->store, bytes + RECORD_BYTES);
}

void env_set_limits(struct env *e, const struct env_limits *limits)
{
	mutex_lock(&e->lock);
	e->info.limits = *limits;
	mutex_unlock(&e->lock);
}

void env_use(struct env *e, struct env_use *ret_use)
{
	ret_use->bytes = __atomic_load_n(&e->use.bytes, __ATOMIC_RELAXED);
	ret_use->inodes = __atomic_load_n(&e->use.inodes, __ATOMIC_RELAXED);
}

void env_recount(struct env *e, struct env_use *ret_use)
{
	struct hmap_cursor c = {0};
	struct env_use sum = {0};
	struct hnode *n;

	mutex_lock(&e->lock);
	while ((n = hmap_each(&e->inodes, &c))) {
		const struct inode *in = container_of(n, struct inode, node);

		sum.inodes += in->a.ino > e->base.last_ino;
		sum.bytes += map_count(in) << ENV_BLOCK_SHIFT;
		if (in->target)
			sum.bytes += strlen(in->target);
		for (const struct xattr *x = in->xattrs; x; x = x->next)
			sum.bytes += strlen(x->name) + x->len;
	}
	mutex_unlock(&e->lock);
	*ret_use = sum;
}

/* --- statfs --------------------------------------------------------------- */

static uint64_t rest(uint64_t limit, uint64_t used)
{
	return limit > used ? limit - used : 0;
}

/* What the quota leaves takes the disk's place, as far as the disk has it. */
static void space_of_quota(const struct env_limits *l,
			   const struct env_use *use, struct env_space *s)
{
	uint64_t disk = s->blocks_avail * s->block_size / ENV_BLOCK;

	if (l->bytes) {
		s->block_size = ENV_BLOCK;
		s->blocks = ALIGN_UP(l->bytes, ENV_BLOCK) / ENV_BLOCK;
		s->blocks_free = rest(l->bytes, use->bytes) / ENV_BLOCK;
		s->blocks_avail = MIN(s->blocks_free, disk);
	}
	if (l->inodes) {
		s->inodes = l->inodes;
		s->inodes_free = rest(l->inodes, use->inodes);
	}
}

int env_statfs(struct env *e, struct env_space *ret_space)
{
	struct space disk;
	struct statvfs v;
	int r;

	if (fstatvfs(e->dirfd < 0 ? store_fd(e->store) : e->dirfd, &v) < 0)
		return -errno;
	r = space_read(e->store, &disk);
	if (r < 0)
		return r;
	*ret_space = (struct env_space){
		.block_size = v.f_frsize,
		.blocks = v.f_blocks,
		.blocks_free = v.f_bfree,
		.blocks_avail = rest(disk.free, disk.reserve) / v.f_frsize,
		.inodes = FORMAT_MAX_INODE,
		.inodes_free = FORMAT_MAX_INODE,
	};
	mutex_lock(&e->lock);
	ret_space->inodes_free -= e->next_ino;
	space_of_quota(&e->info.limits, &e->use, ret_space);
	mutex_unlock(&e->lock);
	return 0;
}
