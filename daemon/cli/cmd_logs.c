/* SPDX-License-Identifier: MIT */
/*
 * cmd_logs.c - `cowfs logs`: what was run in an environment, and what it said.
 *
 * Records are read from the store, here: no server has to answer. What a
 * command wrote to standard output goes to standard output, and likewise
 * standard error. Following asks again every now and then; the lock of a record
 * tells when nobody writes it any more.
 */
#include "cli/logs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/name.h"
#include "cli/number.h"
#include "cli/path.h"
#include "cli/remote.h"

enum { OPT_FOLLOW };

enum { POLL_MS = 50 };

static const struct opt_def options[] = {
	[OPT_FOLLOW] = {"follow", 'f', OPT_FLAG, ARG_NONE, NULL,
			"go on until the command has ended"},
};

const struct out_col logs_columns[LOGS_COLUMNS] = {
	{"name", NULL, OUT_STR},
	{"run", "RUN", OUT_COUNT},
	{"start", "START", OUT_TIME},
	{"start_ms", NULL, OUT_COUNT},
	{"end_ms", NULL, OUT_COUNT},
	{NULL, "TIME", OUT_STR},
	{"cpu_ms", NULL, OUT_COUNT},
	{NULL, "CPU", OUT_STR},
	{"memory_bytes", NULL, OUT_COUNT},
	{NULL, "MEMORY", OUT_STR},
	{"state", NULL, OUT_STR},
	{NULL, "RESULT", OUT_STR},
	{"exit", NULL, OUT_COUNT},
	{"signal", NULL, OUT_COUNT},
	{"timed_out", NULL, OUT_BOOL},
	{"detached", NULL, OUT_BOOL},
	{"dir", NULL, OUT_STR},
	{"argv", NULL, OUT_LIST},
	{"argv_cut", NULL, OUT_BOOL},
	{NULL, "COMMAND", OUT_STR},
	{"stdout", NULL, OUT_STR},
	{"stdout_bytes", NULL, OUT_COUNT},
	{"stdout_lost_bytes", NULL, OUT_COUNT},
	{"stdout_cut_bytes", NULL, OUT_COUNT},
	{"stdout_text", NULL, OUT_STR},
	{"stderr", NULL, OUT_STR},
	{"stderr_bytes", NULL, OUT_COUNT},
	{"stderr_lost_bytes", NULL, OUT_COUNT},
	{"stderr_cut_bytes", NULL, OUT_COUNT},
	{"stderr_text", NULL, OUT_STR},
};
static const struct out_col piece_columns[] = {
	{"name", NULL, OUT_STR},	{"run", NULL, OUT_COUNT},
	{"stream", NULL, OUT_STR},	{"text", NULL, OUT_STR},
	{"cut_bytes", NULL, OUT_COUNT},
};

struct logs {
	const struct call *c;
	char env[REMOTE_NAME_BYTES];
	int folder;
	uint64_t number;
	int fds[2];
	uint64_t at[2];
	struct buf text[2]; /* of JSON */
	uint64_t cut[2];
	bool told[2]; /* what is missing */
};

static void logs_fini(struct logs *l)
{
	for (int i = 0; i < 2; i++) {
		buf_fini(&l->text[i]);
		if (l->fds[i] >= 0)
			(void)close(l->fds[i]);
	}
	if (l->folder >= 0)
		(void)close(l->folder);
}

/* --- which --------------------------------------------------------------- */

static int find_env(struct logs *l)
{
	const char *arg = l->c->args->args[0];
	_cleanup_close_ int fd = -1;

	if (path_is_path(arg))
		return remote_connect_env(l->c, arg, REMOTE_WITHIN, &fd,
					  l->env);
	if (!name_is_label(arg) || strlen(arg) >= sizeof l->env)
		return call_bad_name(l->c, arg, "name of an environment");
	(void)snprintf(l->env, sizeof l->env, "%s", arg);
	return CODE_DONE;
}

/* -1: there is no folder, since there was no run. */
static int open_folder(struct logs *l)
{
	l->folder = record_open(l->c->store, l->env);
	if (l->folder >= 0)
		return CODE_DONE;
	if (l->folder == -EACCES)
		return remote_fail_denied(l->c);
	if (l->folder != -ENOENT)
		return call_fail_err(l->c, l->folder, NULL, l->env);
	if (remote_has_env(l->c, l->env))
		return CODE_DONE;
	return call_fail(l->c, CODE_FAILED, "%s: unknown environment", l->env);
}

static int list_runs(const struct logs *l, struct buf *numbers)
{
	int r = l->folder < 0 ? 0 : record_list(l->folder, numbers);

	return r < 0 ? call_fail_err(l->c, r, NULL, l->env) : CODE_DONE;
}

static int find_run(struct logs *l, const char *text)
{
	_cleanup_buf_ struct buf all = {0};
	int r;

	if (text && strcmp(text, "last") != 0)
		return number_read(text, UINT64_MAX, &l->number) || !l->number
			       ? call_fail(l->c, CODE_USAGE,
					   "%s: not the number of a run, nor "
					   "\"last\"",
					   text)
			       : CODE_DONE;
	r = list_runs(l, &all);
	if (!r && !all.len)
		return call_fail(l->c, CODE_FAILED, "%s: nothing was run in it",
				 l->env);
	if (!r)
		l->number = record_number(&all, all.len / sizeof l->number - 1);
	return r;
}

/* --- one run ------------------------------------------------------------- */

