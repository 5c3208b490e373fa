/* SPDX-License-Identifier: MIT */
/*
 * ports.c - is a port of this machine free, and does nobody else give it away.
 *
 * How: bind(2) decides, as it will for whoever uses the port; what an earlier
 * server left behind is in nobody's way (SO_REUSEADDR). A port that was given
 * to an environment and is not used yet looks free to the server of another
 * store or user: each keeps an abstract socket by the name of what it has
 * given, and who cannot make that takes another port.
 */
#include "box/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/attr.h"
#include "base/io.h"

/* Whether all protocols are meant: then one that takes both. */
static socklen_t make_name(uint32_t address, uint16_t port, bool six,
			   struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *a6 = (void *)ret;
	struct sockaddr_in *a4 = (void *)ret;

	*ret = (struct sockaddr_storage){0};
	if (six) {
		*a6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
					    .sin6_port = htons(port)};
		return sizeof *a6;
	}
	*a4 = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_port = htons(port),
				   .sin_addr = {htonl(address)}};
	return sizeof *a4;
}

static int bind_one(uint32_t address, uint16_t port, bool six)
{
	struct sockaddr_storage name;
	const socklen_t len = make_name(address, port, six, &name);
	_cleanup_close_ int fd =
		socket(six ? AF_INET6 : AF_INET,
		       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1, off = 0;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
	    (six &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0) ||
	    bind(fd, (const struct sockaddr *)&name, len) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int box_port_bind(uint32_t address, uint16_t port)
{
	int fd = address ? -EAFNOSUPPORT : bind_one(0, port, true);

	/* Without the later protocol, the earlier one alone. */
	if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL || fd == -EINVAL)
		fd = bind_one(address, port, false);
	return fd;
}

int box_port_try(uint32_t address, uint16_t port)
{
	_cleanup_close_ int fd = box_port_bind(address, port);

	return fd < 0 ? fd : 0;
}

int box_port_claim(const char *what)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* The first byte stays 0. */
	const int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1,
			       "cowfs-lease/%s", what);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				       1 + (size_t)n)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

void box_address_text(uint32_t address, char ret_text[BOX_ADDRESS_BYTES])
{
	(void)snprintf(ret_text, BOX_ADDRESS_BYTES, "%u.%u.%u.%u",
		       address >> 24, address >> 16 & 255, address >> 8 & 255,
		       address & 255);
}
