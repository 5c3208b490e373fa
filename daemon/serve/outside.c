/* SPDX-License-Identifier: MIT */
/*
 * outside.c - `umount --kill`: what holds an environment from outside its
 * sandbox ends.
 *
 * How: a process is opened first, and ended when a second look still names its
 * number as a holder's: so no other one is hit that got the number meanwhile.
 * SIGTERM, and SIGKILL a second later; then once more from the beginning, since
 * holders start others, but not for ever. Mounts of what was ended, an overlay
 * of a container's, are left to whoever made them, who gets the time for it.
 * The command that asks and those that called it, the user's shell above all,
 * are left: they make the environment busy, as without the option.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"

enum {
	ROUNDS = 5,
	HOLDERS_MAX = 200, /* as many as a list has */
	CALLERS_MAX = 64,
	TERM_MS = 1000,
	KILL_MS = 2000,
	MOUNTS_MS = 5000,
	MOUNTS_POLL_MS = 50,
	POLL_MS = 5,
	NS_PER_MS = 1000000,
};

struct holder {
	pid_t pid;
	int fd;	    /* a pidfd */
	bool named; /* by the second look, too */
	bool ended;
	char *line;
};

struct outside {
	pid_t callers[CALLERS_MAX];
	size_t caller_count;
	struct holder v[HOLDERS_MAX];
	size_t count;
	const char *env;
	struct diag *diag;
	struct msg *done; /* or NULL */
};

static void forget(struct outside *o)
{
	for (size_t i = 0; i < o->count; i++) {
		(void)close(o->v[i].fd);
		free(o->v[i].line);
	}
	o->count = 0;
}

static void outside_freep(struct outside **o)
{
	if (*o)
		forget(*o);
	free(*o);
}

/* --- who is left --------------------------------------------------------- */

static struct outside *outside_new(const char *env, pid_t asker,
				   struct diag *diag)
{
	struct outside *o = calloc(1, sizeof *o);
	struct proc_stat s;

	if (!o)
		return NULL;
	o->env = env;
	o->diag = diag;
	for (pid_t pid = asker; pid > 0 && o->caller_count < CALLERS_MAX;
	     pid = proc_stat(pid, &s) < 0 ? 0 : s.parent)
		o->callers[o->caller_count++] = pid;
	return o;
}

/* A mount has no process. */
static bool can_end(const struct outside *o, pid_t pid)
{
	for (size_t i = 0; i < o->caller_count; i++)
		if (o->callers[i] == pid)
			return false;
	return pid > 1 && pid != getpid() && pid != getppid();
}

/* --- the looks ----------------------------------------------------------- */

static bool open_holder(void *ctx, pid_t pid, const char *line, size_t n)
{
	struct outside *o = ctx;
	struct holder h = {.pid = pid};

	if (!can_end(o, pid) || o->count == HOLDERS_MAX)
		return true;
	h.fd = pidfd_open(pid, 0);
	if (h.fd < 0)
		return true;
	h.line = strndup(line, n);
	o->v[o->count++] = h;
	return true;
}

static bool name_holder(void *ctx, pid_t pid, const char *line, size_t n)
{
	struct outside *o = ctx;

	for (size_t i = 0; i < o->count; i++)
		if (o->v[i].pid == pid)
			o->v[i].named = true;
	return true;
}

static bool say_holder(void *ctx, pid_t pid, const char *line, size_t n)
{
	const struct outside *o = ctx;

	if (!can_end(o, pid))
		return true;
	diag_add(o->diag, "%s: would end %.*s", o->env, (int)n, line);
	return false;
}

/* --- the end ------------------------------------------------------------- */

static void send(struct outside *o, int sig)
{
	for (size_t i = 0; i < o->count; i++)
		if (o->v[i].named && !o->v[i].ended)
			(void)pidfd_send_signal(o->v[i].fd, sig, NULL, 0);
}

static bool all_ended(struct outside *o)
{
	bool all = true;

	for (size_t i = 0; i < o->count; i++) {
		struct pollfd p = {.fd = o->v[i].fd, .events = POLLIN};

		if (!o->v[i].ended)
			o->v[i].ended = poll(&p, 1, 0) > 0;
		all = all && (o->v[i].ended || !o->v[i].named);
	}
	return all;
}

static void wait_for(struct outside *o, unsigned ms)
{
	const uint64_t end = clock_mono_ns() + (uint64_t)ms * NS_PER_MS;

	while (!all_ended(o) && clock_mono_ns() < end)
		(void)poll(NULL, 0, POLL_MS);
}

/* Its line is "PID COMMAND PATH". */
static void put_stopped(const struct outside *o, const struct holder *h)
{
	const char *command = h->line ? strchr(h->line, ' ') : NULL;
	char line[128];

	if (!o->done)
		return;
	command = command ? command + 1 : "?";
	(void)snprintf(line, sizeof line, "%d outside %.*s", (int)h->pid,
		       (int)MIN(strcspn(command, " "), (size_t)64), command);
	msg_put_str(o->done, CTL_TAG_STOPPED, line);
}

/* Says who has ended, and returns how many. */
static size_t tell(const struct outside *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->count; i++) {
		const struct holder *h = &o->v[i];

		if (!h->named || !h->ended)
			continue;
		diag_add(o->diag, "%s: ended %s", o->env,
			 h->line ? h->line : "?");
		put_stopped(o, h);
		log_info("%s: ended %d, which held it", o->env, (int)h->pid);
		n++;
	}
	return n;
}

static size_t end_some(struct outside *o, struct server *s,
		       const struct envs_entry *entry,
		       struct keeper_reply *reply)
{
	forget(o);
	if (boxes_others(s, entry, reply) < 0)
		return 0;
	boxes_each_user(reply, open_holder, o);
	if (!o->count || boxes_others(s, entry, reply) < 0)
		return 0;
	boxes_each_user(reply, name_holder, o);
	send(o, SIGTERM);
	send(o, SIGCONT);
	wait_for(o, TERM_MS);
	send(o, SIGKILL);
	wait_for(o, KILL_MS);
	return tell(o);
}

static bool has_process(void *ctx, pid_t pid, const char *line, size_t n)
{
	*(bool *)ctx = *(bool *)ctx || pid > 0;
	return true;
}

/* Waits while mounts are all that is left. */
static void wait_mounts(struct server *s, const struct envs_entry *entry,
			struct keeper_reply *reply)
{
	const uint64_t end = clock_mono_ns() + (uint64_t)MOUNTS_MS * NS_PER_MS;

	while (boxes_others(s, entry, reply) == 0 && reply->text_len > 0 &&
	       clock_mono_ns() < end) {
		bool any = false;

		boxes_each_user(reply, has_process, &any);
		if (any)
			return;
		(void)poll(NULL, 0, MOUNTS_POLL_MS);
	}
}

int outside_end(struct server *s, const struct envs_entry *entry, pid_t asker,
		struct msg *done, struct diag *diag)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	_cleanup_(outside_freep) struct outside *o =
		outside_new(entry->name, asker, diag);
	bool any = false;

	if (!o || !reply)
		return -ENOMEM;
	o->done = done;
	for (int i = 0; i < ROUNDS && end_some(o, s, entry, reply); i++)
		any = true;
	if (any)
		wait_mounts(s, entry, reply);
	return 0;
}

int outside_would_end(const struct envs_entry *entry, pid_t asker,
		      struct keeper_reply *reply, struct diag *diag)
{
	_cleanup_(outside_freep) struct outside *o =
		outside_new(entry->name, asker, diag);

	if (!o)
		return -ENOMEM;
	boxes_each_user(reply, say_holder, o);
	return 0;
}
