/* SPDX-License-Identifier: MIT */
/*
 * Who changes the index, and a repair that puts another in its place.
 *
 * A process that had the old index open when a repair moved it away would
 * commit to a file in the quarantine, and say "done". So each commit shares the
 * flock of the folder index/, found anew by its name, and goes on only if that
 * is the folder that it has open; a repair has that flock alone from its first
 * look to its last.
 */
#include "store/guard_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/io.h"

static int lock_index(int store_fd, const char *name, int op)
{
	_cleanup_close_ int fd =
		openat(store_fd, name,
		       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (fd < 0)
		return -errno;
	r = io_lock(fd, op);
	return r < 0 ? r : TAKE_FD(fd);
}

int guard_look(int store_fd, struct guard *ret)
{
	struct stat st;

	if (fstatat(store_fd, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret = (struct guard){.dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

int guard_check(int store_fd, const struct guard *g)
{
	struct guard now = {0};

	if (guard_look(store_fd, &now) < 0 || now.dev != g->dev ||
	    now.ino != g->ino)
		return -ESTALE;
	return 0;
}

int guard_share(int store_fd, const struct guard *g, int *ret_fd)
{
	_cleanup_close_ int fd = lock_index(store_fd, "index", LOCK_SH);
	int r = fd < 0 ? fd : guard_check(store_fd, g);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return -ESTALE;
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int guard_alone(int store_fd, const char *name, int *ret_fd)
{
	const int fd = lock_index(store_fd, name, LOCK_EX | LOCK_NB);

	if (fd >= 0)
		*ret_fd = fd;
	return MIN(fd, 0);
}
