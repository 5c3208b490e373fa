/* SPDX-License-Identifier: MIT */
/*
 * umounted.c - after an unmount: what the server says that it has done, and a
 * look of our own at the processes, the mount and the environment's folder.
 */
#include "cli/umount.h"

#include <stdio.h>
#include <string.h>

#include "base/proc.h"
#include "cli/mountinfo.h"
#include "cli/remote.h"

#define MOUNT_WORD "mount "

void umounted_fini(struct umounted *u)
{
	buf_fini(&u->stopped);
	buf_fini(&u->freed);
	buf_fini(&u->remained);
}

static void put(struct buf *b, const char *text, size_t n)
{
	buf_put(b, text, n);
	buf_put_u8(b, 0);
}

/* "PID KIND COMMAND" */
static void take_stopped(struct umounted *u, const char *line, size_t n)
{
	const char *kind = memchr(line, ' ', n);
	const char *end = line + n;
	const char *command =
		kind ? memchr(kind + 1, ' ', (size_t)(end - kind - 1)) : NULL;

	if (!command)
		return;
	put(&u->stopped, line, (size_t)(kind - line));
	put(&u->stopped, kind + 1, (size_t)(command - kind - 1));
	put(&u->stopped, command + 1, (size_t)(end - command - 1));
}

void umounted_take(struct umounted *u, const struct msg *done)
{
	const uint8_t *s;
	size_t n;

	for (size_t i = 0; (s = msg_get(done, CTL_TAG_STOPPED, i, &n)); i++)
		if (!memchr(s, 0, n))
			take_stopped(u, (const char *)s, n);
	for (size_t i = 0; (s = msg_get(done, CTL_TAG_FREED, i, &n)); i++)
		if (!memchr(s, 0, n))
			put(&u->freed, (const char *)s, n);
	u->more += msg_get_u64(done, CTL_TAG_MORE, 0);
}

/* A number may be another process's by now. */
static bool is_there(const char *pid, const char *command)
{
	const pid_t number = (pid_t)strtol(pid, NULL, 10);
	char name[PROC_COMMAND_BYTES];

	return proc_command(number, name) == 0 && !strcmp(name, command) &&
	       !proc_has_ended(number);
}

static void check_processes(struct umounted *u)
{
	const char *s = (const char *)u->stopped.data;
	const char *end = s + u->stopped.len;

	while (s && s < end) {
		const char *kind = s + strlen(s) + 1;
		const char *command = kind + strlen(kind) + 1;

		if (is_there(s, command)) {
			buf_printf(&u->remained, "process %s %s", s, command);
			buf_put_u8(&u->remained, 0);
		}
		s = command + strlen(command) + 1;
	}
}

static void check_mounts(struct umounted *u)
{
	_cleanup_(mountinfo_fini) struct mountinfo m = {0};
	const char *s = (const char *)u->freed.data;
	const char *end = s + u->freed.len;

	if (!s || mountinfo_read(&m) < 0)
		return;
	for (; s < end; s += strlen(s) + 1)
		if (!strncmp(s, MOUNT_WORD, strlen(MOUNT_WORD)) &&
		    mountinfo_has(&m, s + strlen(MOUNT_WORD)))
			put(&u->remained, s, strlen(s));
}

void umounted_check(struct umounted *u, const struct call *c, bool kept)
{
	check_processes(u);
	check_mounts(u);
	if (!kept && remote_has_env(c, u->env)) {
		buf_printf(&u->remained, "environment %s", u->env);
		buf_put_u8(&u->remained, 0);
	}
}
