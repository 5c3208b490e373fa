/* SPDX-License-Identifier: MIT */
/*
 * How: a blocking connect with a send time limit (which is what bounds a
 * connect to a unix socket whose queue is full), then one request and its
 * answers. A socket that is not there and one where nobody listens mean the
 * same to a caller: no server runs.
 */
#include "ctl/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

enum {
	CONNECT_TIMEOUT_S = 5,
	SEND_TIMEOUT_MS = 10000,
	/* For each message of an answer: what is only looked up, and what
	 * waits for disks and processes. */
	LOOK_TIMEOUT_MS = 10000,
	WORK_TIMEOUT_MS = 60000,
	/* and what reads, writes and compares all that has changed */
	FREEZE_TIMEOUT_MS = 4 * 3600 * 1000,
};

#define SOCKET_NAME "ctl.sock"

/* Writes the address; a long path goes through an open directory, whose
 * descriptor must stay open until after the connect. */
static int address_of(const char *store, struct sockaddr_un *ret_address,
		      int *ret_dir)
{
	char *path = ret_address->sun_path;
	size_t size = sizeof ret_address->sun_path;
	int n;

	ret_address->sun_family = AF_UNIX;
	n = snprintf(path, size, "%s/" SOCKET_NAME, store);
	if (n >= 0 && (size_t)n < size)
		return 0;
	*ret_dir = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir < 0)
		return -errno;
	(void)snprintf(path, size, "/proc/self/fd/%d/" SOCKET_NAME, *ret_dir);
	return 0;
}

/* Whoever could put a socket there would be told paths, and believed. */
static int check_server(int fd)
{
	struct ucred server;
	socklen_t len = sizeof server;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &len) < 0)
		return -errno;
	return server.uid == geteuid() ? 0 : -EPERM;
}

int client_connect(const char *store, int *ret_fd)
{
	struct timeval limit = {.tv_sec = CONNECT_TIMEOUT_S};
	struct sockaddr_un address = {0};
	_cleanup_close_ int dir = -1;
	_cleanup_close_ int fd = -1;
	int r;

	r = address_of(store, &address, &dir);
	if (r < 0)
		return r == -ENOENT ? -ECONNREFUSED : r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0)
		return -errno;
	do
		r = connect(fd, (struct sockaddr *)&address, sizeof address);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno == ENOENT)
		return -ECONNREFUSED;
	if (r < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	r = check_server(fd);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static unsigned answer_timeout(const struct msg *request)
{
	switch (msg_verb(request)) {
	case CTL_STATUS:
	case CTL_LIST:
	case CTL_SHOW:
	case CTL_STOP:
		return LOOK_TIMEOUT_MS;
	case CTL_FREEZE:
	case CTL_SNAPSHOT:
		return FREEZE_TIMEOUT_MS;
	default:
		return WORK_TIMEOUT_MS;
	}
}

int client_call(int fd, const struct msg *request, client_row_fn fn, void *ctx,
		struct msg *ret_done)
{
	_cleanup_msg_ struct msg answer = {0};
	int r;

	r = msg_send(fd, request, SEND_TIMEOUT_MS);
	while (r == 0) {
		r = msg_recv(fd, &answer, answer_timeout(request));
		if (r == 0)
			r = msg_check(&answer);
		if (r < 0)
			return r;
		if (msg_verb(&answer) == CTL_DONE) {
			msg_fini(ret_done);
			*ret_done = answer;
			answer = (struct msg){0};
			return 0;
		}
		if (msg_verb(&answer) != CTL_ROW)
			return -EPROTO;
		r = fn ? fn(ctx, &answer) : 0;
	}
	return r;
}
