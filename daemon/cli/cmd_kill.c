/* SPDX-License-Identifier: MIT */
/*
 * cmd_kill.c - `cowfs kill`: what runs in an environment ends; the environment
 * stays.
 *
 * The sandbox is found by its lock, here: neither server nor mount have to
 * answer, so it works when both hang.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>

#include "base/err.h"
#include "base/name.h"
#include "box/box.h"
#include "cli/number.h"
#include "cli/remote.h"

enum { OPT_SIGNAL, OPT_DRY_RUN };

enum { GRACE_MS = 1000 };

static const struct opt_def options[] = {
	[OPT_SIGNAL] = {"signal", 's', OPT_VALUE, ARG_TEXT, "SIGNAL",
			"send this one only, and end nothing else"},
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only say what would be ended"},
};

static const struct out_col columns[] = {
	{"name", NULL, OUT_STR},
	{"processes", NULL, OUT_COUNT},
};

static int read_signal(const struct call *c, int *ret_sig)
{
	const char *text = opt_value(c->args, OPT_SIGNAL);
	const char *name = text;
	uint64_t n;

	if (!text)
		return CODE_DONE;
	if (!strncasecmp(name, "SIG", 3))
		name += 3;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *abbrev = sigabbrev_np(sig);

		if (abbrev && !strcasecmp(abbrev, name)) {
			*ret_sig = sig;
			return CODE_DONE;
		}
	}
	if (number_read(text, NSIG - 1, &n) || !n)
		return call_fail(c, CODE_USAGE, "--signal: %s: not a signal",
				 text);
	*ret_sig = (int)n;
	return CODE_DONE;
}

/* The environment's folder, without a server: a name only. */
static int check_env(const struct call *c, const char *name)
{
	if (!name_is_label(name))
		return call_bad_name(c, name, "name of an environment");
	if (remote_has_env(c, name))
		return CODE_DONE;
	if (errno == ENOMEM)
		return call_fail_err(c, -ENOMEM, NULL, name);
	if (errno != ENOENT && errno != ENOTDIR)
		return remote_fail_denied(c);
	return call_fail(c, CODE_FAILED, "%s: unknown environment", name);
}

static int count(const struct call *c, const char *name, ssize_t *ret_count)
{
	_cleanup_buf_ struct buf pids = {0};
	int r = box_processes(c->store, name, &pids);

	/* Without the first. */
	*ret_count = r < 0 ? 0 : (ssize_t)(pids.len / sizeof(pid_t)) - 1;
	return r;
}

static int end(const struct call *c, const char *name, ssize_t *ret_count)
{
	struct box_ended ended;
	int r = box_end(c->store, name, GRACE_MS, &ended);

	*ret_count = (ssize_t)ended.processes;
	return r;
}

static int run(struct call *c)
{
	const char *name = c->args->args[0];
	const bool dry = opt_has(c->args, OPT_DRY_RUN);
	_cleanup_out_ struct out o;
	ssize_t n = 0;
	int sig = 0, r;

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	r = read_signal(c, &sig);
	if (!r)
		r = check_env(c, name);
	if (r)
		return r;
	if (dry) {
		r = count(c, name, &n);
	} else if (sig) {
		n = box_signal(c->store, name, sig);
		r = n < 0 ? (int)n : 0;
	} else {
		r = end(c, name, &n);
	}
	if (r < 0 && r != -ESRCH)
		return call_fail_err(c, r, NULL, name);
	out_row(&o, (struct out_cell[]){out_str(name),
					out_num((uint64_t)MAX(n, 0))});
	if (dry)
		out_printf(&o, "%s: %zd process%s would be %s\n", name,
			   MAX(n, 0), n == 1 ? "" : "es",
			   sig ? "sent the signal" : "ended");
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_kill = {
	.name = "kill",
	.synopsis = "ENV",
	.summary = "end what runs in an environment, and its sandbox",
	.text = "Every process that \"run\" started gets SIGTERM, and SIGKILL "
		"a "
		"second later, however\nit was put into the background. /tmp "
		"and /dev/shm of the sandbox are gone then; the\nenvironment "
		"and HOME stay.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
