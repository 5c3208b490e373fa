/* SPDX-License-Identifier: MIT */
/*
 * cmd_rescue.c - `cowfs rescue ls|show|restore|drop|prune`: what umount has
 * saved of environments that are gone.
 *
 * Records are read and removed here, in the store; only restoring makes an
 * environment, and so asks the server. A rescue's ref in the origin goes
 * before its record: killed in between, the record is there to try again.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/name.h"
#include "cli/diff.h"
#include "cli/number.h"
#include "cli/rescue.h"
#include "cli/snaps.h"
#include "git/rescue.h"

#define SHOW_MAX (UINT64_C(32) << 20) /* bytes of a file in a patch */
#define SPAN_MAX (UINT64_C(1000) * 366 * 86400)

enum { OPT_PATCH, OPT_STAT, OPT_NUL, OPT_OLDER, OPT_DRY_RUN };

static const struct opt_def options[] = {
	[OPT_PATCH] = {"patch", 'p', OPT_FLAG, ARG_NONE, NULL,
		       "show: a patch that git apply takes"},
	[OPT_STAT] = {"stat", 0, OPT_FLAG, ARG_NONE, NULL,
		      "show: changed lines, as git counts them"},
	[OPT_NUL] = {"null", 'z', OPT_FLAG, ARG_NONE, NULL,
		     "show: names as they are, each field ends in NUL"},
	[OPT_OLDER] = {"older-than", 0, OPT_VALUE, ARG_TEXT, "TIME",
		       "prune: those made so long ago: 30d, 12h, ..."},
	[OPT_DRY_RUN] = {"dry-run", 0, OPT_FLAG, ARG_NONE, NULL,
			 "drop, prune: only say what would be removed"},
};

static const struct out_col list_columns[] = {
	{"rescue", "RESCUE", OUT_STR}, {"env", "ENV", OUT_STR},
	{"where", "WHERE", OUT_STR},   {"time", "TIME", OUT_TIME},
	{"files", "FILES", OUT_COUNT}, {"snapshot", NULL, OUT_ID},
	{"base", NULL, OUT_ID},	       {"source", "FROM", OUT_STR},
	{"git_dir", NULL, OUT_STR},    {"git_ref", NULL, OUT_STR},
	{"git_commit", NULL, OUT_STR}, {"left", NULL, OUT_LIST},
};

static const struct out_col drop_columns[] = {
	{"rescue", NULL, OUT_STR},
	{"env", NULL, OUT_STR},
};

static int open_store(const struct call *c, struct store **ret)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = store_open(c->store, 0, &diag, ret);

	return r < 0 ? call_fail_err(c, r, &diag, c->store) : CODE_DONE;
}

static int fail_rescue(const struct call *c, int err, const char *name)
{
	if (err != -ENOENT)
		return call_fail_err(c, err, NULL, name);
	(void)call_fail(c, 0, "%s: unknown rescue", name);
	call_hint("\"cowfs rescue ls\" lists them");
	return CODE_FAILED;
}

/* --- ls ------------------------------------------------------------------ */

/* Learns of the origin what an interrupted umount did not write down. */
static int complete(struct rescue *r, struct diag *diag,
		    char commit[GIT_HEX_BYTES])
{
	int err = rescue_find_commit(r, diag, commit);

	if (err == 0)
		r->git_commit = commit;
	return MIN(err, 0);
}

static int add_row(void *ctx, const struct rescue *found)
{
	struct rescue known = *found, *r = &known;
	char commit[GIT_HEX_BYTES];
	struct bytes in = bytes_of(r->left, r->left_len);
	char snapshot[OID_HEX + 1], base[OID_HEX + 1];
	_cleanup_buf_ struct buf left = {0};
	struct rescue_left one;
	struct out *o = ctx;

	/* of an origin that cannot be read nothing is known */
	(void)!complete(r, NULL, commit);
	while (rescue_left_next(&in, &one)) {
		buf_put(&left, one.path, one.path_len);
		buf_put_u8(&left, 0);
	}
	oid_to_hex(&r->snapshot, snapshot);
	oid_to_hex(&r->base, base);
	out_row(o, (struct out_cell[]){
			   out_str(r->name),
			   out_str(r->env),
			   out_str(rescue_has_commit(r) ? "origin" : "store"),
			   out_num((uint64_t)MAX(r->time_sec, 0)),
			   out_num(r->files),
			   out_str(snapshot),
			   out_str(base),
			   out_str(r->source),
			   out_str(rescue_has_commit(r) ? r->git_dir : ""),
			   out_str(rescue_has_commit(r) ? r->git_ref : ""),
			   out_str(rescue_has_commit(r) ? r->git_commit : ""),
			   out_bytes(left.data, left.len),
		   });
	return buf_error(&left);
}

