/* SPDX-License-Identifier: MIT */
/*
 * How: one poll loop over the server's socket, a signalfd and the sockets of
 * the children at work. The keeper itself makes no call on any mount, so it
 * never blocks; a child that takes longer than CHILD_TIMEOUT is killed and its
 * request answered with -ETIMEDOUT.
 *
 * It has a duplicate of each FUSE descriptor, so that a mount outlives the
 * server that answers it. In this version nothing takes over: when the server
 * has ended, for whatever reason, all duplicates are closed (the kernel then
 * ends the connections, waiting calls get ENOTCONN, nobody hangs), children
 * detach the dead mounts, and the keeper ends.
 */
#include "serve/keeper_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "serve/lockfile_int.h"
#include "serve/serve.h"
#include "serve/serve_int.h"

enum {
	MAX_CHILDREN = 48,
	CHILD_TIMEOUT_MS = 10000,
	NS_PER_MS = 1000000,
	SOCKET_BYTES = 1 << 20,
};

struct child {
	pid_t pid;
	int sock; /* -1: has answered */
	uint64_t deadline_ns;
	struct keeper_request request;
};

struct kept_mount {
	struct kept_mount *next;
	uint32_t id;
	int fd;
	bool unmounted;
	bool made;
	char path[];
};

struct keeper {
	char store[KEEPER_PATH_BYTES]; /* real path */
	int server;		       /* socket; -1: closed */
	int signals;
	pid_t server_pid; /* 0: has ended */
	struct kept_mount *mounts;
	struct child children[MAX_CHILDREN]; /* pid 0: free */
	struct keeper_reply reply;
};

void serve_say(int ready_fd, const char *line)
{
	(void)!write(ready_fd, line, strlen(line));
	(void)!write(ready_fd, "\n", 1);
}

static struct child *find_child(struct keeper *k, pid_t pid)
{
	for (size_t i = 0; i < MAX_CHILDREN; i++) {
		if (k->children[i].pid == pid)
			return &k->children[i];
	}
	return NULL;
}

static bool has_children(const struct keeper *k)
{
	for (size_t i = 0; i < MAX_CHILDREN; i++) {
		if (k->children[i].pid != 0)
			return true;
	}
	return false;
}

static void send_to_server(struct keeper *k, const struct keeper_reply *reply,
			   int fd)
{
	int r;

	if (k->server < 0)
		return;
	r = keeper_send_reply(k->server, reply, fd, MSG_DONTWAIT);
	if (r < 0)
		log_error("keeper: cannot answer the server: %s", err_text(r));
}

static void send_failure(struct keeper *k, uint32_t id, int err)
{
	memset(&k->reply, 0, offsetof(struct keeper_reply, text));
	k->reply.id = id;
	k->reply.result = err;
	send_to_server(k, &k->reply, -1);
}

/* --- children ----------------------------------------------------------- */

static _noreturn_ void child_main(const struct keeper *k,
				  const struct keeper_request *q, int sock)
{
	sigset_t none;

	/* Nothing of the keeper may live on here: neither the FUSE
	 * descriptors nor the lock. */
	if (dup2(sock, 3) < 0)
		_exit(1);
	(void)close_range(4, ~0U, 0);
	(void)fcntl(3, F_SETFD, FD_CLOEXEC);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	keeper_child_run(q, k->store, 3);
}

static int start_child(struct keeper *k, const struct keeper_request *q)
{
	struct child *c = find_child(k, 0);
	int pair[2];
	pid_t pid;

	if (!c)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		child_main(k, q, pair[1]);
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return -EAGAIN;
	}
	c->pid = pid;
	c->sock = pair[0];
	c->request = *q;
	c->deadline_ns =
		clock_mono_ns() + (uint64_t)CHILD_TIMEOUT_MS * NS_PER_MS;
	return 0;
}

/* Remembers a new mount and keeps its descriptor. */
static int keep(struct keeper *k, const struct child *c, int fd)
{
	size_t n = strlen(k->reply.path) + 1;
	struct kept_mount *m = malloc(sizeof *m + n);

	if (!m) {
		(void)close(fd);
		return -ENOMEM;
	}
	*m = (struct kept_mount){.next = k->mounts,
				 .id = c->request.id,
				 .fd = fd,
				 .made = k->reply.flags & KEEPER_FLAG_MADE};
	memcpy(m->path, k->reply.path, n);
	k->mounts = m;
	return 0;
}

