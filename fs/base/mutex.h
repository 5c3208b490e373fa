/* SPDX-License-Identifier: MIT */
/*
 * mutex.h - a mutex that clang's thread-safety analysis can check.
 *
 * Public function = lock, call the *_locked twin, unlock; the twin is declared
 * REQUIRES(&x->lock). Guards by cleanup attribute are not used: clang 14
 * raises false alarms on them.
 *
 * Contract
 *   Ownership   caller's storage
 *   Threads     any
 */
#ifndef COWFS_BASE_MUTEX_H
#define COWFS_BASE_MUTEX_H

#include <pthread.h>

#ifdef __clang__
#define MUTEX_ATTR(x) __attribute__((x))
#else
#define MUTEX_ATTR(x)
#endif
#define REQUIRES(m) MUTEX_ATTR(requires_capability(m))
#define ACQUIRE(m)  MUTEX_ATTR(acquire_capability(m))
#define RELEASE(m)  MUTEX_ATTR(release_capability(m))
#define NO_ANALYSIS MUTEX_ATTR(no_thread_safety_analysis)

struct MUTEX_ATTR(capability("mutex")) mutex {
	pthread_mutex_t m;
};

#define MUTEX_INIT {.m = PTHREAD_MUTEX_INITIALIZER}

static inline void mutex_init(struct mutex *l)
{
	(void)pthread_mutex_init(&l->m, NULL);
}

static inline void mutex_fini(struct mutex *l)
{
	(void)pthread_mutex_destroy(&l->m);
}

/* An attribute that names a parameter must follow it, which only a declaration
 * allows. */
static inline void mutex_lock(struct mutex *l) ACQUIRE(l);
static inline void mutex_unlock(struct mutex *l) RELEASE(l);

static inline NO_ANALYSIS void mutex_lock(struct mutex *l)
{
	(void)pthread_mutex_lock(&l->m);
}

static inline NO_ANALYSIS void mutex_unlock(struct mutex *l)
{
	(void)pthread_mutex_unlock(&l->m);
}

#endif
