/* SPDX-License-Identifier: MIT */
/*
 * How: connect; when nobody answers, start a keeper and wait for its one line.
 * Several commands may start one at the same moment: the lock lets one keeper
 * through, the others end with "busy" and their commands try to connect again
 * for a while. The same happens while an old server is ending.
 *
 * The keeper is made by fork, fork, exec: the first child ends at once and is
 * collected, so the keeper is nobody's zombie. Between fork and exec only
 * async-signal-safe calls are made; the caller may have threads and LMDB open.
 */
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "ctl/client.h"
#include "serve/keeper_int.h"
#include "serve/lockfile_int.h"
#include "store/store.h"

enum {
	CONNECT_FOR_MS = 5000,
	READY_TIMEOUT_MS = 60000, /* opening checks the whole index */
	RETRY_MS = 10,
	START_TRIES = 3,
	NS_PER_MS = 1000000,
	READY_FD = 3,
	LINE_BYTES = 1024,
};

static void sleep_ms(unsigned ms)
{
	struct timespec t = {.tv_nsec = (long)ms * NS_PER_MS};

	(void)nanosleep(&t, NULL);
}

/* The process that becomes the keeper. Never returns. */
static _noreturn_ void become_keeper(const char *store, int ready)
{
	char fd_text[] = "3";
	char *argv[] = {(char *)"cowfs",
			(char *)"--store",
			(char *)store,
			(char *)"daemon",
			(char *)"keeper",
			fd_text,
			NULL};

	(void)setsid();
	switch (fork()) {
	case -1:
		_exit(1);
	case 0:
		break;
	default:
		_exit(0);
	}
	if (ready == READY_FD) {
		if (fcntl(ready, F_SETFD, 0) < 0)
			_exit(1);
	} else if (dup2(ready, READY_FD) < 0) {
		_exit(1);
	}
	(void)close_range(READY_FD + 1, ~0U, 0);
	(void)execv("/proc/self/exe", argv);
	_exit(1);
}

/* Reads the keeper's line. -ETIMEDOUT; an empty line: it ended silently. */
static int read_line(int fd, char *line, size_t size)
{
	uint64_t end = clock_mono_ns() + (uint64_t)READY_TIMEOUT_MS * NS_PER_MS;
	size_t len = 0;

	while (len + 1 < size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_mono_ns();
		ssize_t k;

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / NS_PER_MS + 1)) <= 0)
			continue;
		k = read(fd, line + len, size - 1 - len);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			break;
		len += (size_t)k;
	}
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

/* Starts a keeper. -EBUSY: another one starts, runs or ends. */
static int start_keeper(const char *store, struct diag *diag)
{
	_cleanup_close_ int in = -1;
	_cleanup_close_ int out = -1;
	char line[LINE_BYTES];
	int p[2];
	pid_t pid;
	int r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	out = p[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become_keeper(store, out);
	(void)close(TAKE_FD(out));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	r = read_line(in, line, sizeof line);
	if (r < 0)
		return diag_fail(diag, r,
				 "the server does not start; "
				 "see %s/server.log",
				 store);
	if (strcmp(line, KEEPER_READY) == 0)
		return 0;
	if (strcmp(line, KEEPER_BUSY) == 0)
		return -EBUSY;
	if (line[0] == '\0')
		return diag_fail(diag, -ECONNREFUSED,
				 "the server ended at its start; "
				 "see %s/server.log",
				 store);
	return diag_fail(diag, -ECONNREFUSED, "%s", line);
}

static int fail_to_connect(const char *store, struct diag *diag, int err)
{
	if (err == -EPERM)
		return diag_fail(diag, err, SERVE_FOREIGN, store);
	if (err == -EACCES)
		return diag_fail(diag, err, "no permission for %s/ctl.sock",
				 store);
	return diag_fail(diag, err, "the server of %s does not answer: %s",
			 store, err_text(err));
}

/* Nobody answers, and the server's lock is another's. */
static int fail_in_use(const char *store, struct diag *diag)
{
	diag_add(diag, "the store %s is in use", store);
	diag_add(diag,
		 "wait until \"cowfs fsck --repair\" or an old server has "
		 "ended; \"cowfs doctor\" tells more");
	return -EBUSY;
}

int serve_connect(const char *store, struct diag *diag, int *ret_fd)
{
	uint64_t end = clock_mono_ns() + (uint64_t)CONNECT_FOR_MS * NS_PER_MS;
	int started = 0;
	int r = store_check_owner(store, diag);

	if (r < 0)
		return r;
	for (;;) {
		r = client_connect(store, ret_fd);
		/* One that ends at once may do so again: not for ever. */
		if (r != -ECONNREFUSED || started == START_TRIES)
			return r < 0 ? fail_to_connect(store, diag, r) : 0;
		r = start_keeper(store, diag);
		started += r == 0;
		if (r < 0 && r != -EBUSY)
			return r;
		if (r == -EBUSY && clock_mono_ns() >= end)
			return fail_in_use(store, diag);
		if (r == -EBUSY)
			sleep_ms(RETRY_MS);
	}
}

int serve_wait_end(const char *store, unsigned timeout_ms)
{
	uint64_t end = clock_mono_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	for (;;) {
		_cleanup_close_ int fd = -1;
		int r = lockfile_take(store, &fd);

		if (r != -EBUSY)
			return r == -ENOENT ? 0 : r;
		if (clock_mono_ns() >= end)
			return -ETIMEDOUT;
		sleep_ms(RETRY_MS / 5);
	}
}
