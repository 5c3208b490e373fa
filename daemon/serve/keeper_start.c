/* SPDX-License-Identifier: MIT */
/*
 * How: each step cuts one tie to the command that started us, or prepares what
 * the loop of keeper.c relies on.
 *
 * STORE/mnt is made a shared mount of its own (first private, so that it is no
 * peer of a shared /): unmounting below it reaches the copies that sandboxes
 * have of it.
 */
#include "serve/keeper_int.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

enum {
	SWEEP_TIMEOUT_S = 10,
	LOG_FD = STDERR_FILENO,
};

/* Detaches what a killed keeper left, in a child with a time limit. */
void keeper_sweep(const char *store)
{
	struct timespec limit = {.tv_sec = SWEEP_TIMEOUT_S};
	sigset_t set;
	pid_t pid = fork();

	if (pid == 0) {
		(void)close_range(3, ~0U, 0);
		keeper_child_sweep(store);
		_exit(0);
	}
	if (pid < 0)
		return;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigtimedwait(&set, NULL, &limit) < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, WNOHANG);
}

/* A tmpfs: making and removing a mount point on a disk costs milliseconds, and
 * nothing of it is to stay. Where it cannot be had, the folder itself. */
static int mount_mnt(const char *mnt)
{
	if (mount("cowfs", mnt, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "mode=0755,size=1m,nr_inodes=65536") == 0)
		return 0;
	return mount(mnt, mnt, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

bool keeper_share(const char *store)
{
	char mnt[KEEPER_PATH_BYTES + 8];
	struct stat st;
	int r;

	(void)snprintf(mnt, sizeof mnt, "%s/mnt", store);
	if (mkdir(mnt, 0755) < 0 && errno != EEXIST)
		log_error("keeper: %s: %s", mnt, err_text(errno));
	if (geteuid() != 0)
		return false;
	/* Others pass through to environments that mode bits open; everything
	 * else in the store is closed to them by its own mode. */
	(void)chmod(mnt, 0755);
	if (stat(store, &st) == 0 && (st.st_mode & 0777) == 0700)
		(void)chmod(store, 0711);
	r = mount_mnt(mnt);
	if (r < 0) {
		log_warn("keeper: cannot mount %s: %s", mnt, err_text(r));
		return false;
	}
	if (mount(NULL, mnt, NULL, MS_PRIVATE, NULL) < 0 ||
	    mount(NULL, mnt, NULL, MS_SHARED, NULL) < 0)
		log_warn("keeper: cannot share %s: %s", mnt, err_text(errno));
	return true;
}

void keeper_unshare(const char *store)
{
	char mnt[KEEPER_PATH_BYTES + 8];

	(void)snprintf(mnt, sizeof mnt, "%s/mnt", store);
	if (umount2(mnt, UMOUNT_NOFOLLOW) == 0)
		return;
	if (umount2(mnt, UMOUNT_NOFOLLOW | MNT_DETACH) < 0)
		log_warn("keeper: cannot unmount %s: %s", mnt, err_text(errno));
}

/* Cuts all ties to the command that started us. */
int keeper_detach(const char *store, int ready_fd)
{
	struct rlimit files;
	char name[KEEPER_PATH_BYTES + 16];
	int fd;

	(void)setsid(); /* fails when it is one already */
	(void)umask(077);
	if (chdir("/") < 0)
		return -errno;
	(void)snprintf(name, sizeof name, "%s/server.log", store);
	fd = io_open_file(AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND);
	if (fd < 0)
		return fd;
	if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, LOG_FD) < 0)
		return -errno;
	(void)close(fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
		return -errno;
	(void)close(fd);
	if (ready_fd > 3)
		(void)close_range(3, (unsigned)ready_fd - 1, 0);
	(void)close_range((unsigned)ready_fd + 1, ~0U, 0);
	(void)fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	log_open(LOG_FD, LOG_LEVEL_INFO);
	return 0;
}

int keeper_signals(void)
{
	static const int handled[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
	sigset_t set;

	/* What the command ignored or handled is not ours. */
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++)
		(void)sigaddset(&set, handled[i]);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
