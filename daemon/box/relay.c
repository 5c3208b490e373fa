/* SPDX-License-Identifier: MIT */
/*
 * relay.c - the way out of a sandbox with a network of its own.
 *
 * How: one process beside the sandbox, outside of it. A helper joins the
 * sandbox's name spaces, makes a listening socket there and hands it over: a
 * socket stays in the name space that it was made in, so connections come from
 * inside and go on from outside (proxy.c). It works without root and without a
 * tun device.
 *
 * The relay holds a lock, by which it is found, and ends when the sandbox's
 * first process does. One that was killed is started anew by the next command.
 * It has no rights, no descriptor of the caller's, and is nobody's child.
 */
#include "box/box_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"

enum {
	CONNECTIONS_MAX = 256,
	BACKLOG = 128,
	STACK_BYTES = 256 * 1024,
	START_MS = 10000,
	END_MS = 2000,
	POLL_MS = 2,
};

/* --- a socket made inside ------------------------------------------------ */

static int make_listener(void)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(BOX_PROXY_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	_cleanup_close_ int fd =
		socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	/* Connections of a relay that was killed may linger. */
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

/* Sends an error, or a descriptor. */
static void send_result(int to, int fd)
{
	union control control = {0};
	struct iovec part = {.iov_base = &fd, .iov_len = sizeof fd};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	(void)sendmsg(to, &m, MSG_NOSIGNAL);
}

static int receive_result(int from)
{
	union control control = {0};
	int result = -EIO;
	struct iovec part = {.iov_base = &result, .iov_len = sizeof result};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof control};

	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof result)
		return -EIO;
	if (result < 0)
		return result;
	if (!m.msg_controllen || control.head.cmsg_type != SCM_RIGHTS)
		return -EIO;
	memcpy(&result, CMSG_DATA(&control.head), sizeof result);
	return result;
}

/* The listening socket of a sandbox. */
static int listen_inside(int pidfd)
{
	const int spaces = CLONE_NEWNET | (geteuid() ? CLONE_NEWUSER : 0);
	int s[2], fd;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		fd = setns(pidfd, spaces) < 0 ? -errno : make_listener();
		send_result(s[1], fd);
		_exit(0);
	}
	(void)close(s[1]);
	fd = pid < 0 ? -EAGAIN : receive_result(s[0]);
	(void)close(s[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}

/* --- the process --------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	size_t count; /* protected by lock */
	struct proxy_rules rules;
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *connection_main(void *arg)
{
	const int fd = (int)(intptr_t)arg;

	proxy_serve(fd, &relay.rules);
	(void)close(fd);
	(void)pthread_mutex_lock(&relay.lock);
	relay.count--;
	(void)pthread_mutex_unlock(&relay.lock);
	return NULL;
}

/* One connection more; refused where there are too many, so that none of a
 * sandbox's processes can stop the others for good. */
static void take_connection(int listener, const pthread_attr_t *attr)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	pthread_t thread;
	bool full;

	if (fd < 0) {
		/* Out of descriptors: not a busy loop. */
		if (errno != EAGAIN && errno != EINTR)
			(void)poll(NULL, 0, POLL_MS);
		return;
	}
	(void)pthread_mutex_lock(&relay.lock);
	full = relay.count >= CONNECTIONS_MAX;
	relay.count += !full;
	(void)pthread_mutex_unlock(&relay.lock);
	if (!full && !pthread_create(&thread, attr, connection_main,
				     (void *)(intptr_t)fd))
		return;
	(void)close(fd);
	if (full)
		return;
	(void)pthread_mutex_lock(&relay.lock);
	relay.count--;
	(void)pthread_mutex_unlock(&relay.lock);
}

static _noreturn_ void serve(int listener, int pidfd)
{
	struct pollfd p[] = {{.fd = listener, .events = POLLIN},
			     {.fd = pidfd, .events = POLLIN}};
	pthread_attr_t attr;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (;;) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[1].revents)
			_exit(0); /* the sandbox has ended */
		if (p[0].revents)
			take_connection(listener, &attr);
	}
}

