/* SPDX-License-Identifier: MIT */
/*
 * How: a list of environments, each with the time when it is due; an
 * environment says when its first change came (it may do so with its own lock
 * held, so the mutex here is a leaf, and is let go while one is worked on).
 * The thread has the niceness of those for whom nobody waits: a commit that
 * somebody waits for is made by whoever waits.
 */
#include "serve/tend_int.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "env/env.h"

enum {
	TEND_NICE = 10,
	NS_PER_MS = 1000000,
	NS_PER_S = 1000000000,
};

#define NEVER UINT64_MAX

struct tended {
	struct tended *next;
	struct tend *tend;
	struct env *env;
	uint64_t due; /* monotonic ns; NEVER: nothing has changed */
};

struct tend {
	pthread_t thread;
	struct mutex lock;
	pthread_cond_t changed; /* something is due, or the end */
	pthread_cond_t done;	/* nothing is worked on */
	struct tended *list;	/* protected by lock, with all in it */
	struct tended *busy;	/* protected by lock */
	bool ending;		/* protected by lock */
};

/* Called by an environment, perhaps with its lock held. */
static void has_changed(void *ctx)
{
	struct tended *x = ctx;
	struct tend *t = x->tend;

	mutex_lock(&t->lock);
	x->due = 0;
	(void)pthread_cond_signal(&t->changed);
	mutex_unlock(&t->lock);
}

static struct tended *earliest_locked(struct tend *t) REQUIRES(&t->lock);
static struct tended *earliest_locked(struct tend *t)
{
	struct tended *first = t->list;

	for (struct tended *x = t->list; x; x = x->next)
		if (x->due < first->due)
			first = x;
	return first && first->due != NEVER ? first : NULL;
}

/* Waits for the next that is due; NULL at the end. */
static struct tended *wait_locked(struct tend *t) REQUIRES(&t->lock);
static struct tended *wait_locked(struct tend *t)
{
	while (!t->ending) {
		struct tended *x = earliest_locked(t);
		struct timespec until;

		if (!x) {
			(void)pthread_cond_wait(&t->changed, &t->lock.m);
			continue;
		}
		if (x->due <= clock_mono_ns())
			return x;
		until.tv_sec = (time_t)(x->due / NS_PER_S);
		until.tv_nsec = (long)(x->due % NS_PER_S);
		(void)pthread_cond_timedwait(&t->changed, &t->lock.m, &until);
	}
	return NULL;
}

static void *tend_run(void *arg)
{
	struct tend *t = arg;
	struct tended *x;

	(void)pthread_setname_np(pthread_self(), "cowfs-tend");
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), TEND_NICE);
	mutex_lock(&t->lock);
	while ((x = wait_locked(t))) {
		unsigned ms;

		t->busy = x;
		x->due = NEVER;
		mutex_unlock(&t->lock);
		ms = env_tend(x->env);
		mutex_lock(&t->lock);
		/* a change meanwhile has set it already */
		if (ms && x->due == NEVER)
			x->due = clock_mono_ns() + (uint64_t)ms * NS_PER_MS;
		t->busy = NULL;
		(void)pthread_cond_broadcast(&t->done);
	}
	mutex_unlock(&t->lock);
	return NULL;
}

int tend_new(struct tend **ret_tend)
{
	struct tend *t = calloc(1, sizeof *t);
	pthread_condattr_t attr;
	int r;

	if (!t)
		return -ENOMEM;
	mutex_init(&t->lock);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&t->changed, &attr);
	(void)pthread_cond_init(&t->done, NULL);
	(void)pthread_condattr_destroy(&attr);
	r = pthread_create(&t->thread, NULL, tend_run, t);
	if (r != 0) {
		free(t);
		return -r;
	}
	*ret_tend = t;
	return 0;
}

void tend_free(struct tend *t)
{
	if (!t)
		return;
	mutex_lock(&t->lock);
	t->ending = true;
	(void)pthread_cond_signal(&t->changed);
	mutex_unlock(&t->lock);
	(void)pthread_join(t->thread, NULL);
	while (t->list) {
		struct tended *next = t->list->next;

		free(t->list);
		t->list = next;
	}
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_cond_destroy(&t->done);
	mutex_fini(&t->lock);
	free(t);
}

int tend_add(struct tend *t, struct env *e)
{
	struct tended *x = calloc(1, sizeof *x);

	if (!x)
		return -ENOMEM;
	*x = (struct tended){.tend = t, .env = e, .due = NEVER};
	mutex_lock(&t->lock);
	x->next = t->list;
	t->list = x;
	mutex_unlock(&t->lock);
	env_on_dirty(e, has_changed, x);
	return 0;
}

void tend_remove(struct tend *t, struct env *e)
{
	struct tended **at = &t->list;
	struct tended *x;

	env_on_dirty(e, NULL, NULL);
	mutex_lock(&t->lock);
	while (*at && (*at)->env != e)
		at = &(*at)->next;
	x = *at;
	if (x)
		*at = x->next;
	while (x && t->busy == x)
		(void)pthread_cond_wait(&t->done, &t->lock.m);
	mutex_unlock(&t->lock);
	free(x);
}
