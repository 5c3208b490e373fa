/* SPDX-License-Identifier: MIT */
/*
 * find.c - which process holds an environment's sandbox.
 *
 * How: the first process of a sandbox has a record lock (fcntl) on the file
 * `lock` and keeps it until it ends, whatever ends it; F_GETLK tells its id, in
 * the numbers of whoever asks. So there is no file with a process id that could
 * outlive its process and name another one.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#include "base/io.h"

enum { LOCK_TRIES = 4000, LOCK_MS = 4 };

/* Who starts or ends a sandbox has it for that long. */
static int lock(int fd)
{
	int r = io_lock(fd, LOCK_EX | LOCK_NB);

	for (int i = 0; r == -EBUSY && i < LOCK_TRIES; i++) {
		(void)poll(NULL, 0, LOCK_MS);
		r = io_lock(fd, LOCK_EX | LOCK_NB);
	}
	return r;
}

int box_env_open(const char *store, const char *env, const char *below)
{
	_cleanup_buf_ struct buf path = {0};
	int fd;

	buf_printf(&path, "%s/envs/%s%s", store, env, below);
	if (!buf_str(&path))
		return -ENOMEM;
	fd = open(buf_str(&path),
		  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int box_folder_open(const char *store, const char *env, bool make)
{
	_cleanup_close_ int parent = box_env_open(store, env, ""), fd = -1;
	int r;

	if (parent < 0)
		return parent;
	if (make && mkdirat(parent, "box", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, "box",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = lock(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

int box_lock_file(int folder)
{
	return io_open_file(folder, "lock", O_RDWR | O_CREAT);
}

int box_lock_holder(int fd, pid_t *ret_pid)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -errno;
	if (lock.l_type == F_UNLCK)
		*ret_pid = 0;
	else if (lock.l_pid > 0)
		*ret_pid = lock.l_pid;
	else
		return -EXDEV; /* in a pid name space that we do not see */
	return 0;
}

int box_find(int folder, pid_t *ret_pid)
{
	_cleanup_close_ int fd = io_open_file(folder, "lock", O_RDWR);
	_cleanup_close_ int pidfd = -1;
	pid_t pid = 0, again = 0;
	int r;

	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	r = box_lock_holder(fd, &pid);
	if (r < 0 || !pid)
		return r < 0 ? r : -ESRCH;
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		return errno == ESRCH ? -ESRCH : -errno;
	/* Between the two calls it may have ended, and its number been given
	 * to another one; who still holds the lock had it all the time. */
	r = box_lock_holder(fd, &again);
	if (r < 0 || again != pid)
		return r < 0 ? r : -ESRCH;
	*ret_pid = pid;
	return TAKE_FD(pidfd);
}
