/* SPDX-License-Identifier: MIT */
/*
 * freeze_int.h - what the parts of a freeze share.
 *
 * freeze.c walks and encodes, freeze_file.c has the content of one file,
 * freeze_links.c who shares an inode, freeze_check.c compares afterwards.
 *
 * Contract
 *   Ownership   struct freeze owns what is in it
 *   Threads     needs the environment's lock
 */
#ifndef COWFS_ENV_FREEZE_INT_H
#define COWFS_ENV_FREEZE_INT_H

#include "env/env_int.h"
#include "env/freeze.h"

/* One name of an inode that may have several. */
struct freeze_member {
	uint64_t position; /* in the new snapshot; the root's is 0 */
	uint64_t key;	   /* the same for names of one inode */
	uint64_t first;
	uint32_t count;
};

struct freeze {
	struct env *e;
	struct batch *batch;
	const char **left; /* sorted */
	size_t left_count;
	struct hmap touched; /* directories whose tree is made anew */
	struct buf path;     /* of what is looked at */
	struct freeze_member *members;
	size_t member_count, member_cap;
	struct buf target;
	struct buf object;
	uint8_t *chunk;
	struct freeze_result *result;
};

/* A name of a directory now: an entry of the base's tree, or an inode. */
struct freeze_child {
	const char *name;
	size_t len;
	uint64_t ino; /* 0: entry i of the base's */
	uint32_t i;
};

struct freeze_list {
	struct freeze_child *v;
	size_t count, cap;
};

/* Lists a directory, sorted; old: its tree in the base, pinned, or NULL. Names
 * point into both. freeze_list_fini in any case. */
_must_check_ int freeze_list_fill(const struct names *names,
				  const struct object *old,
				  struct freeze_list *c);
void freeze_list_fini(struct freeze_list *c);

/* Says whether the tree of a directory is made anew. */
bool freeze_is_touched(const struct freeze *f, uint64_t dir);
/* Says whether the present path is left out. */
bool freeze_is_left(struct freeze *f);
/* Sets the path to a name in the directory that it is of now; returns what to
 * give to freeze_path_pop. */
size_t freeze_path_push(struct freeze *f, const char *name, size_t len);
void freeze_path_pop(struct freeze *f, size_t len);

/* Takes the paths to leave out; they are lent. */
_must_check_ int freeze_left_init(struct freeze *f, const struct buf *left);
/* Sets what an entry says of the directory that an old tree is of. */
_must_check_ int freeze_old_tree(struct freeze *f, const struct oid *tree,
				 struct tree_entry *t);
/* Sets the target of a symlink, from f->target. */
void freeze_set_target(struct freeze *f, struct tree_entry *t);
/* Finds what the base has at the present path: its entry and number. -ENOENT.
 * The entry's name is not set; its target lies in f->target. */
_must_check_ int freeze_base_entry(struct freeze *f,
				   struct tree_entry *ret_entry,
				   uint64_t *ret_ino);

/* Names the content of a regular file, storing what the store has not. */
_must_check_ int freeze_content(struct freeze *f, const struct iattr *a,
				struct oid *ret_content);
/* Says whether nothing of a changed inode's content is its own. */
bool freeze_is_old_content(const struct inode *in);
/* Says whether chunk i of a changed file is known without reading it: 1, and
 * its name, or 0. old: the manifest of the base's content, or NULL. */
int freeze_known_chunk(const struct inode *in, const struct manifest *old,
		       uint64_t i, struct oid *ret_chunk);

/* Notes a name. of_base: as the base has the inode, whatever became of it. */
_must_check_ int freeze_link(struct freeze *f, uint64_t position, uint64_t ino,
			     bool of_base);
/* Notes all names of the base's positions from first on that share inodes;
 * they stand from `to` on now. */
_must_check_ int freeze_link_range(struct freeze *f, uint64_t first,
				   uint64_t count, uint64_t to);
/* Stores the table; the null name when nothing is shared. */
_must_check_ int freeze_links_put(struct freeze *f, struct oid *ret_links);

/* Compares the snapshot with the environment. -EIO: they differ. */
_must_check_ int freeze_check(struct freeze *f, const struct oid *snapshot,
			      struct diag *diag);

#endif
