/* SPDX-License-Identifier: MIT */
/*
 * How: umount2 takes the mount out of the name space first and then, before it
 * returns, evicts all of its inodes: 60 ms for 50,000 of them. Nobody needs to
 * wait for that. So a thread makes the call, or waits for the fusermount3 that
 * makes it for a user, and we poll mountinfo, which becomes readable (POLLPRI)
 * when the name space changes, beside the thread's result. Once the path is
 * gone from the list, it is unmounted.
 *
 * The thread may still be at it when the process exits; then only its
 * collection by the keeper comes later, and fusermount3 ends by itself.
 */
#include "serve/unmount_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "serve/fusermount_int.h"
#include "serve/mounts_int.h"

enum { EVICT_NICE = 10 };

struct call {
	char path[KEEPER_PATH_BYTES];
	bool detach;
	int out;		   /* write end of a pipe: the result */
	pid_t tid;		   /* atomic: of the thread, once it runs */
	struct keeper_reply words; /* of fusermount3; before the result */
};

static int unmount_now(const char *path, bool detach,
		       struct keeper_reply *reply)
{
	if (geteuid() != 0)
		return fusermount_unmount(path, detach, reply);
	return umount2(path, UMOUNT_NOFOLLOW | (detach ? MNT_DETACH : 0)) < 0
		       ? -errno
		       : 0;
}

static void *call_run(void *arg)
{
	struct call *c = arg;
	int r;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELEASE);
	r = unmount_now(c->path, c->detach, &c->words);
	(void)!write(c->out, &r, sizeof r);
	return NULL;
}

/* The rest of the call is eviction: it may take its time. */
static void yield_to_others(struct call *c)
{
	pid_t tid = __atomic_load_n(&c->tid, __ATOMIC_ACQUIRE);

	if (tid)
		(void)setpriority(PRIO_PROCESS, (id_t)tid, EVICT_NICE);
}

/* Takes the thread's result, and what was said with it. */
static int take_result(int in, const struct call *c, struct keeper_reply *reply)
{
	int r;

	if (read(in, &r, sizeof r) != (ssize_t)sizeof r)
		return -EIO;
	memcpy(reply->text, c->words.text, sizeof reply->text);
	reply->text_len = c->words.text_len;
	return r;
}

static int wait_gone(int list, int in, struct call *c,
		     struct keeper_reply *reply)
{
	struct mounts_found found;

	for (;;) {
		struct pollfd p[2] = {{.fd = in, .events = POLLIN},
				      {.fd = list, .events = POLLPRI}};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents)
			return take_result(in, c, reply);
		/* Other mounts come and go too. */
		if (p[1].revents && mounts_find(c->path, &found) == -ENOENT) {
			yield_to_others(c);
			return 0;
		}
	}
}

/* Kept for ever: the thread may outlive the call, and the process is a short
 * one. */
static struct call *call_new(const char *path, bool detach, int out)
{
	struct call *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	(void)snprintf(c->path, sizeof c->path, "%s", path);
	c->detach = detach;
	c->out = out;
	return c;
}

int unmount_path(const char *path, bool detach, struct keeper_reply *reply)
{
	struct call *c;
	pthread_t thread;
	int list;
	int p[2];

	/* Opened before the change that it is to tell of. */
	list = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (list < 0)
		return unmount_now(path, detach, reply);
	if (pipe2(p, O_CLOEXEC) < 0) {
		(void)close(list);
		return unmount_now(path, detach, reply);
	}
	c = call_new(path, detach, p[1]);
	if (!c || pthread_create(&thread, NULL, call_run, c) != 0)
		return unmount_now(path, detach, reply);
	(void)pthread_detach(thread);
	/* The descriptors stay: the thread may still write. */
	return wait_gone(list, p[0], c, reply);
}
