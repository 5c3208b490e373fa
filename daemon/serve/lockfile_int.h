/* SPDX-License-Identifier: MIT */
/*
 * lockfile_int.h - one server per store.
 *
 * The lock belongs to an open file that keeper and server share, so it is free
 * only when both have ended.
 *
 * Contract
 *   Ownership   the caller closes the descriptor; the last copy unlocks
 *   Threads     any
 *   Errors      -EBUSY: another holds it
 */
#ifndef COWFS_SERVE_LOCKFILE_INT_H
#define COWFS_SERVE_LOCKFILE_INT_H

#include "base/attr.h"

/* Takes STORE/server.lock without waiting. */
_must_check_ int lockfile_take(const char *store, int *ret_fd);

#endif
