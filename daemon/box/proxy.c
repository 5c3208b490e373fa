/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - one connection of a sandbox to the world, by HTTP.
 *
 * How: a thread per connection reads the request's head, asks the rules, looks
 * the host up and connects, and then passes bytes on in both directions. It
 * knows CONNECT, for everything encrypted, and requests with a whole URL
 * ("GET http://host/path"), one for each connection.
 *
 * The host's own services are no part of the world: the addresses of its
 * loopback, of links (the metadata services of clouds are there) and of groups
 * are refused, whatever name leads to them. Asked after the name was looked
 * up, and the same address is then connected to. Only what the user allows by
 * host and port goes there.
 */
#include "box/relay_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/io.h"

enum {
	HEAD_MAX = 16384,
	HEAD_MS = 30000,
	CONNECT_MS = 20000,
	IDLE_MS = 15 * 60 * 1000,
	NS_PER_MS = 1000000,
};

/* --- rules --------------------------------------------------------------- */

static bool is_own_v4(uint32_t a)
{
	return a >> 24 == 0 || a >> 24 == 127 || a >> 16 == 0xa9fe ||
	       a >> 28 >= 0xe;
}

bool proxy_is_refused(const struct sockaddr *at)
{
	const struct in6_addr *six;
	uint32_t four;

	if (at->sa_family == AF_INET)
		return is_own_v4(
			ntohl(((const struct sockaddr_in *)(const void *)at)
				      ->sin_addr.s_addr));
	if (at->sa_family != AF_INET6)
		return true;
	six = &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;
	memcpy(&four, six->s6_addr + 12, sizeof four);
	/* ::1 is 0.0.0.1 so. */
	if (IN6_IS_ADDR_V4MAPPED(six) ||
	    !memcmp(six, &in6addr_any, sizeof *six - sizeof four))
		return is_own_v4(ntohl(four));
	return IN6_IS_ADDR_LINKLOCAL(six) || IN6_IS_ADDR_MULTICAST(six);
}

static bool is_host(const char *pattern, size_t len, const char *host)
{
	const size_t n = strlen(host);

	if (len == 1 && pattern[0] == '*')
		return true;
	if (len > 2 && pattern[0] == '*' && pattern[1] == '.')
		return n > len - 1 &&
		       !strncasecmp(host + n - (len - 1), pattern + 1, len - 1);
	return n == len && !strncasecmp(host, pattern, len);
}

enum proxy_verdict proxy_judge(const struct proxy_rules *r, const char *host,
			       const char *port)
{
	enum proxy_verdict v = r->count ? PROXY_REFUSED : PROXY_WORLD;

	for (size_t i = 0; i < r->count; i++) {
		const char *p = r->allow[i], *colon = strrchr(p, ':');
		const size_t len = colon ? (size_t)(colon - p) : strlen(p);

		if (!is_host(p, len, host) ||
		    (colon && strcmp(colon + 1, port) != 0))
			continue;
		if (colon && p[0] != '*')
			return PROXY_ANY;
		v = PROXY_WORLD;
	}
	return v;
}

bool proxy_is_rule(const char *text)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *colon = strrchr(text, ':');
	const char *s = text[0] == '*' ? text + 1 : text;
	const size_t len = strspn(s, chars);
	char *end;
	long port;

	if ((s != text && *s && *s != '.' && *s != ':') ||
	    (s == text && !len) || s + len != (colon ? colon : s + strlen(s)) ||
	    len > PROXY_HOST_MAX)
		return false;
	if (!colon)
		return true;
	port = strtol(colon + 1, &end, 10);
	return colon[1] >= '0' && colon[1] <= '9' && !*end && port > 0 &&
	       port < 65536;
}

/* --- the request --------------------------------------------------------- */

/* Reads "host:port" or "host" up to one of stop's characters. */
static int read_target(const char *s, const char *port, struct proxy_request *q)
{
	const size_t all = strcspn(s, " /?#");
	const char *host = s, *end = s + all, *colon;
	size_t len;

	colon = memrchr(s, ':', all);
	if (*s == '[') {
		host = s + 1;
		end = memchr(s, ']', all);
		if (!end || (end[1] != ':' && end + 1 != s + all))
			return -EINVAL;
		len = (size_t)(end - host);
		colon = end[1] == ':' ? end + 1 : NULL;
	} else {
		len = (size_t)((colon ? colon : end) - host);
	}
	if (!len || len > PROXY_HOST_MAX || memchr(host, '@', len))
		return -EINVAL;
	(void)snprintf(q->host, sizeof q->host, "%.*s", (int)len, host);
	(void)snprintf(q->port, sizeof q->port, "%.*s",
		       colon ? (int)MIN(5, s + all - colon - 1) : 5,
		       colon ? colon + 1 : port);
	if (!q->port[0] || strspn(q->port, "0123456789") != strlen(q->port))
		return -EINVAL;
	q->rest = s + all;
	return 0;
}

int proxy_parse(const char *head, struct proxy_request *q)
{
	const char *space = strchr(head, ' ');
	static const char scheme[] = "http://";

	*q = (struct proxy_request){0};
	if (!space || space == head)
		return -EINVAL;
	q->method_len = (size_t)(space - head);
	space++;
	if (q->method_len == 7 && !memcmp(head, "CONNECT", 7)) {
		q->is_tunnel = true;
		return read_target(space, "", q);
	}
	if (strncasecmp(space, scheme, sizeof scheme - 1) != 0)
		return -EINVAL;
	return read_target(space + sizeof scheme - 1, "80", q);
}

