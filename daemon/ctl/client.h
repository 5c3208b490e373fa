/* SPDX-License-Identifier: MIT */
/*
 * client.h - the command's side of the control door.
 *
 * Contract
 *   Ownership   the caller closes the descriptor
 *   Threads     one caller per connection
 *   Errors      -ECONNREFUSED: no server runs; -EACCES: not yours; -EPERM:
 *               the server is another user's; -ETIMEDOUT
 */
#ifndef COWFS_CTL_CLIENT_H
#define COWFS_CTL_CLIENT_H

#include "ctl/proto.h"

/* Connects to STORE/ctl.sock; a path over 107 bytes goes through
 * /proc/self/fd. Never starts a server (serve.h does). */
_must_check_ int client_connect(const char *store, int *ret_fd);
/* Sends a request, hands each row to fn (may be NULL) and receives DONE into
 * ret_done. A callback's non-zero result ends the call and is returned; the
 * connection is then of no further use. */
typedef int (*client_row_fn)(void *ctx, const struct msg *row);
_must_check_ int client_call(int fd, const struct msg *request,
			     client_row_fn fn, void *ctx, struct msg *ret_done);

#endif
