/* SPDX-License-Identifier: MIT */
/*
 * How: one thread reads the descriptor, serves each request to its end and
 * reads the next (pace.c). Measured: more threads (with clone_fd or without)
 * are slower, for waking a second one costs more than most requests. Only
 * fsyncs wait; while one does, another thread reads (fsync.c).
 *
 * The descriptor is read here and not by libfuse, so that the request is in
 * memory where its flags can be seen that libfuse 3.17 does not hand on, and
 * STATX, which it does not know, can be answered. The buffer is placed so that
 * the data of a WRITE starts on a page: the kernel then copies page by page.
 * Its memory is touched by large requests only; an idle session costs a few
 * pages.
 *
 * libfuse is used for what is tedious: INIT, unpacking, packing. It is given
 * "/dev/fd/N" as a mount point, which adopts the descriptor and mounts
 * nothing; so fuse_session_unmount has nothing to undo and is not called,
 * fuse_session_destroy closes the descriptor. It sets no signal handlers: all
 * signals are blocked in this thread and left to the server's.
 *
 * What a quota refuses is served once more, after what the kernel has queued:
 * it lets up to eight requests go before a FORGET, and a file that its owner
 * has just deleted must not stand in the way of the next one. A refused
 * operation has changed nothing, so it can be repeated.
 *
 * The end: ENODEV says that the kernel has ended the connection. The flag is
 * set and waiters are woken first, on_end comes last, for whoever it tells may
 * call session_free at once, which joins the thread.
 */
#include "fuse/session.h"

#include "base/err.h"
#include "base/log.h"
#include "fuse/ops_int.h"
#include "fuse/session_int.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
	STACK_BYTES = 256 << 10,
	BEFORE_AGAIN = 16, /* messages that a refused request waits for */
	WRITE_HEADERS =
		sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in),
	/* Headers end where the second page begins. */
	IN_START = SESSION_HEAD_ROOM - WRITE_HEADERS,
	IN_BYTES = SESSION_HEAD_ROOM + SESSION_MAX_IO,
	MAP_BYTES = SESSION_HEAD_ROOM + IN_BYTES + SESSION_MAX_IO,
};

/* Reads the flags that libfuse drops. The kernel's requests are whole, but a
 * short one must not make us read what an earlier one left behind. */
static struct raw_flags raw_flags_of(const struct fuse_in_header *head,
				     size_t n)
{
	const void *body = head + 1;
	struct raw_flags raw = {0};
	size_t len = n - sizeof *head;

	if (head->opcode == FUSE_WRITE) {
		const struct fuse_write_in *w = body;

		if (len >= sizeof *w) {
			raw.kill_suidgid =
				w->write_flags & FUSE_WRITE_KILL_SUIDGID;
			raw.from_cache = w->write_flags & FUSE_WRITE_CACHE;
		}
	} else if (head->opcode == FUSE_SETXATTR) {
		const struct fuse_setxattr_in *x = body;

		raw.kill_sgid = len >= sizeof *x &&
				x->setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID;
	}
	return raw;
}

static void serve_request(struct session *s, char *data, size_t n)
{
	struct fuse_buf buf = {.mem = data, .size = n};

	s->head = (const struct fuse_in_header *)(void *)data;
	s->raw = raw_flags_of(s->head, n);
	session_tick(&s->count.requests);
	if (s->raw.from_cache)
		session_tick(&s->count.cached_writes);
	if (s->debug)
		log_debug("request %" PRIu32 " inode %" PRIu64 " pid %" PRIu32,
			  s->head->opcode, (uint64_t)s->head->nodeid,
			  s->head->pid);
	/* libfuse does not know it: the kernel asks once, and never again. */
	if (s->head->opcode == OP_STATX && !s->no_births)
		op_statx(s);
	else
		fuse_session_process_buf(s->se, &buf);
	assert(s->owed == 0);
}

/* Says whether a failed read is no reason to stop. */
static bool may_read_again(int err)
{
	switch (err) {
	case EINTR:
	case ENOENT: /* the request was given up before we took it */
		return true;
	case ENODEV:
		return false;
	default:
		log_error("reading the FUSE device: %s", err_text(err));
		return false;
	}
}

