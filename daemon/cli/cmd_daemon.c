/* SPDX-License-Identifier: MIT */
/*
 * cmd_daemon.c - `cowfs daemon start|stop|status`, and the way into the keeper
 * (`daemon keeper FD`, which serve_connect runs), which no user needs.
 *
 * stop is done when both processes have ended, so that a script may remove the
 * store after it.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/place.h"
#include "cli/remote.h"
#include "serve/serve.h"
#include "store/store.h"

enum { STOP_TIMEOUT_MS = 12000 };

static const struct out_col columns[] = {
	{"running", "running", OUT_BOOL}, {"pid", "pid", OUT_COUNT},
	{"uptime", "uptime", OUT_SPAN},	  {"mounted", "mounted", OUT_COUNT},
	{"version", "version", OUT_STR},
};
enum { COLUMNS_STOPPED = 1 };

/* Makes the store when it is missing; closed again before the server's fork. */
static int make_store(const struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};
	struct store *s = NULL;
	int r;

	if (remote_has_store(c))
		return CODE_DONE;
	r = place_check(c);
	if (r)
		return r;
	r = store_open(c->store, STORE_CREATE, &diag, &s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	store_close(s);
	return CODE_DONE;
}

static int start(const struct call *c)
{
	_cleanup_close_ int fd = -1;
	int r = client_connect(c->store, &fd);

	if (!r) {
		call_hint("already running");
		return CODE_DONE;
	}
	r = make_store(c);
	if (!r)
		r = remote_connect(c, &fd);
	if (!r)
		call_hint("started");
	return r;
}

static int wait_end(const struct call *c)
{
	int r = serve_wait_end(c->store, STOP_TIMEOUT_MS);

	if (r == -ETIMEDOUT) {
		r = call_fail(c, CODE_FAILED, "server: does not end");
		call_hint("see %s/server.log", c->store);
		return r;
	}
	return r ? call_fail_err(c, r, NULL, "server") : CODE_DONE;
}

static int fail_server(const struct call *c, int err)
{
	if (err == -EPERM)
		return call_fail(c, CODE_FAILED, SERVE_FOREIGN, c->store);
	return call_fail_err(c, err, NULL, "server");
}

static int stop(const struct call *c)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	int r;

	if (!remote_has_store(c))
		return CODE_DONE;
	r = client_connect(c->store, &fd);
	if (r == -ECONNREFUSED)
		return wait_end(c);
	msg_begin(&request, CTL_STOP);
	if (!r)
		r = client_call(fd, &request, NULL, NULL, &done);
	if (r == -ECONNRESET) /* it was ending anyway */
		return wait_end(c);
	if (r == -ETIMEDOUT)
		return remote_fail_silent(c, fd, CODE_FAILED);
	if (r)
		return fail_server(c, r);
	r = (int)msg_get_u64(&done, CTL_TAG_CODE, CODE_DONE);
	if (r)
		return remote_say(c, &done, r);
	(void)close(TAKE_FD(fd));
	return wait_end(c);
}

static int say_stopped(const struct call *c)
{
	_cleanup_out_ struct out o;

	out_init(&o, c->json, OUT_FIELDS, columns, COLUMNS_STOPPED);
	out_row(&o, (struct out_cell[]){out_num(false)});
	return call_finish(c, &o, CODE_NO);
}

static int status(const struct call *c)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	_cleanup_out_ struct out o;
	char version[64];
	uint64_t now = (uint64_t)clock_now().tv_sec, since;
	int r = client_connect(c->store, &fd);

	out_init(&o, c->json, OUT_FIELDS, columns, ARRAY_SIZE(columns));
	msg_begin(&request, CTL_STATUS);
	if (!r)
		r = client_call(fd, &request, NULL, NULL, &done);
	/* Asking starts nothing, so one that was ending is asked no more. */
	if (r == -ECONNREFUSED || r == -ECONNRESET)
		return say_stopped(c);
	if (r == -ETIMEDOUT)
		return remote_fail_silent(c, fd, CODE_BUSY);
	if (r)
		return fail_server(c, r);
	r = (int)msg_get_u64(&done, CTL_TAG_CODE, CODE_DONE);
	if (r)
		return remote_say(c, &done, r);
	if (msg_get_str(&done, CTL_TAG_TEXT, version, sizeof version))
		version[0] = 0;
	since = msg_get_u64(&done, CTL_TAG_TIME, now);
	out_row(&o, (struct out_cell[]){
			    out_num(true),
			    out_num(msg_get_u64(&done, CTL_TAG_PID, 0)),
			    out_num(now > since ? now - since : 0),
			    out_num(msg_get_u64(&done, CTL_TAG_COUNT, 0)),
			    out_str(version),
		    });
	return call_finish(c, &o, CODE_DONE);
}

/* The descriptor that the arguments of the two hidden ways in name; -1. */
static int descriptor(const struct call *c)
{
	const char *text = c->args->arg_count > 1 ? c->args->args[1] : "";
	char *end;
	long fd = strtol(text, &end, 10);

	if (!*text || *end || fd < 0 || fd >= INT_MAX ||
	    c->args->arg_count > 2 || fcntl((int)fd, F_GETFD) < 0)
		return -1;
	return (int)fd;
}

static int keeper(const struct call *c)
{
	const int fd = descriptor(c);

	if (fd < 0)
		return call_fail(c, CODE_USAGE, "keeper: needs a descriptor");
	/* It was executed as /proc/self/exe, and "exe" says nothing in ps. */
	(void)prctl(PR_SET_NAME, "cowfs");
	return serve_keeper_main(c->store, fd);
}

static int run(struct call *c)
{
	const char *what = c->args->args[0];

	if (!strcmp(what, "keeper"))
		return keeper(c);
	if (c->args->arg_count > 1)
		return call_fail(c, CODE_USAGE, "%s: one argument too many",
				 c->args->args[1]);
	if (!strcmp(what, "start"))
		return start(c);
	if (store_check_owner(c->store, NULL) == -EACCES)
		return remote_fail_denied(c);
	if (!strcmp(what, "stop"))
		return stop(c);
	if (!strcmp(what, "status"))
		return status(c);
	(void)call_fail(c, 0, "%s: not start, stop or status", what);
	return CODE_USAGE;
}

const struct verb cmd_daemon = {
	.name = "daemon",
	.synopsis = "start|stop|status",
	.summary = "start or stop the store's server, or ask for it",
	.text = "The server starts by itself, and ends 60 seconds after its "
		"last mounted\nenvironment is gone. stop refuses while "
		"environments are mounted (exit 4) and\nreturns when the "
		"server has ended. status exits 1 when none runs.",
	.arg = ARG_CHOICE,
	.choices = "start stop status",
	.min_args = 1,
	.max_args = 1,
	.hidden_args = true,
	.run = run,
};
