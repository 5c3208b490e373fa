/* SPDX-License-Identifier: MIT */
/*
 * list_int.h - the row that tells of an environment.
 *
 * Contract
 *   Ownership   as of messages
 *   Threads     any
 *   Errors      -ENOENT: it is gone; others: the row says "damaged"
 */
#ifndef COWFS_SERVE_LIST_INT_H
#define COWFS_SERVE_LIST_INT_H

#include "ctl/proto.h"
#include "serve/envs_int.h"

/* Adds what the store says of an environment, all its leases among it, and what
 * look does of its mount. info is filled. */
_must_check_ int list_put_row(struct store *s, const struct buf *leases,
			      const char *name, const struct envs_look *look,
			      struct env_info *info, struct msg *m);

#endif
