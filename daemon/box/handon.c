/* SPDX-License-Identifier: MIT */
/*
 * handon.c - bytes go from the command to where they belong, and stay, too.
 *
 * How: one loop over both streams and the signals. It reads only what it has
 * handed on before, so that a reader who is slow slows the command down as
 * ever; and it never waits in a write, so that signals get through. The
 * caller's pipe must not be made non-blocking, others have it, too: it is
 * opened anew. When the reader goes, the pipe goes, and the command's next
 * write fails as it should.
 *
 * The record is written when there is nothing to read, or after a while.
 *
 * splice(2) and tee(2) would save the copies, but each small piece would take a
 * page of the caller's pipe, which is full after sixteen; a caller who reads
 * only after the end would then wait for ever.
 */
#include "box/handon_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"

/* Between two writes of the record, and how long bytes wait for one. */
enum { WRITE_EVERY_NS = 50000000, NS_PER_MS = 1000000, LOOK_MS = 50 };

void handon_init(struct stream *s)
{
	*s = (struct stream){.command = -1, .in = -1, .out = -1};
	s->keep.fd = -1;
}

void handon_fini(struct stream *s)
{
	const int fds[] = {s->command, s->in, s->out};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	keep_fini(&s->keep);
}

/* A descriptor of our own for a pipe that others have, too. */
static int open_anew(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

int handon_open(struct stream *s, int to)
{
	struct stat st;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	s->in = p[0];
	s->command = p[1];
	if (to < 0)
		return 0;
	s->is_socket = fstat(to, &st) == 0 && S_ISSOCK(st.st_mode);
	s->out = s->is_socket ? -1 : open_anew(to);
	if (s->out >= 0)
		return 0;
	s->may_block = !s->is_socket;
	s->out = fcntl(to, F_DUPFD_CLOEXEC, 3);
	return s->out < 0 ? -errno : 0;
}

void handon_limit(struct stream *s)
{
	int n = 0;

	s->is_limited = true;
	s->left = s->in >= 0 && ioctl(s->in, FIONREAD, &n) == 0 ? (size_t)n : 0;
}

void handon_unlimit(struct stream *s)
{
	s->is_limited = false;
}

/* --- one stream ---------------------------------------------------------- */

static void end(struct stream *s)
{
	if (s->in >= 0)
		(void)close(TAKE_FD(s->in));
	if (!s->pending)
		keep_flush(&s->keep, true);
}

/* Its reader has gone. */
static void lose_reader(struct stream *s)
{
	s->pending = 0;
	if (s->out >= 0)
		(void)close(TAKE_FD(s->out));
	end(s);
}

static void hand_on(struct stream *s)
{
	const struct buf *w = &s->keep.window;
	const size_t n =
		s->may_block ? MIN(s->pending, (size_t)PIPE_BUF) : s->pending;
	const void *data = w->data + w->len - s->pending;
	const ssize_t done = s->is_socket ? send(s->out, data, n,
						 MSG_DONTWAIT | MSG_NOSIGNAL)
					  : write(s->out, data, n);

	if (done >= 0)
		s->pending -= (size_t)done;
	else if (errno != EAGAIN && errno != EINTR)
		lose_reader(s);
	if (!s->pending && s->in < 0)
		keep_flush(&s->keep, true);
}

static void take(struct stream *s)
{
	const size_t most =
		s->is_limited ? MIN(s->left, (size_t)KEEP_CHUNK) : KEEP_CHUNK;
	const ssize_t n = read(s->in, keep_room(&s->keep), most);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		end(s);
		return;
	}
	if (s->is_limited)
		s->left -= (size_t)n;
	keep_add(&s->keep, (size_t)n);
	if (s->out < 0)
		return;
	s->pending = (size_t)n;
	/* Mostly it can be written at once. */
	if (!s->may_block)
		hand_on(s);
}

/* --- both ---------------------------------------------------------------- */

static bool may_take(const struct stream *s)
{
	return s->in >= 0 && !s->pending && !(s->is_limited && !s->left);
}

/* Two entries for a stream: in, out. */
static void fill(const struct stream *s, struct pollfd p[2])
{
	p[0] = (struct pollfd){.fd = may_take(s) ? s->in : -1,
			       .events = POLLIN};
	p[1] = (struct pollfd){.fd = handon_is_open(s) ? s->out : -1,
			       .events = s->pending ? POLLOUT : 0};
}

static void serve(struct stream *s, const struct pollfd p[2])
{
	const short gone = s->is_socket ? POLLERR | POLLHUP : POLLERR;

	if (p[1].revents & gone)
		lose_reader(s);
	else if (p[1].revents & POLLOUT)
		hand_on(s);
	else if (p[0].revents)
		take(s);
}

/* Writes the record when nothing is to be read, or has not been for long. Sets
 * how long what is left may wait. */
static void write_down(struct stream *s, uint64_t now, int *wait_ms)
{
	const uint64_t since = now - s->written_ns;

	if (!keep_waits(&s->keep) || s->pending)
		return;
	if (since < WRITE_EVERY_NS) {
		const int ms = (int)((WRITE_EVERY_NS - since) / NS_PER_MS) + 1;

		*wait_ms = *wait_ms < 0 ? ms : MIN(*wait_ms, ms);
		return;
	}
	keep_flush(&s->keep, false);
	s->written_ns = now;
}

static int wait_for(struct record *r, struct pollfd *p, nfds_t n,
		    int timeout_ms)
{
	int wait_ms = -1, ready;

	if (keep_waits(&r->streams[0].keep) ||
	    keep_waits(&r->streams[1].keep)) {
		const uint64_t now = clock_mono_ns();

		write_down(&r->streams[0], now, &wait_ms);
		write_down(&r->streams[1], now, &wait_ms);
	}
	if (wait_ms >= 0 && (timeout_ms < 0 || wait_ms < timeout_ms)) {
		ready = poll(p, n, wait_ms);
		/* Not the caller's time: once more. */
		return ready == 0 ? -EAGAIN : ready;
	}
	return poll(p, n, timeout_ms);
}

/* Whether nothing is left to do for a stream. */
static bool is_done(const struct stream *s)
{
	return !(s->is_limited ? handon_waits(s) : handon_is_open(s));
}

void record_pump(struct record *r, const sigset_t *signals, int timeout_ms)
{
	struct stream *s = r->streams;
	struct pollfd p[5];
	int n;

	if (signals && r->signals < 0)
		r->signals = signalfd(-1, signals, SFD_CLOEXEC);
	/* The caller looks for them now and then. */
	if (signals && r->signals < 0)
		timeout_ms = LOOK_MS;
	do {
		fill(&s[0], p);
		fill(&s[1], p + 2);
		p[4] = (struct pollfd){.fd = signals ? r->signals : -1,
				       .events = POLLIN};
		n = wait_for(r, p, ARRAY_SIZE(p), timeout_ms);
		if (n == 0 || (n > 0 && p[4].revents))
			return;
		if (n < 0)
			continue;
		serve(&s[0], p);
		serve(&s[1], p + 2);
	} while (!is_done(&s[0]) || !is_done(&s[1]) ||
		 (signals && !s[0].is_limited));
}
