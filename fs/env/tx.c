/* SPDX-License-Identifier: MIT */
/*
 * How: an operation composes its items in e->tx, behind room for the frame;
 * tx_commit (journal.c) frames and appends them and applies the same bytes that
 * a replay would read.
 */
#include "env/env_int.h"

#include <string.h>

static void put_time(struct buf *b, struct timespec t)
{
	buf_put_u64(b, (uint64_t)t.tv_sec);
	buf_put_u32(b, (uint32_t)t.tv_nsec);
}

void tx_begin(struct env *e)
{
	if (e->tx.failed || e->tx.cap > (1 << 20))
		buf_fini(&e->tx);
	buf_clear(&e->tx);
	e->journal.frees = false;
	e->grow = (struct env_use){0};
	/* room for the frame, filled by tx_commit */
	for (int i = 0; i < JOURNAL_FRAME_BYTES / 8; i++)
		buf_put_u64(&e->tx, 0);
}

void tx_frees(struct env *e)
{
	e->journal.frees = true;
}

void tx_inode(struct env *e, const struct iattr *a)
{
	struct buf *b = &e->tx;

	buf_put_u8(b, ITEM_INODE);
	buf_put_u64(b, a->ino);
	buf_put_u64(b, a->parent);
	buf_put_u64(b, a->rdev);
	buf_put_u64(b, a->size);
	buf_put_u32(b, a->mode);
	buf_put_u32(b, a->uid);
	buf_put_u32(b, a->gid);
	buf_put_u32(b, a->nlink);
	put_time(b, a->atime);
	put_time(b, a->mtime);
	put_time(b, a->ctime);
	put_time(b, a->btime);
}

void tx_times(struct env *e, uint64_t ino, uint64_t size, struct timespec t)
{
	buf_put_u8(&e->tx, ITEM_TIMES);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, size);
	put_time(&e->tx, t);
}

void tx_dent(struct env *e, uint64_t parent, const char *name, size_t len,
	     uint64_t ino, uint64_t cookie)
{
	buf_put_u8(&e->tx, ITEM_DENT);
	buf_put_u64(&e->tx, parent);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, cookie);
	buf_put_block(&e->tx, name, len);
}

void tx_gone(struct env *e, uint64_t parent, const char *name, size_t len)
{
	buf_put_u8(&e->tx, ITEM_GONE);
	buf_put_u64(&e->tx, parent);
	buf_put_block(&e->tx, name, len);
}

void tx_map(struct env *e, uint64_t ino, uint64_t fblock, uint64_t count,
	    uint64_t block)
{
	while (count) {
		uint64_t part = MIN(count, (uint64_t)TX_MAP_MOST);

		buf_put_u8(&e->tx, ITEM_MAP);
		buf_put_u64(&e->tx, ino);
		buf_put_u64(&e->tx, fblock);
		buf_put_u64(&e->tx, part);
		buf_put_u64(&e->tx, block);
		if (block >= BLOCK_FIRST)
			block += part;
		fblock += part;
		count -= part;
	}
}

void tx_cut(struct env *e, uint64_t ino, uint64_t size)
{
	buf_put_u8(&e->tx, ITEM_CUT);
	buf_put_u64(&e->tx, ino);
	buf_put_u64(&e->tx, size);
}

void tx_xattr(struct env *e, uint64_t ino, const char *name, const void *value,
	      size_t len)
{
	buf_put_u8(&e->tx, ITEM_XATTR);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, name, strlen(name));
	buf_put_block(&e->tx, value, len);
}

void tx_xgone(struct env *e, uint64_t ino, const char *name)
{
	buf_put_u8(&e->tx, ITEM_XGONE);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, name, strlen(name));
}

void tx_target(struct env *e, uint64_t ino, const char *target)
{
	buf_put_u8(&e->tx, ITEM_TARGET);
	buf_put_u64(&e->tx, ino);
	buf_put_block(&e->tx, target, strlen(target));
}

void tx_counters(struct env *e)
{
	buf_put_u8(&e->tx, ITEM_COUNTERS);
	buf_put_u64(&e->tx, e->next_ino);
	buf_put_u64(&e->tx, e->data.next_block);
}

void tx_cookie(struct env *e, uint64_t dir, uint64_t next)
{
	buf_put_u8(&e->tx, ITEM_COOKIE);
	buf_put_u64(&e->tx, dir);
	buf_put_u64(&e->tx, next);
}

void tx_opaque(struct env *e, uint64_t dir)
{
	buf_put_u8(&e->tx, ITEM_OPAQUE);
	buf_put_u64(&e->tx, dir);
}

void tx_covers(struct env *e, uint64_t uncovered, uint64_t unsynced, bool full)
{
	buf_put_u8(&e->tx, ITEM_COMMIT);
	buf_put_u64(&e->tx, uncovered);
	buf_put_u64(&e->tx, unsynced);
	buf_put_u8(&e->tx, full ? COMMIT_FULL : 0);
}

void tx_boot(struct env *e, const char *id)
{
	buf_put_u8(&e->tx, ITEM_BOOT);
	buf_put(&e->tx, id, BOOT_ID_BYTES);
	buf_put_u8(&e->tx, ITEM_EPOCH);
	buf_put_u64(&e->tx, 0);
}

void tx_data(struct env *e, uint64_t block, const uint8_t data[ENV_BLOCK])
{
	buf_put_u8(&e->tx, ITEM_DATA);
	buf_put_u64(&e->tx, block);
	buf_put(&e->tx, data, ENV_BLOCK);
}
