/* SPDX-License-Identifier: MIT */
/*
 * pump.c - bytes pass between two connections, in both directions.
 *
 * How: a buffer for each direction, and poll. What comes is read only when the
 * buffer is empty, so that who does not read slows down who writes. The end of
 * one direction is handed on as such, and the other one goes on. A connection
 * that broke breaks the other one, too: a clean end would say that all has
 * come.
 */
#include "box/relay_int.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/attr.h"

enum { PUMP_BYTES = 16384 };

struct flow {
	int from, to;
	size_t at, len; /* what of data is still to be written */
	bool ended;	/* nothing more comes */
	char data[PUMP_BYTES];
};

/* Moves what can be moved; -1: the connection is broken. */
static int move(struct flow *f)
{
	ssize_t n;

	if (!f->ended && f->len == f->at) {
		n = recv(f->from, f->data, sizeof f->data, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		f->at = 0;
		f->len = n > 0 ? (size_t)n : 0;
		f->ended = n == 0;
		if (f->ended)
			(void)shutdown(f->to, SHUT_WR);
	}
	while (f->at < f->len) {
		n = send(f->to, f->data + f->at, f->len - f->at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		f->at += (size_t)n;
	}
	return 0;
}

static void want(const struct flow *f, struct pollfd *from, struct pollfd *to)
{
	if (f->at < f->len)
		to->events |= POLLOUT;
	else if (!f->ended)
		from->events |= POLLIN;
}

static bool is_done(const struct flow *f)
{
	return f->ended && f->at == f->len;
}

/* Waits for something to do; 1: there is, 0: for too long, -1: broken. */
static int wait_for(const struct flow f[2], bool mute[2], int idle_ms)
{
	struct pollfd p[2] = {{.fd = f[0].from}, {.fd = f[1].from}};

	want(&f[0], &p[0], &p[1]);
	want(&f[1], &p[1], &p[0]);
	/* Both ends of it are over, which is nothing new each time. */
	for (int i = 0; i < 2; i++)
		if (!p[i].events && mute[i])
			p[i].fd = -1;
	if (poll(p, 2, idle_ms) <= 0)
		return errno == EINTR ? 1 : 0;
	for (int i = 0; i < 2; i++) {
		if (p[i].revents & POLLERR)
			return -1;
		mute[i] = p[i].revents & POLLHUP;
	}
	return 1;
}

static int pass(struct flow f[2], int idle_ms)
{
	bool mute[2] = {false, false};
	int r;

	while (!is_done(&f[0]) || !is_done(&f[1])) {
		r = wait_for(f, mute, idle_ms);
		if (r <= 0)
			return r;
		if (move(&f[0]) < 0 || move(&f[1]) < 0)
			return -1;
	}
	return 0;
}

void pump_reset(int fd)
{
	const struct linger now = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void pump(int a, int b, int idle_ms)
{
	_cleanup_free_ struct flow *f = calloc(2, sizeof *f);

	if (!f)
		return;
	f[0].from = f[1].to = a;
	f[0].to = f[1].from = b;
	if (pass(f, idle_ms) < 0) {
		pump_reset(a);
		pump_reset(b);
	}
}