static int list(const struct call *c)
{
	_cleanup_store_ struct store *s = NULL;
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_out_ struct out o;
	int r;

	out_init(&o, c->json, OUT_TABLE, list_columns,
		 ARRAY_SIZE(list_columns));
	r = store_open(c->store, 0, &diag, &s);
	if (r == -ENOENT)
		return CODE_DONE;
	if (r == 0)
		r = store_rescues(s, add_row, &o);
	return r < 0 ? call_fail_err(c, r, &diag, c->store)
		     : call_finish(c, &o, CODE_DONE);
}

/* --- show ---------------------------------------------------------------- */

struct copy { /* of what a callback was lent */
	struct oid snapshot, base;
	struct buf left;
};

static int take_copy(void *ctx, const struct rescue *r)
{
	struct copy *copy = ctx;

	copy->snapshot = r->snapshot;
	copy->base = r->base;
	buf_put(&copy->left, r->left, r->left_len);
	return buf_error(&copy->left);
}

static int print_diff(const struct call *c, const struct copy *copy)
{
	const bool patch = opt_has(c->args, OPT_PATCH);
	const bool stat = opt_has(c->args, OPT_STAT);
	const bool nul = opt_has(c->args, OPT_NUL);
	_cleanup_(diff_fini) struct diff_job j = {.c = c, .fd = -1};
	_cleanup_out_ struct out o;
	uint64_t count = 0;
	int r;

	out_init(&o, c->json, OUT_LINES, diff_columns,
		 patch || stat ? DIFF_COLUMNS : DIFF_LIST_COLUMNS);
	r = diff_open_snapshots(&j, &copy->base, &copy->snapshot);
	if (r)
		return r;
	if (patch || stat)
		r = diff_git(&j, patch ? DIFF_PATCH : DIFF_STAT, SHOW_MAX, &o,
			     &count);
	else
		r = diff_list_two(&j, nul ? DIFF_NUL : DIFF_LINES, false, &o,
				  &count);
	return r ? r : call_finish(c, &o, CODE_DONE);
}

static int show(const struct call *c)
{
	const char *name = c->args->args[1];
	struct copy copy = {0};
	struct store *s = NULL;
	int r = open_store(c, &s);

	if (opt_has(c->args, OPT_PATCH) + opt_has(c->args, OPT_STAT) +
		    opt_has(c->args, OPT_NUL) >
	    1)
		r = call_fail(c, CODE_USAGE,
			      "--patch, --stat and -z: only one of them");
	if (r) {
		store_close(s);
		return r;
	}
	r = store_rescue(s, name, take_copy, &copy);
	store_close(s);
	if (r == 0)
		r = print_diff(c, &copy);
	else
		r = fail_rescue(c, r, name);
	if (r == CODE_DONE)
		rescue_tell_left(c, name, &copy.left, 0);
	buf_fini(&copy.left);
	return r;
}

/* --- restore ------------------------------------------------------------- */

static int read_left(const struct call *c, const char *name, struct copy *copy)
{
	struct store *s = NULL;
	int r = open_store(c, &s);

	if (r)
		return r;
	r = store_rescue(s, name, take_copy, copy);
	store_close(s);
	return r < 0 ? fail_rescue(c, r, name) : CODE_DONE;
}

static int restore(const struct call *c)
{
	const char *rescue = c->args->args[1], *env = c->args->args[2];
	_cleanup_msg_ struct msg request = {0}, done = {0};
	_cleanup_close_ int fd = -1;
	struct copy copy = {0};
	int r;

	if (!name_is_label(env))
		return call_bad_name(c, env, "name of an environment");
	r = read_left(c, rescue, &copy);
	if (!r)
		r = remote_connect(c, &fd);
	if (!r) {
		msg_begin(&request, CTL_RESTORE);
		msg_put_str(&request, CTL_TAG_RESCUE, rescue);
		msg_put_str(&request, CTL_TAG_NAME, env);
		r = remote_call(c, &fd, &request, NULL, NULL, &done);
	}
	if (!r) {
		rescue_tell_left(c, rescue, &copy.left, 0);
		call_hint("\"cowfs mount %s\" mounts it", env);
	}
	buf_fini(&copy.left);
	return r;
}

/* --- drop and prune ------------------------------------------------------ */

struct dropping {
	const struct call *c;
	struct store *store;
	struct out out;
	int64_t before; /* prune: those made before */
	int worst;
	bool dry_run;
};

/* Takes the ref out of the origin. 0: whatever there was of it is gone, or not
 * ours. */
static int drop_ref(const struct dropping *d, const struct rescue *found)
{
	struct rescue known = *found, *r = &known;
	char commit[GIT_HEX_BYTES];
	_cleanup_diag_ struct diag diag = {0};
	const char *line;
	int err = complete(r, &diag, commit);

	if (err == 0 && !rescue_has_commit(r))
		return 0;
	if (err == 0)
		err = gitrescue_drop(r->git_dir, r->git_ref, r->git_commit,
				     &diag);
	line = diag_line(&diag, 0);
	if (err == -EBUSY) {
		(void)call_fail(d->c, 0, "%s: left alone in the origin: %s",
				r->name, line ? line : r->git_ref);
		return 0;
	}
	if (err < 0)
		(void)call_fail_err(d->c, err, &diag, r->git_dir);
	return err;
}

