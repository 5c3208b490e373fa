/* SPDX-License-Identifier: MIT */
/*
 * worker_int.h - the one background thread: jobs in order, nobody waits.
 *
 * Contract
 *   Ownership   worker_new/worker_free; a job owns what its ctx points to
 *   Threads     any
 */
#ifndef COWFS_SERVE_WORKER_INT_H
#define COWFS_SERVE_WORKER_INT_H

#include "base/attr.h"

struct worker;
typedef void (*worker_fn)(void *ctx, void *arg);

_must_check_ int worker_new(struct worker **ret_worker);
/* Does what is queued, then ends the thread. NULL allowed. */
void worker_free(struct worker *w);
/* Queues a job. -ENOMEM: it is still the caller's. */
_must_check_ int worker_add(struct worker *w, worker_fn fn, void *ctx,
			    void *arg);

#endif
