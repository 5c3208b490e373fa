/* SPDX-License-Identifier: MIT */
/*
 * link_int.h - the server's end of the socket to its keeper.
 *
 * Contract
 *   Ownership   link_new takes the socket; the caller gets descriptors
 *   Threads     any; each call waits for its own reply only
 *   Errors      -ETIMEDOUT; -ECONNRESET: the keeper is gone
 */
#ifndef COWFS_SERVE_LINK_INT_H
#define COWFS_SERVE_LINK_INT_H

#include "serve/keeper_int.h"

struct link;

/* lost is called once, from the link's thread, when the keeper has died. */
_must_check_ int link_new(int sock, void (*lost)(void *ctx), void *ctx,
			  struct link **ret_link);
void link_free(struct link *l);

/* Sends a request (its id is set here) and waits for the reply; the result is
 * the reply's. ret_fd may be NULL when no descriptor is expected. */
_must_check_ int link_call(struct link *l, struct keeper_request *q,
			   struct keeper_reply *ret_reply, int *ret_fd);
/* Tells the keeper that the connection of a mount has ended. */
void link_forget(struct link *l, uint32_t mount);

#endif
