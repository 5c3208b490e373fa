/* SPDX-License-Identifier: MIT */
/*
 * lose_sync.c - fdatasync and fsync for builds that lose one kind of sync.
 *
 * Power cut tests must be able to fail. Each program cowfs_lose_KIND is cowfs,
 * linked once more with the linker's --wrap, so that these functions stand
 * between all of its code, LMDB's included, and the C library. LOSE_SYNC is a
 * pattern of the paths whose syncs are left out; the sources of cowfs have no
 * switch that a user's build could turn.
 */
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

int __real_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

static bool is_lost(int fd)
{
	char link[32], path[PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return fnmatch(LOSE_SYNC, path, 0) == 0;
}

int __wrap_fdatasync(int fd)
{
	return is_lost(fd) ? 0 : __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
	return is_lost(fd) ? 0 : __real_fsync(fd);
}
