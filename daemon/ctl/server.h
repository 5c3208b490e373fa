/* SPDX-License-Identifier: MIT */
/*
 * server.h - the server's side of the control door.
 *
 * Listens on STORE/ctl.sock (mode 0600), accepts only its own user and
 * root (peer credentials), one thread per connection, bounded in number; a
 * client that is slow, silent or hostile loses its connection and blocks
 * nobody.
 *
 * Contract
 *   Ownership   ctl_server_start/ctl_server_stop
 *   Threads     handlers run in connection threads, several at once
 */
#ifndef COWFS_CTL_SERVER_H
#define COWFS_CTL_SERVER_H

#include "ctl/proto.h"

#include <sys/types.h>

struct ctl_server;

struct ctl_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	int fd;
};
/* Sends a row, within seconds. Errors as msg_send's. */
_must_check_ int ctl_send_row(const struct ctl_peer *peer,
			      const struct msg *row);

/* Answers one request: may send rows; fills done (already begun as CTL_DONE).
 * A non-zero result closes the connection. */
typedef int (*ctl_handler_fn)(void *ctx, const struct ctl_peer *peer,
			      const struct msg *request, struct msg *done);

_must_check_ int ctl_server_start(int store_fd, ctl_handler_fn fn, void *ctx,
				  struct ctl_server **ret_server);
/* Stops accepting, ends connections, joins threads, removes the socket. */
void ctl_server_stop(struct ctl_server *s);

#endif
