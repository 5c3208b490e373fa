/* SPDX-License-Identifier: MIT */
/*
 * doctor_mounts.c - finding mounts that nobody serves, without touching them.
 *
 * Below STORE/mnt a mount is dead when no server of the store runs, even if a
 * stray process holds its connection: then it is wedged, and whoever looks
 * into it waits for ever. Elsewhere (--at) it may be another store's. Recent
 * kernels tell in /proc/P/fdinfo/N which connection a descriptor of /dev/fuse
 * belongs to (seen with 6.18); a mount of ours whose connection nobody holds is
 * dead. Where the kernel does not tell, or processes are hidden from us, such
 * mounts are left alone.
 *
 * Mounts are listed before the lock of the store is tried. So those of a server
 * that starts meanwhile are not in the list, and are not taken for dead.
 *
 * The connection is aborted first, so that nothing that waits in the mount
 * waits on, then the mount is detached. Neither waits for a FUSE server, but a
 * child with a time limit does it all the same.
 */
#include "cli/doctor.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/name.h"
#include "cli/remote.h"

enum {
	UMOUNT_MS = 3000,
	POLL_MS = 5,
	NS_PER_MS = 1000000,
	FDINFO_MAX = 1 << 16,
};
#define OUR_TYPE "fuse.cowfs"

/* --- unmounting -------------------------------------------------------- */

/* The owner of a mount may do this where the folder is mounted. */
static void abort_connection(unsigned minor)
{
	_cleanup_close_ int fd = -1;
	char path[64];

	(void)snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort",
		       minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!io_write(fd, "1", 1);
}

static _noreturn_ void detach(const struct mount_line *m)
{
	const char *path = m->path;

	if (!strcmp(m->type, OUR_TYPE))
		abort_connection(m->minor);
	/* This aborts, too; the mount stays when something uses it. */
	if (geteuid() == 0 && !umount2(path, MNT_FORCE | UMOUNT_NOFOLLOW))
		_exit(0);
	if (geteuid() == 0)
		_exit(umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) ? 1 : 0);
	(void)execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", path,
		     (char *)NULL);
	_exit(1);
}

static bool unmount(const struct mount_line *m)
{
	uint64_t end = clock_mono_ns() + (uint64_t)UMOUNT_MS * NS_PER_MS;
	pid_t pid = fork();
	int state;

	if (pid == 0)
		detach(m);
	while (pid > 0) {
		pid_t r = waitpid(pid, &state, WNOHANG);

		if (r == pid)
			return WIFEXITED(state) && !WEXITSTATUS(state);
		if ((r < 0 && errno != EINTR) || clock_mono_ns() > end)
			break;
		(void)poll(NULL, 0, POLL_MS);
	}
	if (pid > 0)
		(void)kill(pid, SIGKILL);
	return false;
}

/* --- whose connection -------------------------------------------------- */

struct holders {
	struct buf minors; /* unsigned each: connections that somebody holds */
	bool complete;	   /* every descriptor of /dev/fuse was understood */
};

static void add_descriptor(struct holders *h, int proc, const char *pid,
			   const char *fd)
{
	static const char key[] = "fuse_connection:";
	_cleanup_buf_ struct buf text = {0};
	char path[600];
	const char *s;
	unsigned minor;

	(void)snprintf(path, sizeof path, "%s/fdinfo/%s", pid, fd);
	if (io_read_file(proc, path, FDINFO_MAX, &text) < 0)
		return; /* closed meanwhile */
	s = buf_str(&text);
	s = s ? strstr(s, key) : NULL;
	if (!s) {
		h->complete = false;
		return;
	}
	minor = (unsigned)strtoul(s + sizeof key - 1, NULL, 10);
	buf_put(&h->minors, &minor, sizeof minor);
}

static void add_process(struct holders *h, int proc, const char *pid)
{
	char path[300], target[32];
	const struct dirent *e;
	DIR *dir;
	int r;

	(void)snprintf(path, sizeof path, "%s/fd", pid);
	r = io_open_names(proc, path, 0, &dir);
	if (r < 0) {
		h->complete &= r == -ENOENT || r == -ESRCH;
		return;
	}
	while ((e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target,
				       sizeof target);

		if (n == (ssize_t)strlen("/dev/fuse") &&
		    !memcmp(target, "/dev/fuse", (size_t)n))
			add_descriptor(h, proc, pid, e->d_name);
	}
	(void)closedir(dir);
}

static void find_holders(struct holders *h)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;

	h->complete = dir != NULL;
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			add_process(h, dirfd(dir), e->d_name);
	if (dir)
		(void)closedir(dir);
}

static bool is_held(const struct holders *h, unsigned minor)
{
	for (size_t at = 0; at < h->minors.len; at += sizeof minor) {
		unsigned held;

		memcpy(&held, h->minors.data + at, sizeof held);
		if (held == minor)
			return true;
	}
	return false;
}

/* --- findings ---------------------------------------------------------- */

static bool is_below(const char *path, const char *dir)
{
	const char *rest = name_below(path, dir);

	return rest && *rest;
}

static bool is_dead(const struct doctor *d, const struct holders *h,
		    const struct mount_line *m, const char *mnt)
{
	if (strcmp(m->type, OUR_TYPE) != 0)
		return false;
	if (is_below(m->path, mnt) && !d->running)
		return true;
	return h->complete && !is_held(h, m->minor);
}

/* Whether it is still that mount: a new server may have mounted there. */
static bool is_there(const struct mount_line *m)
{
	_cleanup_(mountinfo_fini) struct mountinfo now = {0};

	if (mountinfo_read(&now))
		return true;
	for (size_t i = 0; i < now.count; i++)
		if (now.v[i].minor == m->minor &&
		    !strcmp(now.v[i].path, m->path))
			return true;
	return false;
}

void doctor_mounts(struct doctor *d)
{
	struct holders h = {0};
	char mnt[4352];

	(void)snprintf(mnt, sizeof mnt, "%s/mnt", d->c->store);
	find_holders(&h);
	/* The newest first: one may lie on another. */
	for (size_t i = d->mounts.count; i > 0; i--) {
		struct mount_line *m = &d->mounts.v[i - 1];
		bool place = !strcmp(m->path, mnt) && !d->running;

		if (!place && !is_dead(d, &h, m, mnt))
			continue;
		if (d->fix && (!is_there(m) || unmount(m))) {
			doctor_problem(d, m->path, true,
				       "a mount that nobody serves");
			m->path[0] = 0;
			continue;
		}
		doctor_problem(d, m->path, false, "%s",
			       place ? "still a mount, but no server runs"
				     : "a mount that nobody serves");
	}
	buf_fini(&h.minors);
}