static int read_info(const struct logs *l, struct record_info *ret)
{
	int r = l->folder < 0 ? -ENOENT
			      : record_read(l->folder, l->number, ret);

	if (r == -ENOENT)
		return call_fail(l->c, CODE_FAILED,
				 "%s: there is no run %llu; \"cowfs logs %s\" "
				 "lists them",
				 l->env, (unsigned long long)l->number, l->env);
	return r < 0 ? call_fail_err(l->c, r, NULL, l->env) : CODE_DONE;
}

/* A line of JSON for each piece, written at once. */
static int put_object(struct logs *l, int stream, const void *data, size_t n,
		      uint64_t cut)
{
	static const char *const names[] = {"stdout", "stderr"};
	_cleanup_out_ struct out o;

	out_init(&o, true, OUT_LINES, piece_columns, ARRAY_SIZE(piece_columns));
	out_row(&o,
		(struct out_cell[]){out_str(l->env), out_num(l->number),
				    out_str(names[stream]), out_bytes(data, n),
				    out_num_if(cut, cut)});
	return out_finish(&o);
}

static int put_piece(void *ctx, int stream, const void *data, size_t n,
		     uint64_t cut)
{
	struct logs *l = ctx;
	_cleanup_buf_ struct buf note = {0};

	l->cut[stream] += cut;
	if (cut)
		logs_cut_note(&note, cut);
	if (cut && !l->c->json)
		return io_write(stream + 1, note.data, note.len);
	if (!l->c->json)
		return io_write(stream + 1, data, n);
	if (opt_has(l->c->args, OPT_FOLLOW))
		return put_object(l, stream, data, n, cut);
	if (cut)
		buf_put(&l->text[stream], note.data, note.len);
	buf_put(&l->text[stream], data, n);
	return buf_error(&l->text[stream]);
}

static int read_streams(struct logs *l)
{
	int r = 0;

	for (int i = 0; i < 2 && r >= 0; i++) {
		if (l->fds[i] < 0)
			l->fds[i] = record_open_stream(l->folder, l->number, i);
		if (l->fds[i] >= 0)
			r = logs_read(l->fds[i], i, &l->at[i], put_piece, l);
	}
	return r < 0 ? call_fail_err(l->c, r, NULL, l->env) : CODE_DONE;
}

static void tell_missing(struct logs *l, const struct record_info *info)
{
	for (int i = 0; i < 2; i++) {
		_cleanup_buf_ struct buf text = {0};
		const char *why = logs_missing(info, i, &text);

		if (why && !l->told[i] && !l->c->json)
			(void)call_fail(l->c, 0, "%s", why);
		l->told[i] = l->told[i] || why;
	}
}

/* Returns whether somebody still writes it. */
static int show_once(struct logs *l, struct record_info *info, bool *ret_runs)
{
	int r = read_info(l, info);

	if (r)
		return r;
	/* What it wrote before its end is there when the end is. */
	*ret_runs = info->runs;
	tell_missing(l, info);
	return read_streams(l);
}

static int show_run(struct logs *l)
{
	const bool follow = opt_has(l->c->args, OPT_FOLLOW);
	_cleanup_(record_info_fini) struct record_info info = {0};
	_cleanup_out_ struct out o;
	bool runs = true;
	int r;

	out_init(&o, l->c->json, OUT_LINES, logs_columns, LOGS_COLUMNS);
	for (;;) {
		record_info_fini(&info);
		r = show_once(l, &info, &runs);
		if (r || !runs || !follow)
			break;
		(void)poll(NULL, 0, POLL_MS);
	}
	if (!r)
		logs_row(
			&o, l->env, &info,
			follow ? NULL
			       : &(struct logs_text){{&l->text[0], &l->text[1]},
						     {l->cut[0], l->cut[1]}});
	return call_finish(l->c, &o, r);
}

/* --- all ----------------------------------------------------------------- */

static int show_list(struct logs *l)
{
	_cleanup_buf_ struct buf all = {0};
	_cleanup_out_ struct out o;
	int r = list_runs(l, &all);

	out_init(&o, l->c->json, OUT_TABLE, logs_columns, LOGS_COLUMNS);
	for (size_t i = 0; !r && i < all.len / sizeof(uint64_t); i++) {
		_cleanup_(record_info_fini) struct record_info info = {0};

		/* It may be gone, or torn by a power cut. */
		if (record_read(l->folder, record_number(&all, i), &info) == 0)
			logs_row(&o, l->env, &info, NULL);
	}
	return call_finish(l->c, &o, r);
}

static int run(struct call *c)
{
	_cleanup_(logs_fini) struct logs l = {
		.c = c, .folder = -1, .fds = {-1, -1}};
	const char *which = c->args->arg_count > 1 ? c->args->args[1] : NULL;
	int r = find_env(&l);

	if (!r)
		r = open_folder(&l);
	if (r)
		return r;
	if (!which && !opt_has(c->args, OPT_FOLLOW))
		return show_list(&l);
	r = find_run(&l, which);
	return r ? r : show_run(&l);
}

const struct verb cmd_logs = {
	.name = "logs",
	.synopsis = "ENV [RUN]",
	.summary = "list what was run in an environment, or show its output",
	.text = "RUN is a number of the list, or \"last\". What the command "
		"wrote to standard output\nand standard error goes to these. "
		"Of each the first 256 KiB and at least the last\n512 KiB are "
		"kept; the end of what was run first goes when all together "
		"have 64 MiB.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 2,
	.run = run,
};
