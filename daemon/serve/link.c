/* SPDX-License-Identifier: MIT */
/*
 * How: callers send under the lock and put themselves on a list; one thread
 * receives replies and hands each to the caller with its id. The keeper
 * answers every request within its own limit; ours is a little longer, for a
 * keeper that is stopped or dead.
 *
 * A reply that comes too late is dropped, and its descriptor closed.
 */
#include "serve/link_int.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/log.h"
#include "base/mutex.h"

enum { CALL_TIMEOUT_S = 15 };

struct waiter {
	struct waiter *next;
	uint32_t id;
	struct keeper_reply *reply;
	int fd;
	bool answered;
};

struct link {
	int sock;
	void (*lost)(void *ctx);
	void *ctx;
	pthread_t thread;
	struct mutex lock;
	pthread_cond_t answered;
	struct waiter *waiters;	   /* protected by lock */
	uint32_t last_id;	   /* protected by lock */
	bool closing;		   /* protected by lock */
	bool dead;		   /* protected by lock */
	struct keeper_reply reply; /* of the thread alone */
};

static void deliver(struct link *l, int fd)
{
	struct waiter *w;

	mutex_lock(&l->lock);
	for (w = l->waiters; w && w->id != l->reply.id; w = w->next)
		;
	if (w) {
		memcpy(w->reply, &l->reply,
		       offsetof(struct keeper_reply, text) + l->reply.text_len);
		w->fd = fd;
		w->answered = true;
		(void)pthread_cond_broadcast(&l->answered);
	}
	mutex_unlock(&l->lock);
	if (!w && fd >= 0)
		(void)close(fd);
}

static void *link_run(void *arg)
{
	struct link *l = arg;
	bool closing;
	int fd;
	int r;

	do {
		r = keeper_recv_reply(l->sock, &l->reply, &fd, 0);
		if (r == 0)
			deliver(l, fd);
		else if (r == -EPROTO)
			log_error("keeper: malformed reply");
	} while (r == 0 || r == -EPROTO);
	mutex_lock(&l->lock);
	closing = l->closing;
	l->dead = true;
	(void)pthread_cond_broadcast(&l->answered);
	mutex_unlock(&l->lock);
	if (!closing)
		l->lost(l->ctx);
	return NULL;
}

int link_new(int sock, void (*lost)(void *ctx), void *ctx,
	     struct link **ret_link)
{
	struct link *l = calloc(1, sizeof *l);
	pthread_condattr_t attr;
	int r;

	if (!l)
		return -ENOMEM;
	l->sock = sock;
	l->lost = lost;
	l->ctx = ctx;
	mutex_init(&l->lock);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&l->answered, &attr);
	(void)pthread_condattr_destroy(&attr);
	r = pthread_create(&l->thread, NULL, link_run, l);
	if (r != 0) {
		(void)close(sock);
		free(l);
		return -r;
	}
	*ret_link = l;
	return 0;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	mutex_lock(&l->lock);
	l->closing = true;
	mutex_unlock(&l->lock);
	(void)shutdown(l->sock, SHUT_RDWR);
	(void)pthread_join(l->thread, NULL);
	(void)close(l->sock);
	(void)pthread_cond_destroy(&l->answered);
	mutex_fini(&l->lock);
	free(l);
}

static void remove_locked(struct link *l, struct waiter *w) REQUIRES(&l->lock);
static void remove_locked(struct link *l, struct waiter *w)
{
	struct waiter **at = &l->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static int call_locked(struct link *l, struct keeper_request *q,
		       struct waiter *w) REQUIRES(&l->lock);
static int call_locked(struct link *l, struct keeper_request *q,
		       struct waiter *w)
{
	struct timespec until;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CALL_TIMEOUT_S;
	q->id = w->id = ++l->last_id;
	if (l->dead)
		return -ECONNRESET;
	/* The keeper always reads: this does not wait. */
	if (send(l->sock, q, sizeof *q, MSG_NOSIGNAL) < 0)
		return -errno;
	w->next = l->waiters;
	l->waiters = w;
	while (!w->answered && !l->dead && r == 0)
		r = pthread_cond_timedwait(&l->answered, &l->lock.m, &until);
	remove_locked(l, w);
	if (w->answered)
		return w->reply->result;
	return l->dead ? -ECONNRESET : -ETIMEDOUT;
}

int link_call(struct link *l, struct keeper_request *q,
	      struct keeper_reply *ret_reply, int *ret_fd)
{
	struct waiter w = {.reply = ret_reply, .fd = -1};
	int r;

	ret_reply->text_len = 0;
	mutex_lock(&l->lock);
	r = call_locked(l, q, &w);
	mutex_unlock(&l->lock);
	if (ret_fd && r == 0)
		*ret_fd = w.fd;
	else if (w.fd >= 0)
		(void)close(w.fd);
	return r;
}

void link_forget(struct link *l, uint32_t mount)
{
	struct keeper_request q = {.op = KEEPER_FORGET, .mount = mount};

	mutex_lock(&l->lock);
	if (!l->dead)
		(void)send(l->sock, &q, sizeof q, MSG_NOSIGNAL);
	mutex_unlock(&l->lock);
}
