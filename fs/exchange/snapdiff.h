/* SPDX-License-Identifier: MIT */
/*
 * snapdiff.h - which paths differ between two snapshots.
 *
 * Equal subtrees have equal names and are not entered, so that the time is
 * proportional to the directories on the way to changes.
 *
 * Contract
 *   Ownership   a path is lent for the duration of the callback
 *   Threads     any
 *   Errors      those of the store; a negative result of the callback ends the
 *               walk and is returned
 */
#ifndef COWFS_EXCHANGE_SNAPDIFF_H
#define COWFS_EXCHANGE_SNAPDIFF_H

#include "store/store.h"

/* Calls back, in no certain order, for each path whose entry differs or stands
 * on one side alone, directories too; "" is the root. */
typedef int (*snapdiff_fn)(void *ctx, const char *path, size_t len);
_must_check_ int snapdiff_walk(struct store *s, const struct oid *old,
			       const struct oid *now, snapdiff_fn fn,
			       void *ctx);

#endif
