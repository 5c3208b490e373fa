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
#include "base/proc.h"

enum {
	TEXT_MAX = 16 << 10,
	MS_PER_S = 1000,
	KIB = 1024,
};

static bool read_share(pid_t pid, uint64_t *ret_bytes)
{
	_cleanup_buf_ struct buf text = {0};
	char path[48];
	const char *line;

	(void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	if (io_read_file(AT_FDCWD, path, TEXT_MAX, &text) < 0 ||
	    !buf_str(&text))
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
	struct proc_stat s;
	uint64_t share;

	if (proc_stat(pid, &s) < 0)
		return;
	u->processes++;
	u->memory += read_share(pid, &share) ? share : s.resident * page;
	u->cpu_ms += s.ticks * MS_PER_S / tick;
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
