/* SPDX-License-Identifier: MIT */
/*
 * How: fusermount3 (setuid root) is run with its stderr in a pipe, since its
 * words are the only account of what was wrong, and one end of a socket pair
 * whose number it finds in _FUSE_COMMFD. It sends the open /dev/fuse there and
 * exits.
 */
#include "serve/fusermount_int.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/io.h"
#include "serve/rights.h"

enum {
	EXIT_NO_EXEC = 127,
	NUMBER_BYTES = 16,
};

#define OPTIONS "default_permissions,fsname=cowfs,subtype=cowfs"

/* Becomes fusermount3. */
static _noreturn_ void become(char *const argv[], int comm, int err)
{
	char number[NUMBER_BYTES];

	(void)snprintf(number, sizeof number, "%d", comm);
	if (comm >= 0 && (fcntl(comm, F_SETFD, 0) < 0 ||
			  setenv("_FUSE_COMMFD", number, 1) < 0))
		_exit(1);
	(void)setenv("LC_ALL", "C", 1);
	if (dup2(err, STDERR_FILENO) < 0)
		_exit(1);
	(void)execvp(argv[0], argv);
	_exit(errno == ENOENT ? EXIT_NO_EXEC : 1);
}

/* Runs it to its end; its words go to the reply. Returns its exit status. */
static int run(char *const argv[], int comm, struct keeper_reply *reply)
{
	int status = 0;
	ssize_t n;
	pid_t pid;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become(argv, comm, p[1]);
	(void)close(p[1]);
	n = pid < 0 ? 0 : io_read(p[0], reply->text, sizeof reply->text - 1);
	(void)close(p[0]);
	if (pid < 0)
		return -EAGAIN;
	while (n > 0 && isspace((unsigned char)reply->text[n - 1]))
		n--;
	reply->text_len = n < 0 ? 0 : (uint32_t)n;
	reply->text[reply->text_len] = '\0';
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status))
		return -EIO;
	if (WEXITSTATUS(status) == EXIT_NO_EXEC)
		reply->text_len = (uint32_t)snprintf(
			reply->text, sizeof reply->text,
			"fusermount3 is not installed (package fuse3)");
	return WEXITSTATUS(status);
}

static int recv_fd(int sock)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte;
	struct iovec v = {&byte, 1};
	struct msghdr h = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&h);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/* Says what is missing, where that is known better than by its words. */
static void explain(uint32_t flags, struct keeper_reply *reply)
{
	static const struct {
		enum rights_need need;
		const char *what;
	} needs[] = {
		{RIGHTS_DEVICE, "/dev/fuse"},
		{RIGHTS_PROGRAM, "fusermount3"},
		{RIGHTS_ACCOUNT, "account"},
		{RIGHTS_OTHERS, "user_allow_other"},
	};
	char text[RIGHTS_TEXT_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		if (needs[i].need == RIGHTS_OTHERS &&
		    !(flags & KEEPER_FLAG_OTHERS))
			continue;
		if (rights_have(needs[i].need, text))
			continue;
		reply->text_len = (uint32_t)MIN(
			(size_t)snprintf(reply->text, sizeof reply->text,
					 "%s: %s", needs[i].what, text),
			sizeof reply->text - 1);
		return;
	}
}

int fusermount_mount(const char *path, uint32_t flags,
		     struct keeper_reply *reply, int *ret_fd)
{
	char options[128];
	char *argv[] = {(char *)"fusermount3", (char *)"-o", options,
			(char *)"--",	       (char *)path, NULL};
	int pair[2];
	int fd;
	int r;

	(void)snprintf(options, sizeof options, OPTIONS "%s%s",
		       flags & KEEPER_FLAG_READ_ONLY ? ",ro" : "",
		       flags & KEEPER_FLAG_OTHERS ? ",allow_other" : "");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	r = run(argv, pair[0], reply);
	fd = r == 0 ? recv_fd(pair[1]) : -EACCES;
	(void)close(pair[0]);
	(void)close(pair[1]);
	if (r > 0)
		explain(flags, reply);
	if (r < 0)
		return r;
	if (fd < 0)
		return fd;
	reply->text_len = 0;
	*ret_fd = fd;
	return 0;
}

int fusermount_unmount(const char *path, bool detach,
		       struct keeper_reply *reply)
{
	char *argv[] = {(char *)"fusermount3",
			(char *)"-u",
			(char *)(detach ? "-zq" : "-q"),
			(char *)"--",
			(char *)path,
			NULL};
	int r;

	if (!detach)
		argv[2] = (char *)"-u"; /* -q would hide "busy" */
	r = run(argv, -1, reply);
	if (r <= 0)
		return r;
	return strstr(reply->text, "busy") ? -EBUSY : -EACCES;
}
