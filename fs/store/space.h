/* SPDX-License-Identifier: MIT */
/*
 * space.h - how much room the disk has, and what the store takes of it.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_STORE_SPACE_H
#define COWFS_STORE_SPACE_H

#include "store/store.h"

struct space {
	uint64_t total;	   /* bytes of the disk */
	uint64_t free;	   /* that the caller may still use */
	uint64_t reserve;  /* of them, kept for what deletes */
	uint64_t for_envs; /* kept from imports: as much again */
};

/* Bytes on disk. */
struct space_use {
	uint64_t segments;
	uint64_t index;
	uint64_t envs;
	uint64_t trash;
};

_must_check_ int space_read(struct store *s, struct space *ret_space);
/* Takes n bytes of the disk for an environment that grows. -ENOSPC: only the
 * reserve is left. */
_must_check_ int space_take(struct store *s, uint64_t n);
void space_count(struct store *s, struct space_use *ret_use);

#endif