/* What the server gets instead of the head. */
static int put_head(const char *head, const struct proxy_request *q,
		    struct buf *out)
{
	const char *line = q->rest, *end = strstr(line, "\r\n");

	buf_printf(out, "%.*s %s", (int)q->method_len, head,
		   *line == '/' ? "" : "/");
	buf_put(out, line, (size_t)(end + 2 - line));
	for (line = end + 2; strncmp(line, "\r\n", 2) != 0; line = end + 2) {
		end = strstr(line, "\r\n");
		if (strncasecmp(line, "Connection:", 11) != 0 &&
		    strncasecmp(line, "Proxy-", 6) != 0 &&
		    strncasecmp(line, "Keep-Alive:", 11) != 0)
			buf_put(out, line, (size_t)(end + 2 - line));
	}
	buf_printf(out, "Connection: close\r\n\r\n");
	return buf_error(out);
}

/* Reads until the empty line; what comes behind it stays in the buffer, too.
 * Returns the head's length. */
static ssize_t read_head(int fd, char *head, size_t *ret_len)
{
	const uint64_t until = clock_mono_ns() + (uint64_t)HEAD_MS * NS_PER_MS;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0;

	while (len < HEAD_MAX) {
		const char *end;
		ssize_t n;

		if (clock_mono_ns() > until || poll(&p, 1, HEAD_MS) <= 0)
			return -ETIMEDOUT;
		n = recv(fd, head + len, HEAD_MAX - len, MSG_DONTWAIT);
		if (n <= 0)
			return n ? -errno : -EPIPE;
		len += (size_t)n;
		head[len] = 0;
		end = strstr(head, "\r\n\r\n");
		if (end) {
			*ret_len = len;
			return end + 4 - head;
		}
	}
	return -EMSGSIZE;
}

/* --- the other side ------------------------------------------------------ */

static int connect_to(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(
		a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int err = 0;
	socklen_t len = sizeof err;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	if (poll(&p, 1, CONNECT_MS) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err)
		return err ? -err : -errno;
	return TAKE_FD(fd);
}

/* -EACCES: the rules refuse it; -ENOENT: there is no such host. */
static int open_target(const struct proxy_rules *rules,
		       const struct proxy_request *q)
{
	const enum proxy_verdict v = proxy_judge(rules, q->host, q->port);
	const struct addrinfo want = {.ai_family = AF_UNSPEC,
				      .ai_socktype = SOCK_STREAM,
				      .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	int r = -EACCES;

	if (v == PROXY_REFUSED)
		return r;
	if (getaddrinfo(q->host, q->port, &want, &found))
		return -ENOENT;
	for (const struct addrinfo *a = found; a && r < 0; a = a->ai_next)
		if (v == PROXY_ANY || !proxy_is_refused(a->ai_addr))
			r = connect_to(a);
	freeaddrinfo(found);
	return r;
}

/* --- answers ------------------------------------------------------------ */

static void answer(int fd, const char *status, const char *text)
{
	char reply[512];
	int n = snprintf(reply, sizeof reply,
			 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n"
			 "cowfs: %s\n",
			 status, strlen(text) + 8, text);

	(void)send(fd, reply, (size_t)n, MSG_NOSIGNAL);
}

static void answer_failure(int fd, int err)
{
	if (err == -EACCES)
		answer(fd, "403 Forbidden",
		       "this host may not be reached from the sandbox "
		       "(--allow-host)");
	else if (err == -ENOENT)
		answer(fd, "502 Bad Gateway", "unknown host");
	else
		answer(fd, "502 Bad Gateway", "the host cannot be reached");
}

/* Sends the first bytes: the head, and what came behind it. */
static int begin(int fd, int to, const char *head, const char *behind,
		 size_t behind_len, const struct proxy_request *q)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	_cleanup_buf_ struct buf out = {0};
	int r;

	if (q->is_tunnel) {
		if (send(fd, ok, sizeof ok - 1, MSG_NOSIGNAL) < 0)
			return -errno;
	} else {
		r = put_head(head, q, &out);
		if (r)
			return r;
	}
	buf_put(&out, behind, behind_len);
	r = buf_error(&out);
	if (r || !out.len)
		return r;
	/* Less than a socket takes at once, as it is fresh. */
	return send(to, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len
		       ? 0
		       : -EPIPE;
}

void proxy_serve(int fd, const struct proxy_rules *rules)
{
	_cleanup_free_ char *head = malloc(HEAD_MAX + 1);
	_cleanup_close_ int to = -1;
	struct proxy_request q;
	ssize_t n;
	size_t len = 0;

	if (!head)
		return;
	n = read_head(fd, head, &len);
	if (n < 0 || proxy_parse(head, &q)) {
		answer(fd, "400 Bad Request", "not a request to a proxy");
		return;
	}
	to = open_target(rules, &q);
	if (to < 0)
		answer_failure(fd, to);
	else if (!begin(fd, to, head, head + n, len - (size_t)n, &q))
		pump(fd, to, IDLE_MS);
}
