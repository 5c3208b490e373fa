/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first process of a sandbox.
 *
 * It holds the name spaces and collects orphans, and does nothing else. When it
 * is killed, the kernel kills every process of its pid name space: that is what
 * makes the end of a sandbox certain.
 *
 * Nobody inside may reach its memory, its descriptors or the program that it
 * was executed from (/proc/1/exe is a file of the host): it is not dumpable, so
 * /proc/1 is closed to processes without capabilities.
 */
#include "box/box_int.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

/* fd is a socket to whoever starts the sandbox, fd + 1 the lock file. */
_noreturn_ void box_init_main(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const char ready = BOX_INIT_READY;
	const int lock_fd = fd + 1;
	int null;

	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "cowfs-init");
	/* Orphans vanish without being waited for. */
	(void)signal(SIGCHLD, SIG_IGN);
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
	for (;;)
		(void)pause();
}
