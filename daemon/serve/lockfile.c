/* SPDX-License-Identifier: MIT */
/*
 * How: flock on a file that is never removed (removing a lock file lets two
 * processes hold "the" lock, each on its own inode). The kernel frees it with
 * the last descriptor, however the processes ended.
 */
#include "serve/lockfile_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/io.h"

int lockfile_take(const char *store, int *ret_fd)
{
	_cleanup_close_ int dir = -1;
	_cleanup_close_ int fd = -1;
	int r;

	dir = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = io_open_file(dir, "server.lock", O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	r = io_lock(fd, LOCK_EX | LOCK_NB);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}
