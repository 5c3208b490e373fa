/* SPDX-License-Identifier: MIT */
/*
 * relay_int.h - what the process beside a sandbox is made of.
 *
 * relay.c is the process; inside.c makes sockets in the sandbox's network;
 * forward.c serves connections to published ports, proxy.c those to the world;
 * pump.c passes bytes on.
 *
 * Contract
 *   Ownership   callers close descriptors
 *   Threads     any, unless it says otherwise
 */
#ifndef COWFS_BOX_RELAY_INT_H
#define COWFS_BOX_RELAY_INT_H

#include "box/box_int.h"

/* --- pump.c -------------------------------------------------------------- */

/* Passes bytes on in both directions until both have ended, one connection is
 * broken, or nothing has come for idle_ms (-1: for ever). */
void pump(int a, int b, int idle_ms);
/* Makes close(2) break a connection instead of ending it. */
void pump_reset(int fd);

/* --- inside.c ------------------------------------------------------------ */

enum inside_kind { INSIDE_PROXY, INSIDE_V4, INSIDE_V6 };

/* Starts the helper that makes sockets in a sandbox's network. One thread. */
_must_check_ int inside_start(int pidfd);
/* Returns a socket of it: the proxy's, which listens, or one to connect. */
_must_check_ int inside_socket(enum inside_kind kind);
/* The descriptor that says that the helper has ended. */
int inside_fd(void);
/* Ends it. */
void inside_end(void);

/* --- forward.c ----------------------------------------------------------- */

enum { FORWARD_MAX = 2 * BOX_PORTS_MAX };

/* Where the host reaches published ports. */
struct forward {
	size_t count;
	struct {
		uint16_t port;
		int fd; /* listens */
	} v[FORWARD_MAX];
};

/* Makes the sockets that listen: an address's and, in the folder `run` of a
 * sandbox's, a file's for each port. */
_must_check_ int forward_listen(const struct box_spec *spec, int folder,
				struct diag *diag, struct forward *ret);
void forward_close(struct forward *f);
/* Removes the files. */
void forward_remove(int run, const struct forward *f);
/* Serves one connection to its end. */
void forward_serve(int fd, uint16_t port);

#endif
