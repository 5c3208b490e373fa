/* SPDX-License-Identifier: MIT */
/*
 * null_tree.c - the tree in memory that null_fuse serves.
 *
 * All names are in one hash table by (directory, name). A directory also has
 * an array of its entries in the order of their making, for readdir: an index
 * is a stable cookie, and reading goes on from one without a search. A slot
 * is used again only when the directory has become empty, which costs 8 bytes
 * for each name ever made; nothing a measurement would see.
 *
 * Files grow by half their size at least, so appends are cheap. Bytes past
 * `have` are not stored: sparse ends cost nothing, holes inside cost memory.
 */
#include "null_tree.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_MAX	 (UINT64_C(1) << 32)
#define BUCKETS_AT_FIRST (1U << 16)

static struct {
	struct inode *root;
	struct entry **buckets;
	size_t buckets_mask;
	size_t entries;
	ino_t last_ino;
} tree;

/* ---- inodes ---- */

void inode_touch(struct inode *inode, enum touch what)
{
	clock_gettime(CLOCK_REALTIME, &inode->st.st_ctim);
	if (what == TOUCH_MTIME)
		inode->st.st_mtim = inode->st.st_ctim;
}

static struct inode *inode_new(const struct stat *st)
{
	struct inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->st = *st;
	inode->st.st_ino = ++tree.last_ino;
	inode->st.st_nlink = S_ISDIR(st->st_mode) ? 2 : 1;
	inode->st.st_blksize = 4096;
	inode_touch(inode, TOUCH_MTIME);
	inode->st.st_atim = inode->st.st_mtim;
	return inode;
}

static void inode_put(struct inode *inode)
{
	if (inode->st.st_nlink > 0 || inode->lookups > 0)
		return;
	free(inode->data);
	free(inode->slots);
	free(inode);
}

void inode_forget(struct inode *inode, uint64_t n)
{
	if (inode == tree.root)
		return;
	assert(inode->lookups >= n);
	inode->lookups -= n;
	inode_put(inode);
}

/* Takes away one name's worth of links. */
static void inode_unlinked(struct inode *inode)
{
	if (S_ISDIR(inode->st.st_mode))
		inode->st.st_nlink = 0;
	else
		inode->st.st_nlink--;
	inode_touch(inode, TOUCH_CTIME);
	inode_put(inode);
}

/* ---- data ---- */

static int reserve(struct inode *inode, size_t bytes)
{
	size_t room = inode->room + inode->room / 2;
	char *data;

	if (bytes <= inode->room)
		return 0;
	if (bytes > FILE_MAX)
		return -EFBIG;
	if (room < bytes)
		room = bytes;
	data = realloc(inode->data, room);
	if (!data)
		return -ENOSPC;
	inode->data = data;
	inode->room = room;
	return 0;
}

static void set_have(struct inode *inode, size_t have)
{
	inode->have = have;
	inode->st.st_blocks = (blkcnt_t)((have + 511) / 512);
}

int inode_write(struct inode *inode, const char *src, size_t len, size_t off)
{
	size_t end = off + len;
	int r = off > FILE_MAX ? -EFBIG : reserve(inode, end);

	if (r < 0)
		return r;
	if (off > inode->have)
		memset(inode->data + inode->have, 0, off - inode->have);
	memcpy(inode->data + off, src, len);
	if (end > inode->have)
		set_have(inode, end);
	if (inode->st.st_size < (off_t)end)
		inode->st.st_size = (off_t)end;
	return 0;
}

size_t inode_read(const struct inode *inode, size_t off, size_t len, char *buf,
		  const char **ret_data)
{
	size_t size = (size_t)inode->st.st_size;
	size_t left = off < size ? size - off : 0;
	size_t have = off < inode->have ? inode->have - off : 0;

	if (len > left)
		len = left;
	*ret_data = buf;
	if (len == 0)
		return 0;
	if (have >= len) {
		*ret_data = inode->data + off;
		return len;
	}
	if (have > 0)
		memcpy(buf, inode->data + off, have);
	memset(buf + have, 0, len - have);
	return len;
}

void inode_resize(struct inode *inode, off_t size)
{
	inode->st.st_size = size;
	if ((uint64_t)size < inode->have)
		set_have(inode, (size_t)size);
}

void inode_zero(struct inode *inode, size_t off, size_t len)
{
	size_t left = off < inode->have ? inode->have - off : 0;

	if (left > 0)
		memset(inode->data + off, 0, len < left ? len : left);
}

/* ---- names ---- */

/* FNV's step over the name, begun from the directory's number. */
static uint32_t hash_of(const struct inode *dir, const char *name)
{
	uint64_t h = dir->st.st_ino * UINT64_C(0x9e3779b97f4a7c15);

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 32);
}

struct entry *tree_find(const struct inode *dir, const char *name)
{
	uint32_t hash = hash_of(dir, name);
	struct entry *e = tree.buckets[hash & tree.buckets_mask];

	while (e &&
	       (e->hash != hash || e->dir != dir || strcmp(e->name, name) != 0))
		e = e->next;
	return e;
}