static void drop_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)syscall(SYS_capset, &head, none);
}

/* Keeps the descriptors of the relay and closes every other one. */
static int keep_only(int *fds, size_t count)
{
	enum { BASE = 64 };

	for (size_t i = 0; i < count; i++) {
		fds[i] =
			fcntl(fds[i], F_DUPFD_CLOEXEC, BASE + (int)(2 * count));
		if (fds[i] < 0)
			return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		if (dup3(fds[i], BASE + (int)i, O_CLOEXEC) < 0)
			return -errno;
		fds[i] = BASE + (int)i;
	}
	(void)close_range(3, BASE - 1, 0);
	(void)close_range(BASE + (unsigned)count, ~0U, 0);
	return 0;
}

static _noreturn_ void relay_main(const struct box_spec *spec, int folder,
				  int pidfd, int out)
{
	enum { FD_OUT, FD_PIDFD, FD_LOCK, FD_COUNT };
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fds[FD_COUNT] = {out, pidfd,
			     io_open_file(folder, "relay", O_RDWR | O_CREAT)};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r, listener;

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)setsid();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "cowfs-relay");
	for (int i = 0; null >= 0 && i <= 2; i++)
		(void)dup2(null, i);
	r = chdir("/") < 0 ? -errno : keep_only(fds, FD_COUNT);
	/* A lock ends with the first close of its file: taken last. */
	if (!r && fcntl(fds[FD_LOCK], F_SETLK, &lock) < 0)
		r = -errno;
	listener = r ? r : listen_inside(fds[FD_PIDFD]);
	relay.rules = (struct proxy_rules){.allow = spec->allow,
					   .count = spec->allow_count};
	drop_rights();
	(void)!write(r ? out : fds[FD_OUT], &listener, sizeof listener);
	if (listener < 0)
		_exit(1);
	(void)close(fds[FD_OUT]);
	serve(listener, fds[FD_PIDFD]);
}

/* --- from outside -------------------------------------------------------- */

/* Returns who is the relay, 0: none. */
static pid_t find_relay(int folder)
{
	_cleanup_close_ int fd = io_open_file(folder, "relay", O_RDWR);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK ||
	    lock.l_pid < 0)
		return 0;
	return lock.l_pid;
}

static int wait_started(int in, struct diag *diag)
{
	struct pollfd p = {.fd = in, .events = POLLIN};
	int r, result = -EIO;

	while ((r = poll(&p, 1, START_MS)) < 0 && errno == EINTR)
		;
	if (r == 0)
		result = -ETIMEDOUT;
	else if (io_read(in, &result, sizeof result) != (ssize_t)sizeof result)
		result = -EIO;
	return result >= 0 ? 0
			   : diag_fail(diag, result,
				       "cannot start the proxy of its network: "
				       "%s",
				       err_text(result));
}

int relay_start(const struct box_spec *spec, int folder, int pidfd,
		struct diag *diag)
{
	_cleanup_close_ int in = -1;
	int p[2], r;
	pid_t pid;

	if (spec->net != BOX_NET_PRIVATE || find_relay(folder))
		return 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	pid = fork();
	if (pid == 0) {
		/* Nobody's child. */
		pid = fork();
		if (pid == 0)
			relay_main(spec, folder, pidfd, p[1]);
		_exit(pid < 0);
	}
	r = pid < 0 ? -errno : 0;
	(void)close(p[1]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r ? r : wait_started(in, diag);
}

/* It sees the end of the sandbox by itself; one that does not is killed. */
void relay_end(int folder)
{
	pid_t pid = find_relay(folder);

	for (int i = 0; pid && i < END_MS / POLL_MS; i++) {
		(void)poll(NULL, 0, POLL_MS);
		pid = find_relay(folder);
	}
	if (pid)
		(void)kill(pid, SIGKILL);
}
