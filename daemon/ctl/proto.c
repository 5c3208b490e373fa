/* SPDX-License-Identifier: MIT */
/*
 * How: a message is built in one buffer behind its header, so that sending is
 * one writev-like call of length and bytes. Reading walks the fields from the
 * start each time: messages are small and have few fields, an index would be
 * one more thing to keep true.
 *
 * msg_check walks all fields once; after it the getters cannot run past the
 * end. They stay bounded without it as well, and find nothing then.
 *
 * Sending and receiving poll with what is left of the time limit, so that a
 * peer that sends or takes one byte now and then cannot hold us longer.
 */
#include "ctl/proto.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/clock.h"

enum {
	HEADER_BYTES = 4,
	FIELD_HEADER_BYTES = 8,
	NS_PER_MS = 1000000,
};

void msg_fini(struct msg *m)
{
	buf_fini(&m->bytes);
}

void msg_begin(struct msg *m, enum ctl_verb verb)
{
	buf_clear(&m->bytes);
	buf_put_u8(&m->bytes, CTL_VERSION);
	buf_put_u8(&m->bytes, (uint8_t)verb);
	buf_put_u16(&m->bytes, 0);
}

void msg_put(struct msg *m, enum ctl_tag tag, const void *data, size_t n)
{
	buf_put_u16(&m->bytes, (uint16_t)tag);
	buf_put_u16(&m->bytes, 0);
	buf_put_block(&m->bytes, data, n);
}

void msg_put_str(struct msg *m, enum ctl_tag tag, const char *s)
{
	msg_put(m, tag, s, strlen(s));
}

void msg_put_u64(struct msg *m, enum ctl_tag tag, uint64_t v)
{
	msg_put(m, tag, &v, sizeof v);
}

/* Takes the next field; false at the end and at the first malformed byte. */
static bool next_field(struct bytes *r, uint16_t *ret_tag,
		       const uint8_t **ret_data, size_t *ret_len)
{
	if (r->bad || r->left == 0)
		return false;
	*ret_tag = bytes_u16(r);
	if (bytes_u16(r) != 0)
		r->bad = true;
	*ret_data = bytes_block(r, CTL_MAX_MESSAGE, ret_len);
	return !r->bad;
}

static struct bytes fields_of(const struct msg *m)
{
	struct bytes r = bytes_of(m->bytes.data, m->bytes.len);

	(void)bytes_take(&r, HEADER_BYTES);
	return r;
}

int msg_check(const struct msg *m)
{
	struct bytes r = bytes_of(m->bytes.data, m->bytes.len);
	const uint8_t *data;
	uint16_t tag;
	size_t len;

	if (m->bytes.len > CTL_MAX_MESSAGE)
		return -EMSGSIZE;
	if (bytes_u8(&r) != CTL_VERSION)
		return -EPROTO;
	(void)bytes_u8(&r);
	if (bytes_u16(&r) != 0 || r.bad)
		return -EPROTO;
	while (next_field(&r, &tag, &data, &len))
		;
	return r.bad ? -EPROTO : 0;
}

enum ctl_verb msg_verb(const struct msg *m)
{
	return m->bytes.len < HEADER_BYTES ? 0 : m->bytes.data[1];
}

const uint8_t *msg_get(const struct msg *m, enum ctl_tag tag, size_t i,
		       size_t *ret_len)
{
	struct bytes r = fields_of(m);
	const uint8_t *data;
	uint16_t found;
	size_t len;

	while (next_field(&r, &found, &data, &len)) {
		if (found != (uint16_t)tag || i-- > 0)
			continue;
		*ret_len = len;
		return data;
	}
	return NULL;
}

int msg_get_str(const struct msg *m, enum ctl_tag tag, char *s, size_t size)
{
	size_t len;
	const uint8_t *data = msg_get(m, tag, 0, &len);

	if (!data)
		return -ENOENT;
	if (len == 0 || memchr(data, 0, len))
		return -EPROTO;
	if (len >= size)
		return -EMSGSIZE;
	memcpy(s, data, len);
	s[len] = '\0';
	return 0;
}

uint64_t msg_get_u64(const struct msg *m, enum ctl_tag tag, uint64_t fallback)
{
	size_t len;
	const uint8_t *data = msg_get(m, tag, 0, &len);

	return data && len == sizeof(uint64_t) ? bytes_load_u64(data)
					       : fallback;
}

/* Waits for an event until the deadline. */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		uint64_t now = clock_mono_ns();
		int r;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS + 1));
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

static uint64_t deadline_of(unsigned timeout_ms)
{
	return clock_mono_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

/* Says whether a failed call may be tried again after waiting. */
static bool is_transient(int err)
{
	return err == EAGAIN || err == EWOULDBLOCK || err == EINTR;
}

int msg_send(int fd, const struct msg *m, unsigned timeout_ms)
{
	uint64_t deadline = deadline_of(timeout_ms);
	uint32_t length = (uint32_t)m->bytes.len;
	size_t done = 0;
	int r = buf_error(&m->bytes);

	if (r < 0)
		return r;
	if (m->bytes.len > CTL_MAX_MESSAGE)
		return -EMSGSIZE;
	while (done < sizeof length + m->bytes.len) {
		size_t body = done > sizeof length ? done - sizeof length : 0;
		size_t head = MIN(done, sizeof length);
		struct iovec v[2] = {
			{(char *)&length + head, sizeof length - head},
			{m->bytes.data + body, m->bytes.len - body}};
		struct msghdr h = {.msg_iov = v, .msg_iovlen = 2};
		ssize_t k = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k >= 0) {
			done += (size_t)k;
			continue;
		}
		if (errno == EPIPE)
			return -ECONNRESET;
		if (!is_transient(errno))
			return -errno;
		r = wait_for(fd, POLLOUT, deadline);
		if (r < 0)
			return r;
	}
	return 0;
}

static int recv_all(int fd, void *data, size_t n, uint64_t deadline)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k =
			recv(fd, (char *)data + done, n - done, MSG_DONTWAIT);
		int r;

		if (k == 0)
			return -ECONNRESET;
		if (k > 0) {
			done += (size_t)k;
			continue;
		}
		if (!is_transient(errno))
			return -errno;
		r = wait_for(fd, POLLIN, deadline);
		if (r < 0)
			return r;
	}
	return 0;
}

int msg_recv(int fd, struct msg *m, unsigned timeout_ms)
{
	uint64_t deadline = deadline_of(timeout_ms);
	uint32_t length;
	int r;

	buf_clear(&m->bytes);
	r = recv_all(fd, &length, sizeof length, deadline);
	if (r < 0)
		return r;
	/* Bounded before a byte is allocated. */
	if (length > CTL_MAX_MESSAGE)
		return -EMSGSIZE;
	if (length < HEADER_BYTES)
		return -EPROTO;
	r = buf_resize(&m->bytes, length);
	if (r < 0)
		return r;
	return recv_all(fd, m->bytes.data, length, deadline);
}
