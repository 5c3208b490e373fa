/* SPDX-License-Identifier: MIT */
/*
 * space_int.h - whether a writer may go on.
 *
 * Contract
 *   Ownership   a struct room belongs to its batch; zeroed: nothing known
 *   Threads     caller serialises
 *   Errors      -ENOSPC: only what environments need is left on the disk;
 *               -EDQUOT: the store has reached its limit
 */
#ifndef COWFS_STORE_SPACE_INT_H
#define COWFS_STORE_SPACE_INT_H

#include "store/store.h"

struct room {
	uint64_t bytes; /* may be appended before the next question */
	uint64_t used;	/* by the store, when it was counted last */
	uint64_t since; /* bytes appended since then */
	uint64_t limit; /* of the store; 0: none */
	bool known;
	bool urgent; /* only the reserve of the disk stops it */
};

/* Takes n bytes of the room, asking for more where needed. */
_must_check_ int space_check_int(struct store *s, struct room *room,
				 uint64_t n);

#endif