static void *session_main(void *arg);

static int start_thread(struct session *s, pthread_t *ret_thread)
{
	pthread_attr_t attr;
	sigset_t all;
	sigset_t saved;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	/* The new thread inherits the mask. */
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGBUS); /* of the index's map: store/bus.c */
	(void)pthread_sigmask(SIG_SETMASK, &all, &saved);
	err = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (!err)
		err = pthread_create(ret_thread, &attr, session_main, s);
	(void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
	(void)pthread_attr_destroy(&attr);
	return -err;
}

/* Lets another thread read. Says whether there is one. */
static bool hand_over(struct session *s)
{
	bool there;

	mutex_lock(&s->lock);
	if (!s->has_second)
		s->has_second = start_thread(s, &s->second) == 0;
	there = s->has_second;
	if (there)
		s->reading = false;
	(void)pthread_cond_signal(&s->may_read);
	mutex_unlock(&s->lock);
	return there;
}

/* Waits until it is this thread's turn; false: the connection has ended. */
static bool take_over(struct session *s)
{
	bool mine;

	mutex_lock(&s->lock);
	while (s->reading && !s->ended)
		(void)pthread_cond_wait(&s->may_read, &s->lock.m);
	mine = !s->ended;
	s->reading = s->reading || mine;
	mutex_unlock(&s->lock);
	return mine;
}

/* Serves what is there already; nobody waits for more to come. */
static void serve_queued(struct session *s, char *data)
{
	int fd = fuse_session_fd(s->se);
	ssize_t n;

	for (int i = 0; i < BEFORE_AGAIN && !s->sync_here; i++) {
		n = read(fd, data, IN_BYTES);
		if (n < 0 && errno == ENOENT)
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			return; /* whoever reads next says why */
		serve_request(s, data, (size_t)n);
	}
}

static void serve_refused(struct session *s, char *data, size_t n)
{
	_cleanup_free_ char *request = malloc(n);

	s->refused = s->patient = false;
	if (request) {
		memcpy(request, data, n);
		serve_queued(s, data);
		data = request;
	}
	serve_request(s, data, n);
	s->patient = true;
}

/* Returns true when fsyncs wait for this thread, and another one reads; false
 * at the end of the connection. */
static bool serve_requests(struct session *s)
{
	int fd = fuse_session_fd(s->se);
	char *data = s->in_map + IN_START;
	ssize_t n;

	while (!fuse_session_exited(s->se)) {
		n = pace_read(&s->pace, fd, data, IN_BYTES);
		if (n < 0) {
			if (!may_read_again(errno))
				return false;
		} else if ((size_t)n < sizeof(struct fuse_in_header)) {
			log_error("a request of %zd bytes on the FUSE device",
				  n);
			return false;
		} else {
			serve_request(s, data, (size_t)n);
		}
		if (s->refused)
			serve_refused(s, data, (size_t)n);
		if (s->sync_here) {
			s->sync_here = false;
			if (hand_over(s))
				return true;
			session_sync(s);
		}
	}
	log_error("the FUSE connection could not be set up");
	return false;
}

static void *session_main(void *arg)
{
	struct session *s = arg;
	session_end_fn on_end = s->on_end;
	void *ctx = s->ctx;
	bool ended;

	(void)pthread_setname_np(pthread_self(), "cowfs-fuse");
	do {
		if (!take_over(s))
			return NULL; /* the other one has seen to it */
		ended = !serve_requests(s);
		if (!ended)
			session_sync(s);
	} while (!ended);
	mutex_lock(&s->lock);
	s->ended = true;
	(void)pthread_cond_broadcast(&s->may_read);
	(void)pthread_cond_broadcast(&s->end_cond);
	mutex_unlock(&s->lock);
	if (on_end)
		on_end(ctx);
	return NULL;
}

