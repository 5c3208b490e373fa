/* SPDX-License-Identifier: MIT */
/*
 * How: start the parts from below (store, worker, registry, link to the
 * keeper, control door), say "ok", then wait on signals, an eventfd and the
 * clock. They are ended in reverse. The server ends
 *   - when nothing has been mounted or worked on for IDLE_MS,
 *   - when CTL_STOP was accepted (nothing is mounted then),
 *   - at SIGTERM: everything is unmounted and kept first,
 *   - when the keeper has died: at once. Its descriptors are gone with it and
 *     nobody is left who could unmount; closing ours ends the connections, so
 *     that callers get an error instead of waiting for ever.
 */
#include "serve/serve_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "env/check.h"
#include "fuse/session.h"
#include "serve/serve.h"
#include "serve/server_int.h"
#include "store/fsck.h"

enum {
	IDLE_MS = 60000,
	LOOK_MS = 1000,
	NS_PER_MS = 1000000,
	LINE_BYTES = 4096 + 512,
	WALK_LIMIT_S = 50, /* less than the command waits for us */
};

static void keeper_lost(void *ctx)
{
	/* Not an orderly end: threads may wait for the keeper or for locks. */
	log_error("server: the keeper has died; connections end");
	_exit(1);
}

static void server_fini(struct server *s)
{
	worker_free(s->worker);
	tend_free(s->tend);
	link_free(s->link);
	envs_free(s->envs);
	leases_free(s->leases);
	store_close(s->store);
	if (s->events >= 0)
		(void)close(s->events);
}

/* What the index could not be told, or somebody else has removed. */
static void free_stray_leases(struct server *s)
{
	size_t n = 0;
	int r = store_lease_sweep(s->store, &n);

	if (r < 0)
		log_warn("leases: %s", err_text(r));
	else if (n)
		log_info("leases: %zu of environments that are gone", n);
}

static int server_init(struct server *s, const struct serve_args *args,
		       struct diag *diag)
{
	int r;

	s->path = args->store;
	s->started_sec = clock_now().tv_sec;
	s->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->events < 0)
		return -errno;
	/* The fork comes before LMDB is opened. */
	r = fsck_at_start(args->store, WALK_LIMIT_S, diag);
	if (r == 0)
		r = store_open(args->store, 0, diag, &s->store);
	if (r == 0)
		r = env_clear_unborn(s->store);
	if (r == 0)
		free_stray_leases(s);
	if (r == 0)
		r = leases_new(s->store, &s->leases);
	if (r == 0)
		r = envs_new(&s->envs);
	if (r == 0)
		r = worker_new(&s->worker);
	if (r == 0)
		r = tend_new(&s->tend);
	if (r == 0)
		r = link_new(args->keeper, keeper_lost, s, &s->link);
	if (r == 0)
		r = worker_add(s->worker, umount_empty_trash, s, NULL);
	return r;
}

/* A server that is killed to save memory takes all environments along. */
static void lower_oom_score(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "-900", 4);
	(void)close(fd);
}

static int open_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* How long until the idle server ends; -1: it is not idle; 0: now. */
static int idle_left_ms(struct server *s)
{
	uint64_t since = envs_idle_since(s->envs);
	uint64_t age;

	if (since == UINT64_MAX)
		return -1;
	age = (clock_mono_ns() - since) / NS_PER_MS;
	return age >= IDLE_MS ? 0 : (int)(IDLE_MS - age);
}

/* Returns when the server is to end; true: by a signal. */
static bool wait_for_end(struct server *s, int signals)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = signals, .events = POLLIN},
				      {.fd = s->events, .events = POLLIN}};
		int left = idle_left_ms(s);

		limits_expire(s);
		if (__atomic_load_n(&s->stop, __ATOMIC_SEQ_CST))
			return false;
		if (left == 0 && envs_shut(s->envs)) {
			log_info("server: idle, ending");
			return false;
		}
		/* What becomes idle, or a ttl that ends, wakes nobody. */
		left = left <= 0 ? LOOK_MS : MIN(left, LOOK_MS);
		if (poll(p, 2, left) > 0 && p[0].revents)
			return true;
	}
}

static int fail(const struct serve_args *args, int err, struct diag *diag)
{
	char line[LINE_BYTES];
	const char *what = diag_line(diag, 0);

	if (what)
		(void)snprintf(line, sizeof line, "%s", what);
	else
		(void)snprintf(line, sizeof line,
			       "cannot open the store %s: "
			       "%s",
			       args->store, err_text(err));
	log_error("server: %s", line);
	serve_say(args->ready, line);
	return 1;
}

int serve_run(const struct serve_args *args)
{
	_cleanup_diag_ struct diag diag = {0};
	struct ctl_server *door = NULL;
	struct server s = {.events = -1};
	int signals = open_signals();
	int r = signals < 0 ? -errno : server_init(&s, args, &diag);

	if (r == 0)
		r = ctl_server_start(store_fd(s.store), handlers_answer, &s,
				     &door);
	if (r < 0) {
		r = fail(args, r, &diag);
		server_fini(&s);
		return r;
	}
	lower_oom_score();
	log_info("server: started, pid %d, version %s", (int)getpid(),
		 COWFS_VERSION);
	serve_say(args->ready, KEEPER_READY);
	(void)close(args->ready);
	r = wait_for_end(&s, signals);
	ctl_server_stop(door);
	/* A view's session may live on: no orderly end. */
	if (!r && __atomic_load_n(&s.held, __ATOMIC_SEQ_CST))
		_exit(0);
	if (r) {
		log_info("server: signal, unmounting");
		umount_keep_all(&s);
		/* Sessions of busy mounts may live on: no orderly end. */
		if (envs_count(s.envs) > 0 ||
		    __atomic_load_n(&s.held, __ATOMIC_SEQ_CST))
			_exit(0);
	}
	server_fini(&s);
	log_info("server: ended");
	return 0;
}

const char *serve_libfuse(void)
{
	return session_libfuse();
}
