/* SPDX-License-Identifier: MIT */
/*
 * snap.h - a snapshot: a root directory's attributes, its tree, its hard links.
 *
 * The name of this object is the snapshot's id. It is a function of the tree
 * alone; time, source and message of an import live beside it in the index.
 *
 * Contract
 *   Ownership   plain values
 *   Threads     any
 *   Errors      -EFSCORRUPTED from snap_decode
 */
#ifndef COWFS_OBJECT_SNAP_H
#define COWFS_OBJECT_SNAP_H

#include "base/buf.h"
#include "object/oid.h"

struct snap {
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint32_t subdirs; /* of the root */
	uint64_t total;	  /* inodes below the root */
	struct oid tree;
	struct oid xattrs; /* of the root; may be null */
	struct oid links;  /* may be null */
};

void snap_encode(const struct snap *s, struct buf *out);
_must_check_ int snap_decode(const void *data, size_t len,
			     struct snap *ret_snap);

#endif
