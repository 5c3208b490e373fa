/* SPDX-License-Identifier: MIT */
/*
 * end.c - every process of a sandbox ends, whatever it did to get away.
 *
 * How: first a database server that `cowfs db` started gets the time to write
 * all out. Then processes are found by their pid name space, which none can
 * leave, so double forks, sessions and names do not matter. SIGTERM first; who
 * is left after the grace is killed by the kernel when the first process is: it
 * kills everything in the pid name space, and the first process is not gone
 * before all the others are.
 */
#include "box/box_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/proc.h"
#include "box/record_int.h"

enum { KILL_MS = 5000, POLL_MS = 5, NS_PER_MS = 1000000 };

/* Which pid name space a process is in; 0: it has ended. */
static ino_t space_of(int proc, const char *pid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof path, "%.32s/ns/pid", pid);
	return fstatat(proc, path, &st, 0) < 0 ? 0 : st.st_ino;
}

/* Whether a process is in a pid name space that was made in another one. */
static bool is_nested(int proc, const char *pid, ino_t space)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof path, "%.32s/ns/pid", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0) {
		/* Beyond our own there is nothing to be seen. */
		int up = ioctl(fd, NS_GET_PARENT);

		(void)close(fd);
		fd = up;
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == space)
			return true;
	}
	return false;
}

static int list(pid_t init, struct buf *pids)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	char text[16];
	ino_t space, own;

	if (!dir)
		return -errno;
	(void)snprintf(text, sizeof text, "%d", (int)init);
	space = space_of(dirfd(dir), text);
	own = space_of(dirfd(dir), "self");
	while (space && (e = readdir(dir))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		ino_t there = pid > 0 && pid != init
				      ? space_of(dirfd(dir), e->d_name)
				      : 0;

		if (!there || there == own ||
		    (there != space &&
		     !is_nested(dirfd(dir), e->d_name, space)) ||
		    proc_has_ended(pid))
			continue;
		buf_put(pids, &pid, sizeof pid);
	}
	(void)closedir(dir);
	return buf_error(pids);
}

/* The first process of an environment's sandbox; the folder stays locked. */
static int open_init(const char *store, const char *env, int *ret_folder,
		     pid_t *ret_pid)
{
	_cleanup_close_ int folder = box_folder_open(store, env, false);
	int r;

	if (folder < 0)
		return folder == -ENOENT ? -ESRCH : folder;
	r = box_find(folder, ret_pid);
	if (r >= 0)
		*ret_folder = TAKE_FD(folder);
	return r;
}

int box_processes(const char *store, const char *env, struct buf *pids)
{
	_cleanup_close_ int folder = -1, pidfd = -1;
	pid_t init;

	pidfd = open_init(store, env, &folder, &init);
	if (pidfd < 0)
		return pidfd;
	buf_put(pids, &init, sizeof init);
	return list(init, pids);
}

static void signal_all(const struct buf *pids, int sig)
{
	for (size_t at = 0; at < pids->len; at += sizeof(pid_t)) {
		pid_t pid;

		memcpy(&pid, pids->data + at, sizeof pid);
		(void)kill(pid, sig);
	}
}

static ssize_t signal_listed(pid_t init, int sig)
{
	_cleanup_buf_ struct buf pids = {0};
	int r = list(init, &pids);

	if (r < 0)
		return r;
	signal_all(&pids, sig);
	return (ssize_t)(pids.len / sizeof(pid_t));
}

ssize_t box_signal(const char *store, const char *env, int sig)
{
	_cleanup_close_ int folder = -1, pidfd = -1;
	pid_t init;

	pidfd = open_init(store, env, &folder, &init);
	return pidfd < 0 ? pidfd : signal_listed(init, sig);
}

/* Asks them to end, and waits until they have or the time is over. */
static int ask_to_end(pid_t init, unsigned grace_ms, size_t *ret_count)
{
	const uint64_t end = clock_mono_ns() + (uint64_t)grace_ms * NS_PER_MS;
	ssize_t left = signal_listed(init, SIGTERM);

	if (left < 0)
		return (int)left;
	*ret_count = (size_t)left;
	/* What is stopped has to go on to end. */
	if (left)
		left = signal_listed(init, SIGCONT);
	while (left > 0 && clock_mono_ns() < end) {
		(void)poll(NULL, 0, POLL_MS);
		left = signal_listed(init, 0);
	}
	return 0;
}

/* bubblewrap itself, which waits for the first process, or -1. It holds
 * nothing, but is not to be seen any more when all has ended. */
static int open_monitor(pid_t init)
{
	char name[PROC_COMMAND_BYTES];
	struct proc_stat s;

	if (proc_stat(init, &s) < 0 || s.parent <= 1 ||
	    proc_command(s.parent, name) < 0 || strcmp(name, "bwrap") != 0)
		return -1;
	return pidfd_open(s.parent, 0);
}

static void wait_monitor(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	while (pidfd >= 0 && poll(&p, 1, KILL_MS) < 0 && errno == EINTR)
		;
}

int box_end_locked(int folder, unsigned grace_ms, struct box_ended *ret_ended)
{
	struct pollfd p = {.events = POLLIN};
	struct box_ended ended = {.was_there = true};
	_cleanup_close_ int pidfd = -1, monitor = -1;
	pid_t init;
	int r;

	*ret_ended = (struct box_ended){0};
	pidfd = box_find(folder, &init);
	if (pidfd == -ESRCH) {
		/* What one that was killed has left, or a start that was. */
		relay_end(folder);
		cgroup_remove(folder);
		return 0;
	}
	if (pidfd < 0)
		return pidfd;
	monitor = open_monitor(init);
	box_db_end(folder);
	r = ask_to_end(init, grace_ms, &ended.processes);
	if (r < 0)
		return r;
	if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return -errno;
	p.fd = pidfd;
	while ((r = poll(&p, 1, KILL_MS)) < 0 && errno == EINTR)
		;
	if (r <= 0)
		return r < 0 ? -errno : -EBUSY;
	wait_monitor(monitor);
	relay_end(folder);
	runs_settle(folder);
	cgroup_remove(folder);
	*ret_ended = ended;
	return 0;
}

int box_end(const char *store, const char *env, unsigned grace_ms,
	    struct box_ended *ret_ended)
{
	_cleanup_close_ int folder = box_folder_open(store, env, false);

	*ret_ended = (struct box_ended){0};
	if (folder < 0)
		return folder == -ENOENT ? 0 : folder;
	return box_end_locked(folder, grace_ms, ret_ended);
}

bool box_has_groups(const char *store, const char *env)
{
	_cleanup_close_ int folder = box_folder_open(store, env, false);

	return folder >= 0 && cgroup_any(folder);
}
