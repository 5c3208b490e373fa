/* SPDX-License-Identifier: MIT */
/*
 * usage.c - what the processes of a sandbox take.
 *
 * How: /proc tells it of each process. Memory is the proportional share (a page
 * that three processes have counts a third for each), so that the sum is what
 * they take together; where the kernel does not tell that, it is what is
 * resident. Processor time is that of the living processes and of those that
 * they have waited for: what an orphan took, nobody counts.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"

enum {
	TEXT_MAX = 16 << 10,
	MS_PER_S = 1000,
	KIB = 1024,
	/* Fields of /proc/PID/stat behind the command, from 0. */
	FIELD_TIMES = 11, /* own in user and system, of children likewise */
	FIELD_RESIDENT = 21,
};

static int read_proc(pid_t pid, const char *name, struct buf *text)
{
	char path[64];
	int r;

	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	r = io_read_file(AT_FDCWD, path, TEXT_MAX, text);
	return r || buf_str(text) ? r : -ENOMEM;
}

static bool read_share(pid_t pid, uint64_t *ret_bytes)
{
	_cleanup_buf_ struct buf text = {0};
	const char *line;

	if (read_proc(pid, "smaps_rollup", &text) < 0)
		return false;
	line = strstr((const char *)text.data, "\nPss:");
	if (line)
		*ret_bytes = strtoull(line + 5, NULL, 10) * KIB;
	return line;
}

/* Adds a process; one that has ended meanwhile takes nothing. */
static void add(pid_t pid, struct box_usage *u)
{
	const uint64_t tick = (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1);
	const uint64_t page = (uint64_t)MAX(sysconf(_SC_PAGESIZE), 1);
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *field;
	uint64_t ticks = 0, resident = 0, share;

	if (read_proc(pid, "stat", &text) < 0)
		return;
	/* The command may have any characters. */
	field = strrchr((char *)text.data, ')');
	field = field ? strtok_r(field + 1, " ", &save) : NULL;
	for (int i = 0; field; i++, field = strtok_r(NULL, " ", &save)) {
		if (i >= FIELD_TIMES && i < FIELD_TIMES + 4)
			ticks += strtoull(field, NULL, 10);
		else if (i == FIELD_RESIDENT)
			resident = strtoull(field, NULL, 10) * page;
	}
	u->processes++;
	u->memory += read_share(pid, &share) ? share : resident;
	u->cpu_ms += ticks * MS_PER_S / tick;
}

int box_usage(const char *store, const char *env, struct box_usage *ret)
{
	_cleanup_buf_ struct buf pids = {0};
	struct box_usage u = {0};
	int r = box_processes(store, env, &pids);

	/* The first is ours. */
	for (size_t at = sizeof(pid_t); r == 0 && at < pids.len;
	     at += sizeof(pid_t)) {
		pid_t pid;

		memcpy(&pid, pids.data + at, sizeof pid);
		add(pid, &u);
	}
	if (r == 0 || r == -ESRCH)
		*ret = u;
	return r == -ESRCH ? 0 : r;
}
