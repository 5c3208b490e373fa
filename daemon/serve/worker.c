/* SPDX-License-Identifier: MIT */
/*
 * How: a list under a mutex, one thread that takes from its head. What is
 * slow and needs no answer goes here: emptying the trash, closing thrown away
 * environments, noticing mounts that ended by themselves.
 */
#include "serve/worker_int.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mutex.h"

struct job {
	struct job *next;
	worker_fn fn;
	void *ctx;
	void *arg;
};

struct worker {
	pthread_t thread;
	struct mutex lock;
	pthread_cond_t more;
	struct job *head;  /* protected by lock */
	struct job **tail; /* protected by lock */
	bool ending;	   /* protected by lock */
};

static struct job *take_locked(struct worker *w) REQUIRES(&w->lock);
static struct job *take_locked(struct worker *w)
{
	struct job *j;

	while (!w->head && !w->ending)
		(void)pthread_cond_wait(&w->more, &w->lock.m);
	j = w->head;
	if (j)
		w->head = j->next;
	if (!w->head)
		w->tail = &w->head;
	return j;
}

enum { WORKER_NICE = 10 };

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct job *j;

	/* nobody waits for what is done here: let those go first who do */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), WORKER_NICE);
	do {
		mutex_lock(&w->lock);
		j = take_locked(w);
		mutex_unlock(&w->lock);
		if (j)
			j->fn(j->ctx, j->arg);
		free(j);
	} while (j);
	return NULL;
}

int worker_new(struct worker **ret_worker)
{
	struct worker *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	mutex_init(&w->lock);
	(void)pthread_cond_init(&w->more, NULL);
	w->tail = &w->head;
	r = pthread_create(&w->thread, NULL, worker_run, w);
	if (r != 0) {
		free(w);
		return -r;
	}
	*ret_worker = w;
	return 0;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	mutex_lock(&w->lock);
	w->ending = true;
	(void)pthread_cond_signal(&w->more);
	mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	(void)pthread_cond_destroy(&w->more);
	mutex_fini(&w->lock);
	free(w);
}

int worker_add(struct worker *w, worker_fn fn, void *ctx, void *arg)
{
	struct job *j = malloc(sizeof *j);

	if (!j)
		return -ENOMEM;
	*j = (struct job){.fn = fn, .ctx = ctx, .arg = arg};
	mutex_lock(&w->lock);
	*w->tail = j;
	w->tail = &j->next;
	(void)pthread_cond_signal(&w->more);
	mutex_unlock(&w->lock);
	return 0;
}