/* libfuse's own messages: one line each, without their line end. */
__attribute__((format(printf, 2, 0))) static void
log_from_libfuse(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char text[512];

	(void)vsnprintf(text, sizeof text, fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_event(level <= FUSE_LOG_ERR	      ? LOG_LEVEL_ERROR
		  : level <= FUSE_LOG_WARNING ? LOG_LEVEL_WARN
					      : LOG_LEVEL_DEBUG,
		  "libfuse: %s", text);
}

static void redirect_log(void)
{
	fuse_set_log_func(log_from_libfuse);
}

/* Makes libfuse's session around the descriptor; it owns it on success. */
static int adopt_fd(struct session *s, int fd)
{
	static pthread_once_t log_once = PTHREAD_ONCE_INIT;
	char name[] = "cowfs";
	char *argv[] = {name, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	char path[32];

	(void)pthread_once(&log_once, redirect_log);
	s->se = fuse_session_new(&args, &ops_table, sizeof ops_table, s);
	fuse_opt_free_args(&args);
	if (!s->se)
		return -ENOMEM;
	(void)snprintf(path, sizeof path, "/dev/fd/%d", fd);
	return fuse_session_mount(s->se, path) == 0 ? 0 : -EBADF;
}

static int map_buffers(struct session *s)
{
	void *map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return -errno;
	s->in_map = map;
	s->out = s->in_map + SESSION_HEAD_ROOM + IN_BYTES;
	return 0;
}

/* Frees all but the thread. */
static void release(struct session *s)
{
	if (s->se)
		fuse_session_destroy(s->se);
	if (s->in_map)
		(void)munmap(s->in_map, MAP_BYTES);
	(void)pthread_cond_destroy(&s->end_cond);
	(void)pthread_cond_destroy(&s->may_read);
	mutex_fini(&s->lock);
	free(s);
}

static struct session *session_new(struct env *e,
				   const struct session_options *options)
{
	struct session *s = calloc(1, sizeof *s);
	pthread_condattr_t attr;

	if (!s)
		return NULL;
	s->env = e;
	s->debug = options && options->debug;
	s->no_births = options && options->no_births;
	s->patient = true;
	s->waiting_tail = &s->waiting;
	mutex_init(&s->lock);
	(void)pthread_cond_init(&s->may_read, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->end_cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	return s;
}

int session_start(struct env *e, int fd, const struct session_options *options,
		  session_end_fn on_end, void *ctx,
		  struct session **ret_session)
{
	_cleanup_close_ int owned = fd;
	struct session *s = session_new(e, options);
	int err;

	if (!s)
		return -ENOMEM;
	s->on_end = on_end;
	s->ctx = ctx;
	err = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : pace_prepare(fd);
	if (err == 0)
		err = map_buffers(s);
	if (err == 0)
		err = adopt_fd(s, fd);
	if (err == 0) {
		(void)TAKE_FD(owned);
		err = start_thread(s, &s->thread);
	}
	if (err < 0) {
		release(s);
		return err;
	}
	*ret_session = s;
	return 0;
}

int session_wait_end(struct session *s, unsigned timeout_ms)
{
	struct timespec until;
	int err = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	mutex_lock(&s->lock);
	while (!s->ended && err == 0)
		err = pthread_cond_timedwait(&s->end_cond, &s->lock.m, &until);
	err = s->ended ? 0 : -err;
	mutex_unlock(&s->lock);
	return err;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	/* whichever has seen the end: the other one starts no thread any more */
	(void)pthread_join(s->thread, NULL);
	if (s->has_second)
		(void)pthread_join(s->second, NULL);
	release(s);
}

void session_count(struct session *s, struct session_counters *ret_counters)
{
	const struct session_counters *c = &s->count;

	ret_counters->requests =
		__atomic_load_n(&c->requests, __ATOMIC_RELAXED);
	ret_counters->lookups = __atomic_load_n(&c->lookups, __ATOMIC_RELAXED);
	ret_counters->reads = __atomic_load_n(&c->reads, __ATOMIC_RELAXED);
	ret_counters->writes = __atomic_load_n(&c->writes, __ATOMIC_RELAXED);
	ret_counters->cached_writes =
		__atomic_load_n(&c->cached_writes, __ATOMIC_RELAXED);
}

const char *session_libfuse(void)
{
	return fuse_pkgversion();
}
