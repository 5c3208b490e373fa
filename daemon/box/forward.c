/* SPDX-License-Identifier: MIT */
/*
 * forward.c - published ports of a sandbox with a network of its own.
 *
 * How: sockets of the host listen, at the environment's address and as files
 * that only the store's owner gets to. They are made before the relay starts,
 * so that whoever starts it can say what is taken. A connection goes on to the
 * same port of the sandbox's loopback; where nobody listens it is reset, as one
 * to a port of the host would be.
 */
#include "box/relay_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/io.h"
#include "box/ports.h"

enum { CONNECT_MS = 10000, NAME_BYTES = 16 };

/* --- listening ----------------------------------------------------------- */

static void file_name(uint16_t port, char ret_name[NAME_BYTES])
{
	(void)snprintf(ret_name, NAME_BYTES, "%u.sock", port);
}

/* A path below the folder may be too long for a socket's name. */
static int listen_file(int run, uint16_t port)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char name[NAME_BYTES];
	mode_t mask;
	int r;

	if (fd < 0)
		return -errno;
	file_name(port, name);
	(void)snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s",
		       run, name);
	if (unlinkat(run, name, 0) < 0 && errno != ENOENT)
		return -errno;
	mask = umask(077);
	r = bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r == 0 && listen(fd, SOMAXCONN) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

static int listen_at(uint32_t address, uint16_t port)
{
	_cleanup_close_ int fd = box_port_bind(address, port);

	if (fd < 0)
		return fd;
	return listen(fd, SOMAXCONN) < 0 ? -errno : TAKE_FD(fd);
}

static int fail(const struct box_spec *spec, uint16_t port, int err,
		struct diag *diag)
{
	char text[BOX_ADDRESS_BYTES];

	box_address_text(spec->address, text);
	if (err != -EADDRINUSE)
		return diag_fail(diag, err, "port %u: cannot be published: %s",
				 port, err_text(err));
	(void)diag_fail(diag, err, "port %u: %s:%u is taken on this machine",
			port, text, port);
	return diag_fail(diag, err,
			 "umount --keep, then mount: it gets another address");
}

static int add(struct forward *f, uint16_t port, int fd)
{
	if (fd < 0)
		return fd;
	f->v[f->count].port = port;
	f->v[f->count++].fd = fd;
	return 0;
}

static int open_run(int folder)
{
	int fd;

	if (mkdirat(folder, BOX_RUN, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(folder, BOX_RUN,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int forward_listen(const struct box_spec *spec, int folder, struct diag *diag,
		   struct forward *f)
{
	_cleanup_close_ int run = spec->port_count ? open_run(folder) : -1;
	int r = 0;

	*f = (struct forward){0};
	if (spec->port_count && run < 0)
		return run;
	for (size_t i = 0; i < spec->port_count && r == 0; i++) {
		const uint16_t port = spec->ports[i];

		r = add(f, port, listen_at(spec->address, port));
		if (r == 0)
			r = add(f, port, listen_file(run, port));
		if (r < 0)
			r = fail(spec, port, r, diag);
	}
	if (r < 0)
		forward_close(f);
	return r;
}

void forward_close(struct forward *f)
{
	for (size_t i = 0; i < f->count; i++)
		(void)close(f->v[i].fd);
	f->count = 0;
}

void forward_remove(int run, const struct forward *f)
{
	char name[NAME_BYTES];

	for (size_t i = 0; i < f->count; i++) {
		file_name(f->v[i].port, name);
		(void)unlinkat(run, name, 0);
	}
}

/* --- a connection -------------------------------------------------------- */

static int connect_to(int socket, const struct sockaddr *at, socklen_t len)
{
	_cleanup_close_ int fd = socket;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t err_len = sizeof(int);
	int err = 0;

	if (fd < 0)
		return fd;
	if (connect(fd, at, len) < 0 && errno != EINPROGRESS)
		return -errno;
	if (poll(&p, 1, CONNECT_MS) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) < 0)
		return -errno;
	return err ? -err : TAKE_FD(fd);
}

/* Servers that are told "localhost" may listen at either. */
static int connect_inside(uint16_t port)
{
	const struct sockaddr_in four = {.sin_family = AF_INET,
					 .sin_port = htons(port),
					 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const struct sockaddr_in6 six = {.sin6_family = AF_INET6,
					 .sin6_port = htons(port),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = connect_to(inside_socket(INSIDE_V4),
			    (const struct sockaddr *)&four, sizeof four);

	return fd != -ECONNREFUSED
		       ? fd
		       : connect_to(inside_socket(INSIDE_V6),
				    (const struct sockaddr *)&six, sizeof six);
}

void forward_serve(int fd, uint16_t port)
{
	_cleanup_close_ int to = connect_inside(port);
	const int on = 1;

	if (to < 0) {
		pump_reset(fd);
		return;
	}
	/* Small messages are not to wait for each other. */
	(void)setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	pump(fd, to, -1);
}
