/* SPDX-License-Identifier: MIT */
/*
 * How: a list of entries (environments are tens or hundreds, not more) under
 * one mutex, one condition for everybody who waits for a name. An entry exists
 * while it is mounted, worked on or waited for; so the registry is empty
 * exactly when the server has nothing to do, and the moment of that is the
 * start of the server's last minute.
 */
#include "serve/envs_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

struct envs {
	struct mutex lock;
	pthread_cond_t released;
	struct envs_entry *list; /* protected by lock, with all entries */
	uint64_t idle_since;	 /* protected by lock */
	bool shut;		 /* protected by lock */
};

int envs_new(struct envs **ret_envs)
{
	struct envs *e = calloc(1, sizeof *e);
	pthread_condattr_t attr;

	if (!e)
		return -ENOMEM;
	mutex_init(&e->lock);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&e->released, &attr);
	(void)pthread_condattr_destroy(&attr);
	e->idle_since = clock_mono_ns();
	*ret_envs = e;
	return 0;
}

void envs_free(struct envs *e)
{
	if (!e)
		return;
	while (e->list) {
		struct envs_entry *next = e->list->next;

		free(e->list);
		e->list = next;
	}
	(void)pthread_cond_destroy(&e->released);
	mutex_fini(&e->lock);
	free(e);
}

static struct envs_entry *find_locked(struct envs *e, const char *name)
	REQUIRES(&e->lock);
static struct envs_entry *find_locked(struct envs *e, const char *name)
{
	struct envs_entry *p = e->list;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

static void drop_if_unused_locked(struct envs *e, struct envs_entry *entry)
	REQUIRES(&e->lock);
static void drop_if_unused_locked(struct envs *e, struct envs_entry *entry)
{
	struct envs_entry **at = &e->list;

	if (entry->busy || entry->waiters > 0 ||
	    entry->mount.state != ENVS_NONE)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	free(entry);
	if (!e->list)
		e->idle_since = clock_mono_ns();
}

static struct envs_entry *add_locked(struct envs *e, const char *name)
	REQUIRES(&e->lock);
static struct envs_entry *add_locked(struct envs *e, const char *name)
{
	struct envs_entry *entry = calloc(1, sizeof *entry);

	if (!entry)
		return NULL;
	(void)snprintf(entry->name, sizeof entry->name, "%s", name);
	entry->envs = e;
	entry->next = e->list;
	e->list = entry;
	return entry;
}

static int acquire_locked(struct envs *e, const char *name,
			  const struct timespec *until,
			  struct envs_entry **ret_entry) REQUIRES(&e->lock);
static int acquire_locked(struct envs *e, const char *name,
			  const struct timespec *until,
			  struct envs_entry **ret_entry)
{
	struct envs_entry *entry;
	int r = 0;

	if (e->shut)
		return -ESHUTDOWN;
	entry = find_locked(e, name);
	if (!entry)
		entry = add_locked(e, name);
	if (!entry)
		return -ENOMEM;
	entry->waiters++;
	while (entry->busy && r == 0)
		r = pthread_cond_timedwait(&e->released, &e->lock.m, until);
	entry->waiters--;
	if (entry->busy)
		return -ETIMEDOUT;
	if (e->shut) {
		drop_if_unused_locked(e, entry);
		return -ESHUTDOWN;
	}
	entry->busy = true;
	*ret_entry = entry;
	return 0;
}

int envs_acquire(struct envs *e, const char *name, unsigned wait_ms,
		 struct envs_entry **ret_entry)
{
	uint64_t end = clock_mono_ns() + (uint64_t)wait_ms * NS_PER_MS;
	struct timespec until = {.tv_sec = (time_t)(end / NS_PER_S),
				 .tv_nsec = (long)(end % NS_PER_S)};
	int r;