static int drop_one(void *ctx, const struct rescue *r)
{
	struct dropping *d = ctx;
	int err = 0;

	if (!d->dry_run)
		err = drop_ref(d, r);
	if (err < 0) {
		d->worst = MAX(d->worst, exit_code_of(err));
		return 0;
	}
	if (!d->dry_run)
		err = store_rescue_delete(d->store, r->name);
	if (err < 0 && err != -ENOENT) {
		err = call_fail_err(d->c, err, NULL, r->name);
		d->worst = MAX(d->worst, err);
		return 0;
	}
	out_row(&d->out,
		(struct out_cell[]){out_str(r->name), out_str(r->env)});
	if (d->dry_run)
		out_printf(&d->out, "would remove the rescue %s\n", r->name);
	return 0;
}

static int prune_one(void *ctx, const struct rescue *r)
{
	const struct dropping *d = ctx;

	return r->time_sec <= d->before ? drop_one(ctx, r) : 0;
}

static int dropping_begin(struct dropping *d, const struct call *c)
{
	*d = (struct dropping){.c = c,
			       .dry_run = opt_has(c->args, OPT_DRY_RUN)};
	out_init(&d->out, c->json, OUT_LINES, drop_columns,
		 ARRAY_SIZE(drop_columns));
	return open_store(c, &d->store);
}

static int dropping_end(struct dropping *d, int r)
{
	r = call_finish(d->c, &d->out, MAX(r, d->worst));
	out_fini(&d->out);
	store_close(d->store);
	return r;
}

static int drop(const struct call *c)
{
	struct dropping d;
	int worst = dropping_begin(&d, c);

	for (size_t i = 1; d.store && i < c->args->arg_count; i++) {
		const char *name = c->args->args[i];
		int r = store_rescue(d.store, name, drop_one, &d);

		if (r < 0)
			r = fail_rescue(c, r, name);
		worst = MAX(worst, r);
	}
	return dropping_end(&d, worst);
}

static int prune(const struct call *c)
{
	const char *text = opt_value(c->args, OPT_OLDER);
	struct dropping d;
	uint64_t span;
	int r;

	if (!text || number_read_span(text, SPAN_MAX, &span) < 0) {
		(void)call_fail(c, 0,
				text ? "--older-than: %s: not a time"
				     : "prune: needs --older-than TIME",
				text);
		return CODE_USAGE;
	}
	r = dropping_begin(&d, c);
	d.before = (int64_t)clock_now().tv_sec - (int64_t)span;
	if (!r)
		r = store_rescues(d.store, prune_one, &d);
	if (r < 0)
		r = call_fail_err(c, r, NULL, c->store);
	return dropping_end(&d, r);
}

/* --- the verb ------------------------------------------------------------ */

static const struct {
	const char *name;
	int (*run)(const struct call *c);
	size_t min_args, max_args; /* after the name */
	const char *args;
} actions[] = {
	{"ls", list, 0, 0, ""},
	{"show", show, 1, 1, " RESCUE"},
	{"restore", restore, 2, 2, " RESCUE ENV"},
	{"drop", drop, 1, OPT_MANY, " RESCUE..."},
	{"prune", prune, 0, 0, " --older-than TIME"},
};

static int run(struct call *c)
{
	const char *what = c->args->args[0];
	size_t n = c->args->arg_count - 1;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (strcmp(what, actions[i].name) != 0)
			continue;
		if (n >= actions[i].min_args && n <= actions[i].max_args)
			return actions[i].run(c);
		(void)call_fail(c, 0, "%s: %s", what,
				n < actions[i].min_args ? "too few arguments"
							: "too many arguments");
		call_hint("usage: cowfs rescue %s%s", actions[i].name,
			  actions[i].args);
		return CODE_USAGE;
	}
	return call_fail(c, CODE_USAGE,
			 "%s: not ls, show, restore, drop or prune", what);
}

const struct verb cmd_rescue = {
	.name = "rescue",
	.synopsis = "ls|show|restore|drop|prune [RESCUE...] [ENV]",
	.summary = "what umount has saved: list it, bring it back, remove it",
	.text = "ls lists rescues. show RESCUE lists what had changed, as diff "
		"does. restore RESCUE\nENV makes a kept environment ENV of it "
		"(\"mount ENV\" mounts it). drop RESCUE... and\nprune "
		"--older-than TIME remove rescues, with their refs in the "
		"origin.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_CHOICE,
	.choices = "ls show restore drop prune",
	.min_args = 1,
	.max_args = OPT_MANY,
	.hidden_args = true,
	.run = run,
};
