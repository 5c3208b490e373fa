/* SPDX-License-Identifier: MIT */
/*
 * How: one acceptor thread, one thread for each connection, at most
 * MAX_CONNECTIONS. A connection waits for a request with poll (long), then
 * receives it with a short limit, so that half a message does not keep a
 * thread. When all places are taken and another client knocks, the connection
 * that has waited longest without a whole request is closed: silent clients
 * cannot keep others out.
 *
 * The socket is made under a second name, listens, and is renamed into place:
 * a client finds an old dead socket or one that answers. The caller holds the
 * store's server lock, so nobody else's live socket can be replaced.
 *
 * Stopping shuts only the receiving half: a request that is being answered
 * still gets its DONE, then its thread reads the end.
 *
 * Rejected: one thread with non-blocking connections. A request may take
 * seconds (a mount, a busy unmount) and must not hold the others up.
 */
#include "ctl/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"

enum {
	MAX_CONNECTIONS = 64,
	BACKLOG = 128,
	IDLE_TIMEOUT_MS = 30000,
	RECV_TIMEOUT_MS = 5000,
	SEND_TIMEOUT_MS = 5000,
	EVICT_AFTER_NS = 250000000,
	RETRY_MS = 100,
};

#define SOCKET_NAME	 "ctl.sock"
#define SOCKET_TEMP_NAME "ctl.sock.new"

enum place {
	PLACE_FREE,
	PLACE_WAITING, /* for a whole request */
	PLACE_ANSWERING,
	PLACE_ENDED, /* the thread is to be joined */
};

struct connection {
	struct ctl_server *server;
	struct ctl_peer peer; /* set before the thread starts */
	pthread_t thread;
	enum place place;	/* protected by server->lock */
	uint64_t waiting_since; /* protected by server->lock */
};

struct ctl_server {
	int dir;
	int listener;
	int wake; /* eventfd: a connection ended, or stop */
	ctl_handler_fn fn;
	void *ctx;
	pthread_t acceptor;
	struct mutex lock;
	bool stopping; /* protected by lock */
	struct connection connections[MAX_CONNECTIONS];
};

static void wake(struct ctl_server *s)
{
	uint64_t one = 1;

	/* Fails only when the counter is full: then it is awake anyway. */
	(void)!write(s->wake, &one, sizeof one);
}

static void set_place(struct connection *c, enum place place)
{
	mutex_lock(&c->server->lock);
	c->place = place;
	c->waiting_since = clock_mono_ns();
	mutex_unlock(&c->server->lock);
}

static int wait_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

int ctl_send_row(const struct ctl_peer *peer, const struct msg *row)
{
	return msg_send(peer->fd, row, SEND_TIMEOUT_MS);
}

/* Takes and answers one request; non-zero ends the connection. */
static int serve_one(struct connection *c, struct msg *request,
		     struct msg *done)
{
	int r;

	set_place(c, PLACE_WAITING);
	r = wait_readable(c->peer.fd, IDLE_TIMEOUT_MS);
	if (r == 0)
		r = msg_recv(c->peer.fd, request, RECV_TIMEOUT_MS);
	if (r == 0)
		r = msg_check(request);
	if (r < 0)
		return r;
	set_place(c, PLACE_ANSWERING);
	msg_begin(done, CTL_DONE);
	r = c->server->fn(c->server->ctx, &c->peer, request, done);
	return r ? r : msg_send(c->peer.fd, done, SEND_TIMEOUT_MS);
}

static void *connection_run(void *arg)
{
	_cleanup_msg_ struct msg request = {0};
	_cleanup_msg_ struct msg done = {0};
	struct connection *c = arg;
	int r;

	do
		r = serve_one(c, &request, &done);
	while (r == 0);
	if (r == -EPROTO || r == -EMSGSIZE)
		log_warn("control: malformed message from pid %d, closed",
			 (int)c->peer.pid);
	set_place(c, PLACE_ENDED);
	wake(c->server);
	return NULL;
}

/* Joins threads that have ended. The descriptor is closed here, not in the
 * thread, so that nobody shuts down a number that was given out again. */
static void reap(struct ctl_server *s)
{
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &s->connections[i];
		bool ended;

		mutex_lock(&s->lock);
		ended = c->place == PLACE_ENDED;
		mutex_unlock(&s->lock);
		if (!ended)
			continue;
		(void)pthread_join(c->thread, NULL);
		(void)close(c->peer.fd);
		set_place(c, PLACE_FREE);
	}
}

static struct connection *find_free(struct ctl_server *s)
{
	struct connection *found = NULL;

	mutex_lock(&s->lock);
	for (size_t i = 0; i < MAX_CONNECTIONS && !found; i++) {
		if (s->connections[i].place == PLACE_FREE)
			found = &s->connections[i];
	}
	mutex_unlock(&s->lock);
	return found;
}

/* Closes the connection that has been silent longest, when it has been so for
 * long enough. */
static void evict(struct ctl_server *s)
{
	uint64_t oldest = clock_mono_ns() - EVICT_AFTER_NS;
	struct connection *found = NULL;

	mutex_lock(&s->lock);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &s->connections[i];

		if (c->place != PLACE_WAITING || c->waiting_since >= oldest)
			continue;
		oldest = c->waiting_since;
		found = c;
	}
	if (found)
		(void)shutdown(found->peer.fd, SHUT_RDWR);
	mutex_unlock(&s->lock);
}

