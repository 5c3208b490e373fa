/* SPDX-License-Identifier: MIT */
/*
 * hmap.h - an intrusive hash map with chaining.
 *
 * Nodes live inside the caller's structs; the map owns only its slot array.
 * A zeroed struct is an empty map. Growth that fails for want of memory only
 * makes chains longer; the very first insertion can fail.
 *
 * Contract
 *   Ownership   the caller owns the nodes; hmap_fini frees the slots only
 *   Threads     caller serialises
 *   Errors      -ENOMEM
 */
#ifndef COWFS_BASE_HMAP_H
#define COWFS_BASE_HMAP_H

#include "base/attr.h"

#include <stdint.h>

struct hnode {
	struct hnode *next;
	uint64_t hash;
};

struct hmap {
	struct hnode **slots;
	size_t mask; /* slots - 1; slots are a power of two */
	size_t count;
};

/* Frees the slots; the map is empty and usable again. */
void hmap_fini(struct hmap *m);
_must_check_ int hmap_insert(struct hmap *m, struct hnode *n, uint64_t hash);
/* Removes a node that is in the map. */
void hmap_remove(struct hmap *m, struct hnode *n);
/* Iterates over nodes with an equal hash: first, then next until NULL. */
struct hnode *hmap_first(const struct hmap *m, uint64_t hash);
struct hnode *hmap_next(const struct hnode *n);
/* Iterates over all nodes in no order; the current one may be removed. Pass
 * a zeroed cursor. */
struct hmap_cursor {
	size_t slot;
	struct hnode *next;
};
struct hnode *hmap_each(const struct hmap *m, struct hmap_cursor *c);

/* Hashes of a number and of bytes; the seed differs in every process, so that
 * nobody can prepare names that collide. */
uint64_t hmap_hash_u64(uint64_t v);
uint64_t hmap_hash_bytes(const void *data, size_t len, uint64_t mix);

#endif
