/* SPDX-License-Identifier: MIT */
/*
 * serve.h - starting the server of a store, for the command line.
 *
 * A store has one server at most, and its keeper: a tiny parent that mounts,
 * holds the FUSE descriptors and outlives the server. STORE/server.lock is
 * held by both; STORE/server.log takes their messages.
 *
 * Contract
 *   Ownership   the caller closes the descriptor
 *   Threads     any; safe after store_open too, since the keeper is a new
 *               program (exec), not a fork that goes on
 *   Errors      -ECONNREFUSED and others: diag says what to do
 */
#ifndef COWFS_SERVE_SERVE_H
#define COWFS_SERVE_SERVE_H

#include "base/diag.h"

#include <stdbool.h>

struct msg;

/* What to say of a server that is another user's; takes the store's path. */
#define SERVE_FOREIGN                                                          \
	"a process of another user answers at %s/ctl.sock: end it, or remove " \
	"the socket"

/* Connects to the server of a store (absolute path), starting it when none
 * runs: executes this program again with the arguments
 *     --store STORE daemon keeper FD
 * fully detached (own session, cwd "/", no other inherited descriptor), and
 * waits until it answers or has failed (diag has its words). The store must
 * exist (store_open with STORE_CREATE makes it). */
_must_check_ int serve_connect(const char *store, struct diag *diag,
			       int *ret_fd);
/* Says whether a server, its keeper or a repair has the store. */
bool serve_is_held(const char *store);
/* Tells of each environment by a row as that of CTL_LIST, from the store alone:
 * for when no server runs. Opens and closes the store; a callback's non-zero
 * result ends it and is returned. */
typedef int (*serve_row_fn)(void *ctx, const struct msg *row);
_must_check_ int serve_list(const char *store, serve_row_fn fn, void *ctx,
			    struct diag *diag);
/* Waits until server and keeper of a store have ended; -ETIMEDOUT. */
_must_check_ int serve_wait_end(const char *store, unsigned timeout_ms);

/* Returns the version of the libfuse that is built in. */
const char *serve_libfuse(void);

/* Is the keeper: what the command line calls for the hidden arguments above,
 * before it starts threads or opens the store. Writes one line to ready_fd,
 * "ok" or what failed, and returns the exit code when server and keeper have
 * done their work. */
int serve_keeper_main(const char *store, int ready_fd);

#endif
