/* SPDX-License-Identifier: MIT */
/*
 * How: a reply is sent up to the end of its text, with its descriptor as
 * ancillary data. What is received is checked against its own lengths, so that
 * a reply that was cut off cannot be read past its end.
 */
#include "serve/keeper_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int keeper_send_reply(int sock, const struct keeper_reply *reply, int fd,
		      int flags)
{
	union control control = {0};
	size_t n = offsetof(struct keeper_reply, text) +
		   MIN(reply->text_len, (uint32_t)KEEPER_TEXT_BYTES);
	struct iovec v = {(void *)reply, n};
	struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
	ssize_t k;

	if (fd >= 0) {
		struct cmsghdr *c;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof control.bytes;
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	do
		k = sendmsg(sock, &h, MSG_NOSIGNAL | flags);
	while (k < 0 && errno == EINTR);
	return k < 0 ? -errno : 0;
}

int keeper_recv_reply(int sock, struct keeper_reply *r, int *ret_fd, int flags)
{
	union control control = {0};
	struct iovec v = {r, sizeof *r};
	struct msghdr h = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof control.bytes};
	struct cmsghdr *c;
	ssize_t k;

	*ret_fd = -1;
	do
		k = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | flags);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return -errno;
	if (k == 0)
		return -ECONNRESET;
	c = CMSG_FIRSTHDR(&h);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof *ret_fd);
	if ((size_t)k < offsetof(struct keeper_reply, text) ||
	    (size_t)k < offsetof(struct keeper_reply, text) + r->text_len) {
		if (*ret_fd >= 0)
			(void)close(*ret_fd);
		*ret_fd = -1;
		return -EPROTO;
	}
	r->path[sizeof r->path - 1] = '\0';
	return 0;
}