static struct kept_mount *find_mount(struct keeper *k, uint32_t id)
{
	struct kept_mount *m = k->mounts;

	while (m && m->id != id)
		m = m->next;
	return m;
}

static void forget(struct keeper *k, uint32_t id)
{
	struct kept_mount **at = &k->mounts;
	struct kept_mount *m;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	m = *at;
	if (!m)
		return;
	*at = m->next;
	if (m->fd >= 0)
		(void)close(m->fd);
	free(m);
}

/* Starts detaching a place whose mount came to nothing. */
static void clean(struct keeper *k, const char *path, bool remove)
{
	struct keeper_request q = {.op = KEEPER_CLEAN,
				   .flags = remove ? KEEPER_FLAG_REMOVE : 0};
	int r;

	(void)snprintf(q.path, sizeof q.path, "%s", path);
	r = start_child(k, &q);
	if (r < 0)
		log_warn("keeper: cannot clean %s: %s", path, err_text(r));
}

/* A child has answered, or ended without an answer. */
static void take_answer(struct keeper *k, struct child *c)
{
	struct kept_mount *m;
	int fd;
	int r = keeper_recv_reply(c->sock, &k->reply, &fd, MSG_DONTWAIT);

	if (r == -EAGAIN)
		return;
	(void)close(TAKE_FD(c->sock));
	if (r < 0) {
		log_error("keeper: no answer for %s in time", c->request.path);
		send_failure(k, c->request.id, -ETIMEDOUT);
		if (c->request.op == KEEPER_MOUNT)
			clean(k, c->request.path, false);
		return;
	}
	if (c->request.op == KEEPER_MOUNT && fd >= 0) {
		r = keep(k, c, fd);
		if (r < 0) {
			send_failure(k, c->request.id, r);
			clean(k, k->reply.path, false);
			return;
		}
	}
	if (c->request.op == KEEPER_UMOUNT && k->reply.result == 0) {
		m = find_mount(k, c->request.mount);
		if (m)
			m->unmounted = true;
	}
	if (c->request.op != KEEPER_CLEAN)
		send_to_server(k, &k->reply, fd);
}

static void take_request(struct keeper *k)
{
	struct keeper_request q;
	ssize_t n = recv(k->server, &q, sizeof q, MSG_DONTWAIT);
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof q) {
		(void)close(TAKE_FD(k->server));
		return;
	}
	q.path[sizeof q.path - 1] = '\0';
	if (q.op == KEEPER_FORGET)
		forget(k, q.mount);
	else
		r = start_child(k, &q);
	if (r < 0)
		send_failure(k, q.id, r);
}

/* --- the end ------------------------------------------------------------ */

static void server_ended(struct keeper *k, int status)
{
	struct kept_mount *m;
	size_t count = 0;

	k->server_pid = 0;
	if (k->server >= 0)
		(void)close(TAKE_FD(k->server));
	for (m = k->mounts; m; m = m->next) {
		if (m->fd >= 0)
			(void)close(TAKE_FD(m->fd));
		count += !m->unmounted;
	}
	if (WIFSIGNALED(status))
		log_error("keeper: the server was killed by signal %d; "
			  "%zu mounts ended",
			  WTERMSIG(status), count);
	else if (WEXITSTATUS(status) != 0)
		log_error("keeper: the server failed with code %d; "
			  "%zu mounts ended",
			  WEXITSTATUS(status), count);
}

/* After the server: starts cleaners as long as there is room. Says whether
 * there is nothing left to do. */
static bool clean_up(struct keeper *k)
{
	while (k->mounts && find_child(k, 0)) {
		struct kept_mount *m = k->mounts;

		if (!m->unmounted)
			clean(k, m->path, m->made);
		k->mounts = m->next;
		free(m);
	}
	return !k->mounts && !has_children(k);
}