static int buckets_grow(void)
{
	size_t old = tree.buckets ? tree.buckets_mask + 1 : 0;
	size_t n = old ? 2 * old : BUCKETS_AT_FIRST;
	struct entry **buckets = calloc(n, sizeof(struct entry *));

	if (!buckets)
		return -ENOMEM;
	for (size_t i = 0; i < old; i++) {
		while (tree.buckets[i]) {
			struct entry *e = tree.buckets[i];

			tree.buckets[i] = e->next;
			e->next = buckets[e->hash & (n - 1)];
			buckets[e->hash & (n - 1)] = e;
		}
	}
	free(tree.buckets);
	tree.buckets = buckets;
	tree.buckets_mask = n - 1;
	return 0;
}

static int slots_reserve(struct inode *dir)
{
	size_t room = dir->slots_room ? 2 * dir->slots_room : 8;
	struct entry **slots;

	if (dir->slots_used < dir->slots_room)
		return 0;
	slots = realloc(dir->slots, room * sizeof(struct entry *));
	if (!slots)
		return -ENOMEM;
	dir->slots = slots;
	dir->slots_room = room;
	return 0;
}

/* Makes the name stand for another inode. Directories count children. */
static void entry_bind(struct entry *e, struct inode *inode)
{
	if (e->inode && S_ISDIR(e->inode->st.st_mode))
		e->dir->st.st_nlink--;
	e->inode = inode;
	if (S_ISDIR(inode->st.st_mode)) {
		e->dir->st.st_nlink++;
		inode->parent = e->dir;
	}
	inode_touch(inode, TOUCH_CTIME);
	inode_touch(e->dir, TOUCH_MTIME);
}

static int entry_add(struct inode *dir, const char *name, struct inode *inode)
{
	size_t len = strlen(name);
	struct entry **bucket;
	struct entry *e;

	if (len > TREE_NAME_MAX)
		return -ENAMETOOLONG;
	if (slots_reserve(dir) < 0 ||
	    (tree.entries > tree.buckets_mask && buckets_grow() < 0))
		return -ENOMEM;
	e = malloc(sizeof(*e) + len + 1);
	if (!e)
		return -ENOMEM;
	e->inode = NULL;
	e->dir = dir;
	e->hash = hash_of(dir, name);
	memcpy(e->name, name, len + 1);
	bucket = &tree.buckets[e->hash & tree.buckets_mask];
	e->next = *bucket;
	*bucket = e;
	e->slot = dir->slots_used++;
	dir->slots[e->slot] = e;
	dir->children++;
	tree.entries++;
	entry_bind(e, inode);
	return 0;
}

/* Forgets the name only; the inode's own links are the caller's. */
static void entry_remove(struct entry *e)
{
	struct entry **at = &tree.buckets[e->hash & tree.buckets_mask];
	struct inode *dir = e->dir;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	dir->slots[e->slot] = NULL;
	if (--dir->children == 0)
		dir->slots_used = 0;
	if (S_ISDIR(e->inode->st.st_mode))
		dir->st.st_nlink--;
	inode_touch(dir, TOUCH_MTIME);
	tree.entries--;
	free(e);
}

int tree_make(struct inode *dir, const char *name, const struct stat *st,
	      struct inode **ret_inode)
{
	struct inode *inode;
	int r;

	if (tree_find(dir, name))
		return -EEXIST;
	inode = inode_new(st);
	if (!inode)
		return -ENOMEM;
	r = entry_add(dir, name, inode);
	if (r < 0) {
		free(inode);
		return r;
	}
	*ret_inode = inode;
	return 0;
}

int tree_link(struct inode *dir, const char *name, struct inode *inode)
{
	int r = tree_find(dir, name) ? -EEXIST : entry_add(dir, name, inode);

	if (r == 0)
		inode->st.st_nlink++;
	return r;
}

int tree_unlink(struct inode *dir, const char *name)
{
	struct entry *e = tree_find(dir, name);
	struct inode *inode;

	if (!e)
		return -ENOENT;
	inode = e->inode;
	if (inode->children > 0)
		return -ENOTEMPTY;
	entry_remove(e);
	inode_unlinked(inode);
	return 0;
}

/* The new name keeps its entry, so there is no moment without it. */
static int rename_over(struct entry *from, struct entry *to)
{
	struct inode *victim = to->inode;

	if (victim == from->inode)
		return 0;
	if (victim->children > 0)
		return -ENOTEMPTY;
	entry_bind(to, from->inode);
	entry_remove(from);
	inode_unlinked(victim);
	return 0;
}

int tree_rename(struct inode *dir, const char *name, struct inode *newdir,
		const char *newname, unsigned int flags)
{
	struct entry *from = tree_find(dir, name);
	struct entry *to = tree_find(newdir, newname);
	int r;

	if (flags & ~(unsigned int)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (!from || (!to && flags & RENAME_EXCHANGE))
		return -ENOENT;
	if (flags & RENAME_EXCHANGE) {
		struct inode *inode = from->inode;

		entry_bind(from, to->inode);
		entry_bind(to, inode);
		return 0;
	}
	if (to)
		return flags & RENAME_NOREPLACE ? -EEXIST
						: rename_over(from, to);
	r = entry_add(newdir, newname, from->inode);
	if (r == 0)
		entry_remove(from);
	return r;
}

struct inode *tree_new(void)
{
	struct stat st = {.st_mode = S_IFDIR | 0755};

	if (buckets_grow() < 0)
		return NULL;
	tree.root = inode_new(&st);
	return tree.root;
}
