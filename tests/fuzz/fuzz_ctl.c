/* SPDX-License-Identifier: MIT */
/*
 * Both ends of the control protocol over a socket: the first byte says whether
 * the input is what a server sends to a client that has asked, or what a client
 * sends to the server. Neither may crash or wait for more when the other end
 * has closed.
 */
#include "fuzz_store.h"

#include "base/log.h"
#include "ctl/client.h"
#include "ctl/server.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct ctl_server *server;

static void stop(void)
{
	ctl_server_stop(server);
}

/* Looks at all that a handler may ask for, and answers with a row. */
static int handle(void *ctx, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done)
{
	_cleanup_msg_ struct msg row = {0};
	char text[64];
	size_t len = 0;

	for (unsigned tag = 0; tag < 32; tag++) {
		(void)msg_get(request, tag, 0, &len);
		(void)!msg_get_str(request, tag, text, sizeof text);
		(void)msg_get_u64(request, tag, 0);
	}
	msg_begin(&row, CTL_ROW);
	msg_put(&row, 1, "row", 3);
	return msg_send(peer->fd, &row, 1000);
}

static int on_row(void *ctx, const struct msg *row)
{
	FUZZ_CHECK(msg_verb(row) == CTL_ROW);
	return 0;
}

static void send_all(int fd, const uint8_t *data, size_t size)
{
	while (size > 0) {
		const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			break; /* the other end has had enough */
		data += n;
		size -= (size_t)n;
	}
	(void)shutdown(fd, SHUT_WR);
}

static void try_client(const uint8_t *data, size_t size)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int p[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) == 0);
	send_all(p[1], data, size);
	msg_begin(&request, CTL_STATUS);
	if (client_call(p[0], &request, on_row, NULL, &done) == 0)
		FUZZ_CHECK(msg_verb(&done) == CTL_DONE);
	(void)close(p[0]);
	(void)close(p[1]);
}

static void try_server(const uint8_t *data, size_t size)
{
	const struct timeval limit = {.tv_sec = 20};
	uint8_t answer[4096];
	ssize_t n;
	int fd;

	if (!server) {
		log_open(STDERR_FILENO, LOG_LEVEL_ERROR);
		FUZZ_CHECK(ctl_server_start(fuzz_store()->fd, handle, NULL,
					    &server) == 0);
		(void)atexit(stop);
	}
	FUZZ_CHECK(client_connect(fuzz_store_path(), &fd) == 0);
	FUZZ_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit,
			      sizeof limit) == 0);
	send_all(fd, data, size);
	while ((n = recv(fd, answer, sizeof answer, 0)) > 0)
		;
	FUZZ_CHECK(n == 0 || errno == ECONNRESET);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 1)
		try_client(data + 1, size - 1);
	else
		try_server(data + 1, size - 1);
	return 0;
}
