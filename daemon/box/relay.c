/* SPDX-License-Identifier: MIT */
/*
 * relay.c - the way out of a sandbox with a network of its own, and into it.
 *
 * How: one process beside the sandbox, outside of it, with a helper that makes
 * sockets in the sandbox's network (inside.c): one that listens there, whose
 * connections go on from outside (proxy.c), and one for each connection that
 * comes to a published port (forward.c). It works without root and without a
 * tun device. A thread for each connection: none waits for another one.
 *
 * The relay holds a lock, by which it is found, and ends when the sandbox's
 * first process does. One that was killed is started anew by the next command.
 * It has no rights, no descriptor of the caller's, and is nobody's child.
 */
#include "box/relay_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"

enum {
	CONNECTIONS_MAX = 256,
	FORWARDS_MAX = 512,
	STACK_BYTES = 256 * 1024,
	START_MS = 10000,
	END_MS = 2000,
	POLL_MS = 2,
};

/* --- the process --------------------------------------------------------- */

/* What connections go to; each kind has its own bound, so that none of a
 * sandbox's processes can keep the host out. */
enum side { TO_WORLD, TO_PORT };

static struct {
	pthread_mutex_t lock;
	size_t count[2]; /* protected by lock */
	struct proxy_rules rules;
	struct forward ports;
	pthread_attr_t attr;
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct connection {
	int fd;
	uint16_t port; /* 0: to the world */
};

static enum side side_of(const struct connection *c)
{
	return c->port ? TO_PORT : TO_WORLD;
}

/* Says whether there is room for one more. */
static bool count_up(enum side side)
{
	static const size_t most[] = {
		[TO_WORLD] = CONNECTIONS_MAX, [TO_PORT] = FORWARDS_MAX};
	bool fits;

	(void)pthread_mutex_lock(&relay.lock);
	fits = relay.count[side] < most[side];
	relay.count[side] += fits;
	(void)pthread_mutex_unlock(&relay.lock);
	return fits;
}

static void end_connection(struct connection *c)
{
	const enum side side = side_of(c);

	(void)close(c->fd);
	free(c);
	(void)pthread_mutex_lock(&relay.lock);
	relay.count[side]--;
	(void)pthread_mutex_unlock(&relay.lock);
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;

	if (c->port)
		forward_serve(c->fd, c->port);
	else
		proxy_serve(c->fd, &relay.rules);
	end_connection(c);
	return NULL;
}

/* One connection more; refused where there are too many. */
static void take_connection(int listener, uint16_t port)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct connection *c;
	pthread_t thread;

	if (fd < 0) {
		/* Out of descriptors: not a busy loop. */
		if (errno != EAGAIN && errno != EINTR)
			(void)poll(NULL, 0, POLL_MS);
		return;
	}
	c = malloc(sizeof *c);
	if (c)
		*c = (struct connection){.fd = fd, .port = port};
	if (!c || !count_up(side_of(c))) {
		if (port)
			pump_reset(fd);
		(void)close(fd);
		free(c);
		return;
	}
	if (pthread_create(&thread, &relay.attr, connection_main, c)) {
		pump_reset(fd);
		end_connection(c);
	}
}

static _noreturn_ void leave(int run, int code)
{
	if (run >= 0)
		forward_remove(run, &relay.ports);
	inside_end();
	_exit(code);
}

static _noreturn_ void serve(int listener, int pidfd, int run)
{
	enum { PIDFD, HELPER, PROXY, PORTS };
	struct pollfd p[PORTS + FORWARD_MAX] = {
		[PIDFD] = {.fd = pidfd, .events = POLLIN},
		[HELPER] = {.fd = inside_fd()}, /* its end */
		[PROXY] = {.fd = listener, .events = POLLIN},
	};

	for (size_t i = 0; i < relay.ports.count; i++)
		p[PORTS + i] = (struct pollfd){.fd = relay.ports.v[i].fd,
					       .events = POLLIN};
	for (;;) {
		if (poll(p, PORTS + relay.ports.count, -1) < 0 &&
		    errno != EINTR)
			leave(run, 1);
		if (p[PIDFD].revents || p[HELPER].revents)
			leave(run, 0); /* the sandbox has ended */
		if (p[PROXY].revents)
			take_connection(listener, 0);
		for (size_t i = 0; i < relay.ports.count; i++)
			if (p[PORTS + i].revents)
				take_connection(p[PORTS + i].fd,
						relay.ports.v[i].port);
	}
}

void relay_drop_rights(void)
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

/* A connection takes two. */
static void raise_limit(void)
{
	const rlim_t want = 3 * (CONNECTIONS_MAX + FORWARDS_MAX);
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < want) {
		l.rlim_cur = MIN(want, l.rlim_max);
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)setsid();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "cowfs-relay");
	for (int i = 0; null >= 0 && i <= 2; i++)
		(void)dup2(null, i);
	raise_limit();
	(void)pthread_attr_init(&relay.attr);
	(void)pthread_attr_setdetachstate(&relay.attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&relay.attr, STACK_BYTES);
}

static _noreturn_ void relay_main(const struct box_spec *spec, int folder,
				  int pidfd, int out)
{
	enum { FD_OUT, FD_PIDFD, FD_LOCK, FD_RUN, FD_PORTS };
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct forward *f = &relay.ports;
	int fds[FD_PORTS + FORWARD_MAX] = {
		out, pidfd, io_open_file(folder, "relay", O_RDWR | O_CREAT),
		/* Opened anew: the folder's own has its lock. */
		openat(folder, f->count ? BOX_RUN : ".", O_PATH | O_CLOEXEC)};
	int r, listener;

	detach();
	for (size_t i = 0; i < f->count; i++)
		fds[FD_PORTS + i] = f->v[i].fd;
	r = chdir("/") < 0 ? -errno : keep_only(fds, FD_PORTS + f->count);
	for (size_t i = 0; i < f->count; i++)
		f->v[i].fd = fds[FD_PORTS + i];
	/* A lock ends with the first close of its file: taken last. */
	if (!r && fcntl(fds[FD_LOCK], F_SETLK, &lock) < 0)
		r = -errno;
	if (!r)
		r = inside_start(fds[FD_PIDFD]);
	listener = r ? r : inside_socket(INSIDE_PROXY);
	relay.rules = (struct proxy_rules){.allow = spec->allow,
					   .count = spec->allow_count};
	relay_drop_rights();
	(void)!write(r ? out : fds[FD_OUT], &listener, sizeof listener);
	if (listener < 0)
		leave(-1, 1);
	(void)close(fds[FD_OUT]);
	serve(listener, fds[FD_PIDFD], fds[FD_RUN]);
}

/* --- from outside -------------------------------------------------------- */

/* Returns who is the relay, 0: none. */
static pid_t find_relay(int folder)
{
	_cleanup_close_ int fd = io_open_file(folder, "relay", O_RDWR);
	pid_t pid;

	return fd < 0 || box_lock_holder(fd, &pid) < 0 ? 0 : pid;
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
	r = forward_listen(spec, folder, diag, &relay.ports);
	if (r < 0)
		return r;
	if (pipe2(p, O_CLOEXEC) < 0) {
		forward_close(&relay.ports);
		return -errno;
	}
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
	forward_close(&relay.ports);
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
