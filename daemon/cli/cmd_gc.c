/* SPDX-License-Identifier: MIT */
/*
 * cmd_gc.c - `cowfs gc`: what nobody needs goes.
 *
 * Runs in this process. A server that runs is told afterwards: it may have
 * removed segments open, which hold their space until it lets them go. Where
 * none runs nobody else empties the trash.
 */
#include "cli/cmd.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "cli/number.h"
#include "cli/remote.h"
#include "cli/snaps.h"
#include "env/check.h"
#include "serve/serve.h"
#include "store/gc.h"
#include "store/settings.h"

enum { OPT_DRY_RUN, OPT_COMPRESS, OPT_GRACE };

static const struct opt_def options[] = {
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "only say what would be freed"},
	[OPT_COMPRESS] = {"compress", 0, OPT_FLAG, ARG_NONE, NULL,
			  "deflate what no environment uses now"},
	[OPT_GRACE] = {"grace", 0, OPT_VALUE, ARG_TEXT, "DAYS",
		       "keep snapshots without a name for so long"},
};

static const struct out_col columns[] = {
	{"snapshots", NULL, OUT_COUNT},	 {"objects", NULL, OUT_COUNT},
	{"segments", NULL, OUT_COUNT},	 {"freed_bytes", NULL, OUT_SIZE},
	{"compressed", NULL, OUT_COUNT}, {"live_objects", NULL, OUT_COUNT},
	{"live_bytes", NULL, OUT_SIZE},	 {"dry_run", NULL, OUT_BOOL},
	{"leases", NULL, OUT_COUNT},
};

static void say_waiting(void *ctx)
{
	(void)call_fail(ctx, 0, "waiting for other commands to finish");
}

/* Lets a running server give up what it holds of removed files. */
static void tell_server(const struct call *c)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;

	if (client_connect(c->store, &fd) < 0)
		return;
	msg_begin(&request, CTL_STATUS);
	/* One that does not answer gives them up at its next read. */
	(void)!client_call(fd, &request, NULL, NULL, &done);
}

static int print_result(const struct call *c, const struct gc_result *res,
			bool dry_run, int code)
{
	const char *would = dry_run ? "would be " : "";
	_cleanup_buf_ struct buf freed = {0};
	_cleanup_out_ struct out o;
	const char *text;

	out_size(&freed, res->freed);
	text = buf_str(&freed);
	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	out_row(&o, (struct out_cell[]){
			    out_num(res->snapshots),
			    out_num(res->objects),
			    out_num(res->segments),
			    out_num(res->freed),
			    out_num(res->compressed),
			    out_num(res->live_objects),
			    out_num(res->live_bytes),
			    out_num(dry_run),
			    out_num(res->leases),
		    });
	out_printf(&o,
		   "%s %sfreed: %" PRIu64 " snapshots, %" PRIu64
		   " objects, %" PRIu64 " segments\n",
		   text ? text : "?", would, res->snapshots, res->objects,
		   res->segments);
	if (res->compressed)
		out_printf(&o, "%" PRIu64 " objects deflated\n",
			   res->compressed);
	if (res->leases)
		out_printf(&o,
			   "%" PRIu64 " leases of environments that are "
			   "gone\n",
			   res->leases);
	return call_finish(c, &o, code);
}

static int read_grace(const struct call *c, int *ret_days)
{
	const char *text = opt_value(c->args, OPT_GRACE);
	uint64_t days;

	*ret_days = -1;
	if (!text)
		return CODE_DONE;
	if (number_read(text, SETTINGS_MAX_GRACE_DAYS, &days))
		return call_fail(c, CODE_USAGE,
				 "--grace: \"%s\" is no number of days (at "
				 "most %d)",
				 text, SETTINGS_MAX_GRACE_DAYS);
	*ret_days = (int)days;
	return CODE_DONE;
}

static int run(struct call *c)
{
	_cleanup_diag_ struct diag diag = {0}, notes = {0};
	_cleanup_store_ struct store *s = NULL;
	struct gc_result res = {0};
	struct gc_options o = {
		.dry_run = opt_has(c->args, OPT_DRY_RUN),
		.compress = opt_has(c->args, OPT_COMPRESS),
		.ctx = c,
	};
	const char *line;
	int r = read_grace(c, &o.grace_days);

	if (r)
		return r;
	r = store_open(c->store, 0, &diag, &s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	if (isatty(STDERR_FILENO))
		o.waiting = say_waiting;
	o.trash = serve_wait_end(c->store, 0) != -ETIMEDOUT;
	r = o.dry_run ? 0 : env_clear_unborn(s);
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	r = store_gc(s, &o, &notes, &diag, &res);
	for (size_t i = 0; (line = diag_line(&notes, i)); i++)
		(void)call_fail(c, 0, "%s", line);
	/* What was noted has been said; all else was done. */
	if (r && !notes.count)
		return call_fail_err(c, r, &diag, c->store);
	if (!o.dry_run)
		tell_server(c);
	return print_result(c, &res, o.dry_run, r ? CODE_FAILED : CODE_DONE);
}

const struct verb cmd_gc = {
	.name = "gc",
	.synopsis = "",
	.summary = "free what no snapshot and no environment needs",
	.text = "Kept is what has a name, what environments were made from, "
		"and what was imported\nin the last 7 days (see \"cowfs "
		"settings\"). Imports and mounts go on meanwhile.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.run = run,
};
