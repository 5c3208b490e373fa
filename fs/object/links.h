/* SPDX-License-Identifier: MIT */
/*
 * links.h - the hard link table of a snapshot.
 *
 * Sorted preorder positions (root = 0) of names that share an inode, each with
 * the first position of its group and the group's size. A group has at least
 * two members; the first position's entry is the inode's number.
 *
 * Contract
 *   Ownership   a struct links borrows the encoded bytes
 *   Threads     any
 *   Errors      -EFSCORRUPTED and -ENOMEM from links_open
 */
#ifndef COWFS_OBJECT_LINKS_H
#define COWFS_OBJECT_LINKS_H

#include "base/buf.h"
#include "object/oid.h"

struct links_entry {
	uint64_t position;
	uint64_t first;
	uint32_t count; /* members of the group */
};

struct links {
	const uint8_t *data;
	uint64_t count;
};

_must_check_ int links_open(const void *data, size_t len,
			    struct links *ret_links);
void links_at(const struct links *l, uint64_t i, struct links_entry *ret_entry);
/* Finds the entry of a position; false when it has one name only. */
bool links_find(const struct links *l, uint64_t position,
		struct links_entry *ret_entry);
void links_begin(struct buf *out, uint64_t count);
void links_add(struct buf *out, const struct links_entry *e);

#endif