	mutex_lock(&e->lock);
	r = acquire_locked(e, name, &until, ret_entry);
	mutex_unlock(&e->lock);
	return r;
}

void envs_release(struct envs_entry *entry)
{
	struct envs *e = entry->envs;

	mutex_lock(&e->lock);
	entry->busy = false;
	(void)pthread_cond_broadcast(&e->released);
	drop_if_unused_locked(e, entry);
	mutex_unlock(&e->lock);
}

void envs_publish(struct envs_entry *entry, const struct envs_mount *m)
{
	mutex_lock(&entry->envs->lock);
	entry->mount = *m;
	mutex_unlock(&entry->envs->lock);
}

void envs_clear(struct envs_entry *entry)
{
	mutex_lock(&entry->envs->lock);
	entry->mount.state = ENVS_NONE;
	entry->mount.path[0] = '\0';
	entry->mount.env = NULL;
	entry->mount.session = NULL;
	mutex_unlock(&entry->envs->lock);
}

void envs_set_due(struct envs_entry *entry, uint64_t due_ns)
{
	mutex_lock(&entry->envs->lock);
	entry->mount.due_ns = due_ns;
	entry->mount.try_ns = 0;
	entry->mount.told = false;
	mutex_unlock(&entry->envs->lock);
}

void envs_peek(struct envs *e, const char *name, struct envs_look *ret_look)
{
	const struct envs_entry *entry;

	*ret_look = (struct envs_look){.state = ENVS_NONE};
	mutex_lock(&e->lock);
	entry = find_locked(e, name);
	if (entry && entry->mount.state != ENVS_NONE) {
		const struct envs_mount *m = &entry->mount;

		ret_look->state = m->state;
		ret_look->read_only = m->read_only;
		ret_look->due_ns = m->due_ns;
		(void)snprintf(ret_look->path, sizeof ret_look->path, "%s",
			       m->path);
		env_use(m->env, &ret_look->use); /* takes no lock */
	}
	mutex_unlock(&e->lock);
}

void envs_due(struct envs *e, uint64_t now_ns, uint64_t next_ns,
	      struct buf *out)
{
	mutex_lock(&e->lock);
	for (struct envs_entry *p = e->list; p; p = p->next) {
		struct envs_mount *m = &p->mount;

		if (p->busy || m->state == ENVS_NONE || !m->due_ns ||
		    m->due_ns > now_ns || m->try_ns > now_ns)
			continue;
		m->try_ns = next_ns;
		buf_put(out, p->name, strlen(p->name) + 1);
	}
	mutex_unlock(&e->lock);
}

void envs_names(struct envs *e, struct buf *out)
{
	mutex_lock(&e->lock);
	for (const struct envs_entry *p = e->list; p; p = p->next) {
		if (p->mount.state != ENVS_NONE)
			buf_put(out, p->name, strlen(p->name) + 1);
	}
	mutex_unlock(&e->lock);
}

bool envs_is_resting(struct envs_entry *entry)
{
	bool resting;

	mutex_lock(&entry->envs->lock);
	resting = !entry->busy && entry->mount.state != ENVS_NONE;
	mutex_unlock(&entry->envs->lock);
	return resting;
}

static size_t count_locked(struct envs *e) REQUIRES(&e->lock);
static size_t count_locked(struct envs *e)
{
	size_t n = 0;

	for (const struct envs_entry *p = e->list; p; p = p->next)
		n += p->mount.state != ENVS_NONE && name_is_label(p->name);
	return n;
}

size_t envs_count(struct envs *e)
{
	size_t n;

	mutex_lock(&e->lock);
	n = count_locked(e);
	mutex_unlock(&e->lock);
	return n;
}

bool envs_shut(struct envs *e)
{
	bool shut;

	mutex_lock(&e->lock);
	if (!e->list)
		e->shut = true;
	shut = e->shut;
	mutex_unlock(&e->lock);
	return shut;
}

uint64_t envs_idle_since(struct envs *e)
{
	uint64_t since;

	mutex_lock(&e->lock);
	since = e->list ? UINT64_MAX : e->idle_since;
	mutex_unlock(&e->lock);
	return since;
}
