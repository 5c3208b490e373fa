/* SPDX-License-Identifier: MIT */
/*
 * inside.c - sockets of a sandbox's network, for a process outside of it.
 *
 * How: a helper joins the name spaces and makes a socket for each byte that it
 * is sent: a socket stays where it was made, and can be handed over. It has to
 * be a process: what makes the network its own is not the user name space that
 * a user may join first, so both are joined at once, which a process with
 * threads cannot.
 */
#include "box/relay_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/io.h"

enum { BACKLOG = 128, ANSWER_MS = 5000, FD_HELPER = 3 };

static struct {
	pthread_mutex_t lock;
	int fd; /* protected by lock while it is used */
	pid_t pid;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* --- handing over -------------------------------------------------------- */

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

/* Sends an error, or a descriptor. */
static int send_result(int to, int fd)
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
	return sendmsg(to, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
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
	struct pollfd p = {.fd = from, .events = POLLIN};

	if (poll(&p, 1, ANSWER_MS) <= 0 ||
	    recvmsg(from, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof result)
		return -EIO;
	if (result < 0)
		return result;
	if (!m.msg_controllen || control.head.cmsg_type != SCM_RIGHTS)
		return -EIO;
	memcpy(&result, CMSG_DATA(&control.head), sizeof result);
	return result;
}

/* --- the helper ---------------------------------------------------------- */

static int make_listener(void)
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(BOX_PROXY),
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

static int make_socket(enum inside_kind kind)
{
	int fd;

	if (kind == INSIDE_PROXY)
		return make_listener();
	fd = socket(kind == INSIDE_V6 ? AF_INET6 : AF_INET,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 ? -errno : fd;
}

static _noreturn_ void helper_main(int pidfd, int fd)
{
	const int spaces = CLONE_NEWNET | (geteuid() ? CLONE_NEWUSER : 0);
	int r = setns(pidfd, spaces) < 0 ? -errno : 0;
	uint8_t kind;

	relay_drop_rights();
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (fd != FD_HELPER)
		(void)dup2(fd, FD_HELPER);
	(void)close_range(FD_HELPER + 1, ~0U, 0);
	while (recv(FD_HELPER, &kind, 1, 0) == 1) {
		_cleanup_close_ int made = r < 0 ? r : make_socket(kind);

		if (send_result(FD_HELPER, made) < 0)
			break;
	}
	_exit(0);
}

/* --- who asks it --------------------------------------------------------- */

int inside_start(int pidfd)
{
	int s[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0)
		return -errno;
	helper.pid = fork();
	if (helper.pid == 0)
		helper_main(pidfd, s[1]);
	(void)close(s[1]);
	helper.fd = s[0];
	return helper.pid < 0 ? -EAGAIN : 0;
}

int inside_socket(enum inside_kind kind)
{
	const uint8_t byte = (uint8_t)kind;
	int r;

	(void)pthread_mutex_lock(&helper.lock);
	r = send(helper.fd, &byte, 1, MSG_NOSIGNAL) == 1
		    ? receive_result(helper.fd)
		    : -EIO;
	(void)pthread_mutex_unlock(&helper.lock);
	return r;
}

int inside_fd(void)
{
	return helper.fd;
}

void inside_end(void)
{
	if (helper.pid <= 0)
		return;
	(void)kill(helper.pid, SIGKILL);
	while (waitpid(helper.pid, NULL, 0) < 0 && errno == EINTR)
		;
}
