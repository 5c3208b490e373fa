/* SPDX-License-Identifier: MIT */
/*
 * How: whether it is worth it shows by itself. After a look in vain some
 * requests are slept for, twice as many each time; one that was not in vain
 * begins anew. An idle connection costs one look.
 *
 * At first nobody else gets this processor: most requests come at once. Then it
 * is offered to whoever wants it, which may be the very program that is waited
 * for. At most half of the processors look out at a time, over all connections,
 * and on a machine with a single one nobody does.
 */
#include "fuse/pace.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum {
	LOOK_NS = 200000,
	ALONE_NS = 5000,
	MOST_VAIN = 6, /* one look in 64 requests */
};

static int most_looking; /* set once */
static int looking;	 /* atomic: how many do */

static void count_processors(void)
{
	cpu_set_t set;

	/* It fails where there are more than a set holds. */
	most_looking = sched_getaffinity(0, sizeof set, &set) == 0
			       ? CPU_COUNT(&set) / 2
			       : CPU_SETSIZE / 2;
}

static bool begin_look(struct pace *p)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (p->skip > 0) {
		p->skip--;
		return false;
	}
	(void)pthread_once(&once, count_processors);
	if (__atomic_add_fetch(&looking, 1, __ATOMIC_RELAXED) <= most_looking)
		return true;
	(void)__atomic_fetch_sub(&looking, 1, __ATOMIC_RELAXED);
	return false;
}

static void end_look(struct pace *p, bool in_vain)
{
	(void)__atomic_fetch_sub(&looking, 1, __ATOMIC_RELAXED);
	if (!in_vain)
		p->vain = 0;
	else if (p->vain < MOST_VAIN)
		p->vain++;
	p->skip = (1u << p->vain) - 1;
}

/* read(2), until there is something or the time of a look is over. */
static ssize_t read_awake(int fd, void *buf, size_t size)
{
	uint64_t began = clock_mono_ns();
	uint64_t past;
	ssize_t n;

	for (;;) {
		n = read(fd, buf, size);
		if (n >= 0 || errno != EAGAIN)
			return n;
		past = clock_mono_ns() - began;
		if (past > LOOK_NS) {
			errno = EAGAIN;
			return n;
		}
		if (past > ALONE_NS)
			(void)sched_yield();
	}
}

int pace_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

ssize_t pace_read(struct pace *p, int fd, void *buf, size_t size)
{
	struct pollfd sleep = {.fd = fd, .events = POLLIN};
	ssize_t n;

	if (begin_look(p)) {
		n = read_awake(fd, buf, size);
		end_look(p, n < 0 && errno == EAGAIN);
	} else {
		n = read(fd, buf, size);
	}
	while (n < 0 && errno == EAGAIN) {
		if (poll(&sleep, 1, -1) < 0)
			return -1;
		n = read(fd, buf, size);
	}
	return n;
}
