/* SPDX-License-Identifier: MIT */
/*
 * compose.h - several snapshots become one, each below a path of its own.
 *
 * Their trees are named, not read: the cost is that of the directories above
 * them, and of their hard links. The same parts give the same snapshot.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  the objects are on stable storage when compose returns 0; no
 *               record names the snapshot: it stays while the caller has the
 *               store pinned, and then for what stands on it
 *   Threads     any
 *   Errors      -EINVAL: a path, or one below another; those of reading
 */
#ifndef COWFS_EXCHANGE_COMPOSE_H
#define COWFS_EXCHANGE_COMPOSE_H

#include "store/store.h"

struct compose_part {
	const char *path; /* below the root; "a/b", nothing of it a dot */
	struct oid id;	  /* of a snapshot */
};

/* Sorts parts. Directories between them belong to root and have mode 0755. */
_must_check_ int compose(struct store *s, struct compose_part *parts,
			 size_t count, struct oid *ret_id);

#endif