static void take_signals(struct keeper *k)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	if (read(k->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo != SIGCHLD) {
		log_info("keeper: signal %u, stopping", info.ssi_signo);
		if (k->server_pid)
			(void)kill(k->server_pid, SIGTERM);
	}
	/* Signals merge: collect everybody who has ended. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct child *c = find_child(k, pid);

		if (pid == k->server_pid)
			server_ended(k, status);
		if (!c)
			continue;
		if (c->sock >= 0)
			take_answer(k, c);
		c->pid = 0;
	}
}

/* Kills children over their time; returns how long to wait for the next. */
static int check_deadlines(struct keeper *k)
{
	uint64_t now = clock_mono_ns();
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < MAX_CHILDREN; i++) {
		struct child *c = &k->children[i];

		if (c->pid == 0 || c->deadline_ns == UINT64_MAX)
			continue;
		if (c->deadline_ns <= now) {
			/* Its sockets close: that is the answer. A child in
			 * the kernel's hands is collected when it returns. */
			(void)kill(c->pid, SIGKILL);
			c->deadline_ns = UINT64_MAX;
			if (c->sock >= 0) {
				(void)shutdown(c->sock, SHUT_RDWR);
				take_answer(k, c);
			}
			continue;
		}
		next = MIN(next, c->deadline_ns);
	}
	return next == UINT64_MAX ? -1 : (int)((next - now) / NS_PER_MS + 1);
}

/* Children that hang beyond SIGKILL must not keep the keeper (and so the lock)
 * for ever: after their deadline they do not count. */
static bool only_hanging(const struct keeper *k)
{
	for (size_t i = 0; i < MAX_CHILDREN; i++) {
		if (k->children[i].pid != 0 &&
		    k->children[i].deadline_ns != UINT64_MAX)
			return false;
	}
	return true;
}

static void loop(struct keeper *k)
{
	struct pollfd p[2 + MAX_CHILDREN];

	while (k->server_pid || !clean_up(k)) {
		int timeout = check_deadlines(k);

		if (!k->server_pid && !k->mounts && only_hanging(k))
			break;
		p[0] = (struct pollfd){.fd = k->signals, .events = POLLIN};
		/* Without room for a child, requests wait in the socket. */
		p[1] = (struct pollfd){.fd = find_child(k, 0) ? k->server : -1,
				       .events = POLLIN};
		for (size_t i = 0; i < MAX_CHILDREN; i++)
			p[2 + i] = (struct pollfd){
				.fd = k->children[i].pid ? k->children[i].sock
							 : -1,
				.events = POLLIN};
		if (poll(p, ARRAY_SIZE(p), timeout) <= 0)
			continue;
		for (size_t i = 0; i < MAX_CHILDREN; i++) {
			if (p[2 + i].revents && k->children[i].sock >= 0)
				take_answer(k, &k->children[i]);
		}
		if (p[1].revents && k->server >= 0)
			take_request(k);
		if (p[0].revents)
			take_signals(k);
	}
}

/* --- the start ---------------------------------------------------------- */

static int start_server(struct keeper *k, const char *store, int lock,
			int ready_fd)
{
	int size = SOCKET_BYTES;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		struct serve_args args = {.store = store,
					  .keeper = pair[1],
					  .lock = lock,
					  .ready = ready_fd};

		(void)close(pair[0]);
		(void)close(k->signals);
		exit(serve_run(&args));
	}
	(void)close(pair[1]);
	k->server = pair[0];
	k->server_pid = pid;
	return 0;
}

static int fail(int ready_fd, const char *store, const char *what, int err)
{
	char line[KEEPER_PATH_BYTES + 256];

	(void)snprintf(line, sizeof line, "%s %s: %s", what, store,
		       err_text(err));
	serve_say(ready_fd, err == -EBUSY ? KEEPER_BUSY : line);
	return 1;
}

int serve_keeper_main(const char *store, int ready_fd)
{
	static struct keeper k = {.server = -1};
	bool has_mnt;
	int lock;
	int r;

	if (!realpath(store, k.store))
		return fail(ready_fd, store, "cannot use the store", -errno);
	r = keeper_detach(k.store, ready_fd);
	if (r < 0)
		return fail(ready_fd, store, "cannot start in", r);
	r = lockfile_take(k.store, &lock);
	if (r < 0)
		return fail(ready_fd, store, "cannot lock", r);
	k.signals = keeper_signals();
	if (k.signals < 0)
		return fail(ready_fd, store, "cannot start in", -errno);
	keeper_sweep(k.store);
	has_mnt = keeper_share(k.store);
	r = start_server(&k, store, lock, ready_fd);
	if (r < 0) {
		if (has_mnt)
			keeper_unshare(k.store);
		return fail(ready_fd, store, "cannot start in", r);
	}
	(void)close(ready_fd);
	loop(&k);
	if (has_mnt)
		keeper_unshare(k.store);
	return 0;
}
