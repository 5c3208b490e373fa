/* SPDX-License-Identifier: MIT */
/*
 * tar_int.h - what the parts of an import of an archive share.
 *
 * tar_stream.c hands out the entries of an archive, import_tar.c takes one
 * after the other, tar_content.c and tar_xattrs.c store what an entry holds,
 * and tar_tree.c keeps the tree until the end of the archive: a directory can
 * be stored only when nothing more can come into it.
 *
 * Contract
 *   Ownership   a tree owns its nodes and inodes, a stream what it has open
 *   Durability  none before import_tar commits
 *   Threads     one
 *   Errors      negative errno; the message is in diag already
 */
#ifndef COWFS_EXCHANGE_TAR_INT_H
#define COWFS_EXCHANGE_TAR_INT_H

#include "exchange/import_int.h"

#include <archive.h>
#include <archive_entry.h>

/* --- the archive (tar_stream.c) ------------------------------------------ */

enum { TAR_BLOCK = 512 };

struct tar_stream {
	int fd;
	uint8_t *in;	       /* bytes of the file */
	struct archive *plain; /* takes compression away */
	struct archive *tar;
	uint64_t given;	      /* bytes before the piece that tar has */
	const uint8_t *piece; /* lent by plain */
	size_t piece_len;
	uint8_t tail[TAR_BLOCK]; /* the last bytes before the piece */
	int err;		 /* of reading the file */
};

_must_check_ int tar_stream_open(struct tar_stream *s, int fd,
				 struct diag *diag);
void tar_stream_close(struct tar_stream *s);
/* Reads the next entry, which lives until the next call: 1, or 0 at the end. */
_must_check_ int tar_stream_next(struct tar_stream *s, struct diag *diag,
				 struct archive_entry **ret_entry);
/* Says why the last call of libarchive failed; returns the error. */
int tar_stream_fail(const struct tar_stream *s, struct diag *diag,
		    const char *what);

/* --- the tree (tar_tree.c) ----------------------------------------------- */

/* What one or several names stand for. */
struct tar_inode {
	uint32_t names;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t mtime_nsec;
	int64_t mtime_sec;
	uint64_t size;
	uint64_t rdev;
	uint64_t first; /* position of its first name; set at the end */
	struct oid content;
	struct oid xattrs;
	char *target;
};

struct tar_node {
	struct hnode node; /* by parent and name */
	struct tar_node *parent;
	struct tar_node *next;	/* of the same directory */
	struct tar_node *first; /* of a directory */
	struct tar_inode *inode;
	uint8_t name_len;
	char name[];
};

struct tar_tree {
	struct hmap names;
	struct tar_node *root;
	uint64_t count; /* nodes */
	uint64_t max;
};

_must_check_ int tar_tree_init(struct tar_tree *t, uint64_t max);
void tar_tree_fini(struct tar_tree *t);
/* Finds a path of an archive as it is written there. Without `make`, -ENOENT;
 * with it, the name and the directories above are made, the name without an
 * inode. -ENOTDIR: below a file; -ELOOP: below a symbolic link; -EINVAL: with
 * ".."; -ENAMETOOLONG; -EMFILE: more than max. */
_must_check_ int tar_tree_at(struct tar_tree *t, const char *path, bool make,
			     struct tar_node **ret_node);
/* Gives a name an inode; the old one goes when it was its last name.
 * -ENOTEMPTY: something else would replace a directory with names in it. */
_must_check_ int tar_tree_set(struct tar_node *n, struct tar_inode *inode);
void tar_inode_unref(struct tar_inode *i);
/* Stores all trees and the table of hard links. */
_must_check_ int tar_tree_put(struct importer *imp, struct tar_tree *t,
			      struct tree_entry *ret_root,
			      struct oid *ret_links);

/* --- what an entry holds ------------------------------------------------- */

/* Reads the content of the entry at hand; size is what its header says. */
_must_check_ int tar_content(struct importer *imp, struct tar_stream *s,
			     uint64_t size, struct oid *ret_content);
/* Stores its extended attributes, with ACLs; the mode becomes what its ACL
 * says. */
_must_check_ int tar_xattrs(struct importer *imp, struct archive_entry *e,
			    struct import_left *odd, struct tar_inode *i);
/* Appends an ACL of the entry in the form of the kernel's attribute; nothing
 * when there is none. type: ARCHIVE_ENTRY_ACL_TYPE_ACCESS or _DEFAULT. */
_must_check_ int tar_acl_get(struct archive_entry *e, int type,
			     struct buf *out);
/* The mode that goes with such an attribute, as the kernel sets it. */
uint32_t tar_acl_mode(const void *value, size_t len, uint32_t mode);
/* Says whether a value is such an attribute. */
bool tar_acl_is_sound(const void *value, size_t len);

#endif
