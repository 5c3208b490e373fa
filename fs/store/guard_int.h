/* SPDX-License-Identifier: MIT */
/*
 * guard_int.h - commits and repairs keep out of each other's way.
 *
 * Contract
 *   Ownership   descriptors are the caller's; closing one unlocks
 *   Threads     any
 */
#ifndef COWFS_STORE_GUARD_INT_H
#define COWFS_STORE_GUARD_INT_H

#include "base/attr.h"

#include <sys/types.h>

/* Which folder index/ was opened. */
struct guard {
	dev_t dev;
	ino_t ino;
};

_must_check_ int guard_look(int store_fd, struct guard *ret);
/* -ESTALE: another index is in that one's place. */
_must_check_ int guard_check(int store_fd, const struct guard *g);
/* Keeps repairs out; waits for one that is at work. -ESTALE as above. */
_must_check_ int guard_share(int store_fd, const struct guard *g, int *ret_fd);
/* Keeps commits out of STORE/name, an index. -EBUSY: one is being made. */
_must_check_ int guard_alone(int store_fd, const char *name, int *ret_fd);

#endif
