/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first process of a sandbox, a program of its own.
 *
 * It holds the name spaces and collects orphans, and does nothing else. When it
 * is killed, the kernel kills every process of its pid name space: that is what
 * makes the end of a sandbox certain.
 *
 * It is linked statically and is a part of cowfs (init_image.c): in a sandbox
 * whose root is an environment there are no libraries of ours, and those of the
 * root are for its commands alone.
 *
 * Nobody inside may reach its memory or its descriptors: it is not dumpable, so
 * /proc/1 is closed to processes without capabilities.
 */
#include "box/init.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void hold(int fd, int lock_fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const char ready = BOX_INIT_READY;
	int null;

	if (fcntl(lock_fd, F_SETLK, &lock) < 0)
		_exit(1);
	null = open("/dev/null", O_RDWR);
	for (int i = 0; null >= 0 && i <= 2; i++)
		(void)dup2(null, i);
	if (write(fd, &ready, 1) != 1)
		_exit(1);
	if (lock_fd > 3)
		(void)close_range(3, (unsigned)lock_fd - 1, 0);
	(void)close_range((unsigned)lock_fd + 1, ~0U, 0);
}

int main(int argc, char **argv)
{
	const long fd = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

	if (fd < 3 || fd > INT_MAX - 1 || getpid() != 1)
		return 2;
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "cowfs-init");
	/* Orphans vanish without being waited for. */
	(void)signal(SIGCHLD, SIG_IGN);
	hold((int)fd, (int)fd + 1);
	for (;;)
		(void)pause();
}
