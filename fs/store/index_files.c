/* SPDX-License-Identifier: MIT */
/*
 * What LMDB does not ask about its files. In place of a missing data.mdb it
 * would make an empty one. A lock.mdb that is too short it makes anew if it is
 * the first to open it; otherwise it counts with its size as it is, and ends by
 * a signal. Who is the first a record lock in the file tells. (Such locks go
 * when any descriptor of the file is closed: so this looks before LMDB does.)
 */
#include "store/index_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

enum {
	LOCK_FILE_MIN = 8192, /* one of 512 readers has 32 KiB and more */
	PAUSES = 20,
	PAUSE_NS = 5000000,
};

static int check_lock_file(int dir)
{
	_cleanup_close_ int fd = io_open_file(dir, "lock.mdb", O_RDONLY);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;

	if (fd < 0) /* LMDB says it better */
		return fd == -EFSCORRUPTED ? fd : 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size >= LOCK_FILE_MIN)
		return 0;
	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -errno;
	return lock.l_type == F_UNLCK ? 0 : -EFSCORRUPTED;
}

/* Too short may also be one that another is just making. */
static int wait_for_lock_file(int dir)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int r = check_lock_file(dir);

	for (int i = 0; r == -EFSCORRUPTED && i < PAUSES; i++) {
		(void)nanosleep(&pause, NULL);
		r = check_lock_file(dir);
	}
	return r;
}

int index_check_files(const char *dir)
{
	_cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstatat(fd, "data.mdb", &st, 0) < 0)
		return errno == ENOENT ? -EFSCORRUPTED : -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return -EFSCORRUPTED;
	return wait_for_lock_file(fd);
}
