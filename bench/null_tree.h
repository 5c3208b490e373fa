/* SPDX-License-Identifier: MIT */
/*
 * null_tree.h - the tree in memory that null_fuse serves.
 *
 * As little work as a tree can be: one hash look-up for a name, a file is one
 * block of memory. Nothing is durable and nothing is checked that the kernel
 * has checked before it asks (kinds, permissions, loops of a rename).
 *
 * Contract
 *   Ownership   the tree owns inodes and entries; an inode lives while it has
 *               a name or the kernel holds references (inode->lookups)
 *   Durability  none
 *   Threads     one
 *   Errors      negative errno
 */
#ifndef COWFS_BENCH_NULL_TREE_H
#define COWFS_BENCH_NULL_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define TREE_NAME_MAX 255

enum touch { TOUCH_CTIME, TOUCH_MTIME };

struct entry {
	struct entry *next; /* in its bucket */
	struct inode *dir;
	struct inode *inode;
	size_t slot; /* in dir->slots */
	uint32_t hash;
	char name[];
};

struct inode {
	struct stat st;
	uint64_t lookups; /* references that the kernel holds */

	/* Files: the first `have` bytes, zeros follow. Symlinks: target. */
	char *data;
	size_t have;
	size_t room;

	/* Directories. A cookie is a slot, so a slot is never moved. */
	struct inode *parent;
	struct entry **slots;
	size_t slots_used;
	size_t slots_room;
	size_t children;
};

/* Makes the empty tree; returns its root, or NULL without memory. */
struct inode *tree_new(void);

/* Returns the entry of a name, or NULL. */
struct entry *tree_find(const struct inode *dir, const char *name);

/* Makes an inode with a name; mode includes the kind. */
int tree_make(struct inode *dir, const char *name, const struct stat *st,
	      struct inode **ret_inode);

/* Gives an inode one name more. */
int tree_link(struct inode *dir, const char *name, struct inode *inode);

/* Takes a name away, of a file or of an empty directory. */
int tree_unlink(struct inode *dir, const char *name);

/* Renames; flags as renameat2(2), but no RENAME_WHITEOUT. */
int tree_rename(struct inode *dir, const char *name, struct inode *newdir,
		const char *newname, unsigned int flags);

/* Drops references of the kernel; the last one may free the inode. */
void inode_forget(struct inode *inode, uint64_t n);

/* Sets ctime to now, and mtime too with TOUCH_MTIME. */
void inode_touch(struct inode *inode, enum touch what);

int inode_write(struct inode *inode, const char *src, size_t len, size_t off);
void inode_resize(struct inode *inode, off_t size);
void inode_zero(struct inode *inode, size_t off, size_t len);

/*
 * Finds the bytes at an offset: in place where they are stored, else put
 * together in `buf` of `len` bytes. Returns the number, 0 at the end.
 */
size_t inode_read(const struct inode *inode, size_t off, size_t len, char *buf,
		  const char **ret_data);

#endif
