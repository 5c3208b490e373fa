/* SPDX-License-Identifier: MIT */
/*
 * ports.c - is a port of this machine free, and does nobody else give it away;
 * and does somebody listen there.
 *
 * How: bind(2) decides, as it will for whoever uses the port; what an earlier
 * server left behind is in nobody's way (SO_REUSEADDR). A port that was given
 * to an environment and is not used yet looks free to the server of another
 * store or user: each keeps an abstract socket by the name of what it has
 * given, and who cannot make that takes another port.
 *
 * Who listens the kernel's tables of a network say, which are read from
 * outside: a connection would reach the server, and one to a published port
 * its relay only.
 */
#include "box/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/attr.h"
#include "base/buf.h"
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

enum { TABLE_MAX = 64 << 20, LISTENS = 0x0a };

/* Whether an address, as the tables have it (words of the machine in the order
 * of the network), is any, the loopback's, or that in the other protocol. */
static bool is_local(const char *text)
{
	char lo[9], lo6[33], mapped[33], any_mapped[33];

	(void)snprintf(lo, sizeof lo, "%08X", htonl(INADDR_LOOPBACK));
	(void)snprintf(lo6, sizeof lo6, "%024d%08X", 0, htonl(1));
	(void)snprintf(mapped, sizeof mapped, "%016d%08X%s", 0, htonl(0xffff),
		       lo);
	(void)snprintf(any_mapped, sizeof any_mapped, "%016d%08X%08d", 0,
		       htonl(0xffff), 0);
	return strspn(text, "0") == strlen(text) || !strcmp(text, lo) ||
	       !strcmp(text, lo6) || !strcmp(text, mapped) ||
	       !strcmp(text, any_mapped);
}

/* A row of the tables, "N: ADDRESS:PORT ADDRESS:PORT STATE ..." in hex: whether
 * somebody listens there, and at which port. */
static bool read_row(char *row, uint16_t *ret_port)
{
	char *save = NULL, *local, *remote, *state, *colon;

	(void)strtok_r(row, " ", &save);
	local = strtok_r(NULL, " ", &save);
	remote = local ? strtok_r(NULL, " ", &save) : NULL;
	state = remote ? strtok_r(NULL, " ", &save) : NULL;
	colon = state ? strchr(local, ':') : NULL;
	if (!colon || strtoul(state, NULL, 16) != LISTENS)
		return false;
	*colon = 0;
	*ret_port = (uint16_t)strtoul(colon + 1, NULL, 16);
	return is_local(local);
}

static int read_table(const char *path, const uint16_t *ports, size_t count,
		      bool *served)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;
	int r = io_read_file(AT_FDCWD, path, TABLE_MAX, &text);

	/* A machine may be without the later protocol. */
	if (r == -ENOENT)
		return 0;
	if (r < 0 || !buf_str(&text))
		return r < 0 ? r : -ENOMEM;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		uint16_t port;

		if (!read_row(line, &port))
			continue;
		for (size_t i = 0; i < count; i++)
			served[i] |= ports[i] == port;
	}
	return 0;
}

int box_ports_served(pid_t pid, const uint16_t *ports, size_t count,
		     bool *ret_served)
{
	static const char *const names[] = {"tcp", "tcp6"};
	char who[16] = "self", path[40];
	int r = 0;

	memset(ret_served, 0, count * sizeof *ret_served);
	if (pid)
		(void)snprintf(who, sizeof who, "%d", (int)pid);
	for (size_t i = 0; i < ARRAY_SIZE(names) && !r; i++) {
		(void)snprintf(path, sizeof path, "/proc/%s/net/%s", who,
			       names[i]);
		r = read_table(path, ports, count, ret_served);
	}
	return r;
}

void box_address_text(uint32_t address, char ret_text[BOX_ADDRESS_BYTES])
{
	(void)snprintf(ret_text, BOX_ADDRESS_BYTES, "%u.%u.%u.%u",
		       address >> 24, address >> 16 & 255, address >> 8 & 255,
		       address & 255);
}
