/* SPDX-License-Identifier: MIT */
/*
 * tend_int.h - what open environments need done now and then.
 *
 * One thread commits what changed some seconds ago, gives freed room back and
 * compacts journals (env_tend). It sleeps while nothing changes.
 *
 * Contract
 *   Ownership   environments are lent from tend_add until tend_remove returns
 *   Threads     any
 */
#ifndef COWFS_SERVE_TEND_INT_H
#define COWFS_SERVE_TEND_INT_H

#include "base/attr.h"

struct env;
struct tend;

_must_check_ int tend_new(struct tend **ret_tend);
/* Nothing is lent any more. NULL is allowed. */
void tend_free(struct tend *t);

_must_check_ int tend_add(struct tend *t, struct env *e);
/* Waits while it is being worked on. One that was not added is no error. */
void tend_remove(struct tend *t, struct env *e);

#endif