static int read_peer(int fd, struct ctl_peer *ret_peer)
{
	struct ucred cred;
	socklen_t len = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret_peer = (struct ctl_peer){
		.pid = cred.pid, .uid = cred.uid, .gid = cred.gid, .fd = fd};
	return 0;
}

static void accept_one(struct ctl_server *s, struct connection *c)
{
	_cleanup_close_ int fd = -1;
	struct ctl_peer peer = {.uid = (uid_t)-1};

	fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || read_peer(fd, &peer) < 0)
		return;
	if (peer.uid != 0 && peer.uid != geteuid()) {
		log_warn("control: refused uid %u, pid %d", (unsigned)peer.uid,
			 (int)peer.pid);
		return;
	}
	c->server = s;
	c->peer = peer;
	set_place(c, PLACE_WAITING);
	if (pthread_create(&c->thread, NULL, connection_run, c) != 0) {
		set_place(c, PLACE_FREE);
		return;
	}
	(void)TAKE_FD(fd);
}

static bool is_stopping(struct ctl_server *s)
{
	bool stopping;

	mutex_lock(&s->lock);
	stopping = s->stopping;
	mutex_unlock(&s->lock);
	return stopping;
}

static void *acceptor_run(void *arg)
{
	struct ctl_server *s = arg;
	bool full = false;

	while (!is_stopping(s)) {
		struct pollfd p[2] = {{.fd = s->wake, .events = POLLIN},
				      {.fd = s->listener, .events = POLLIN}};
		struct connection *c;
		uint64_t count;

		/* Full: look again soon whether somebody may be evicted. */
		if (full)
			p[1].fd = -1;
		if (poll(p, 2, full ? RETRY_MS : -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents)
			(void)!read(s->wake, &count, sizeof count);
		reap(s);
		c = find_free(s);
		if (!c)
			evict(s);
		else if (p[1].revents)
			accept_one(s, c);
		full = !c;
	}
	return NULL;
}

/* Makes the socket; the path through /proc/self/fd is short in every store. */
static int listen_at(int dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)snprintf(address.sun_path, sizeof address.sun_path,
		       "/proc/self/fd/%d/" SOCKET_TEMP_NAME, dir);
	if (unlinkat(dir, SOCKET_TEMP_NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	/* The mode is the new file's from its first moment on. */
	if (fchmod(fd, 0600) < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	if (listen(fd, BACKLOG) < 0 ||
	    renameat(dir, SOCKET_TEMP_NAME, dir, SOCKET_NAME) < 0) {
		int r = -errno;

		(void)unlinkat(dir, SOCKET_TEMP_NAME, 0);
		return r;
	}
	return TAKE_FD(fd);
}

static void close_listener(struct ctl_server *s)
{
	if (s->listener < 0)
		return;
	(void)unlinkat(s->dir, SOCKET_NAME, 0);
	(void)close(TAKE_FD(s->listener));
}

static void server_free(struct ctl_server *s)
{
	if (!s)
		return;
	close_listener(s);
	if (s->wake >= 0)
		(void)close(s->wake);
	if (s->dir >= 0)
		(void)close(s->dir);
	mutex_fini(&s->lock);
	free(s);
}

static void server_freep(struct ctl_server **s)
{
	server_free(*s);
}

int ctl_server_start(int store_fd, ctl_handler_fn fn, void *ctx,
		     struct ctl_server **ret_server)
{
	_cleanup_(server_freep) struct ctl_server *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->listener = s->wake = -1;
	s->fn = fn;
	s->ctx = ctx;
	mutex_init(&s->lock);
	s->dir = fcntl(store_fd, F_DUPFD_CLOEXEC, 3);
	if (s->dir < 0)
		return -errno;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		return -errno;
	s->listener = listen_at(s->dir);
	if (s->listener < 0)
		return s->listener;
	r = pthread_create(&s->acceptor, NULL, acceptor_run, s);
	if (r != 0)
		return -r;
	*ret_server = TAKE_PTR(s);
	return 0;
}

/* Ends the waits for requests, lets answers be finished. */
static void end_connections(struct ctl_server *s)
{
	mutex_lock(&s->lock);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &s->connections[i];

		if (c->place == PLACE_WAITING || c->place == PLACE_ANSWERING)
			(void)shutdown(c->peer.fd, SHUT_RD);
	}
	mutex_unlock(&s->lock);
}

void ctl_server_stop(struct ctl_server *s)
{
	if (!s)
		return;
	mutex_lock(&s->lock);
	s->stopping = true;
	mutex_unlock(&s->lock);
	wake(s);
	(void)pthread_join(s->acceptor, NULL);
	/* From here on nobody else starts or joins connection threads, and
	 * whoever comes now finds no server, instead of a silent one. */
	close_listener(s);
	end_connections(s);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
		struct connection *c = &s->connections[i];
		bool used;

		mutex_lock(&s->lock);
		used = c->place != PLACE_FREE;
		mutex_unlock(&s->lock);
		if (!used)
			continue;
		(void)pthread_join(c->thread, NULL);
		(void)close(c->peer.fd);
	}
	server_free(s);
}
