/* SPDX-License-Identifier: MIT */
/*
 * room.h - messages about a full disk and a full store.
 *
 * Contract
 *   Threads     any
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_ROOM_H
#define COWFS_CLI_ROOM_H

#include "cli/cmd.h"
#include "store/store.h"

/* Says why there was no room for what: err is -ENOSPC or -EDQUOT. */
int room_fail(const struct call *c, struct store *s, int err, const char *what);
/* Warns when the disk of the store is nearly full. */
void room_warn(const struct call *c, struct store *s);

#endif
