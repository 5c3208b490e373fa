/* SPDX-License-Identifier: MIT */
/*
 * cmd_settings.c - `cowfs settings`: shows what the owner of the store has
 * decided, after changing what is given.
 */
#include "cli/cmd.h"

#include <inttypes.h>
#include <string.h>

#include "cli/number.h"
#include "cli/snaps.h"
#include "store/settings.h"

enum { OPT_MAX_STORE, OPT_GRACE, OPT_BIRTHS };

static const struct opt_def options[] = {
	[OPT_MAX_STORE] = {"max-store", 0, OPT_VALUE, ARG_TEXT, "SIZE",
			   "refuse imports beyond; 0 is no limit"},
	[OPT_GRACE] = {"grace", 0, OPT_VALUE, ARG_TEXT, "DAYS",
		       "gc keeps snapshots without a name for so long"},
	[OPT_BIRTHS] = {"birth-times", 0, OPT_VALUE, ARG_TEXT, "yes|no",
			"whether files of later mounts have them"},
};

static const struct out_col columns[] = {
	{"max_store", NULL, OUT_SIZE},
	{"grace_days", NULL, OUT_COUNT},
	{"birth_times", NULL, OUT_BOOL},
};

static int read_options(const struct call *c, struct settings *s)
{
	const char *max = opt_value(c->args, OPT_MAX_STORE);
	const char *grace = opt_value(c->args, OPT_GRACE);
	const char *births = opt_value(c->args, OPT_BIRTHS);
	uint64_t days;

	if (max && number_read_size(max, &s->max_store))
		return call_fail(c, CODE_USAGE,
				 "--max-store: \"%s\" is no size (a number of "
				 "bytes, or of K, M, G, T)",
				 max);
	if (births && strcmp(births, "yes") != 0 && strcmp(births, "no") != 0)
		return call_fail(c, CODE_USAGE,
				 "--birth-times: \"%s\" is not yes or no",
				 births);
	if (births)
		s->no_births = births[0] == 'n';
	if (!grace)
		return CODE_DONE;
	if (number_read(grace, SETTINGS_MAX_GRACE_DAYS, &days))
		return call_fail(c, CODE_USAGE,
				 "--grace: \"%s\" is no number of days (at "
				 "most %d)",
				 grace, SETTINGS_MAX_GRACE_DAYS);
	s->grace_days = (uint32_t)days;
	return CODE_DONE;
}

static int print(const struct call *c, const struct settings *s)
{
	_cleanup_buf_ struct buf size = {0};
	_cleanup_out_ struct out o;
	const char *text = "none";

	if (s->max_store) {
		out_size(&size, s->max_store);
		text = buf_str(&size);
	}
	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	out_row(&o, (struct out_cell[]){out_num(s->max_store),
					out_num(s->grace_days),
					out_num(!s->no_births)});
	out_printf(
		&o, "max-store: %s\ngrace: %" PRIu32 " days\nbirth-times: %s\n",
		text ? text : "?", s->grace_days, s->no_births ? "no" : "yes");
	return call_finish(c, &o, CODE_DONE);
}

static int run(struct call *c)
{
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_store_ struct store *s = NULL;
	struct settings settings = {0};
	/* A wrong value is told before the store is looked for. */
	int r = read_options(c, &settings);

	if (r)
		return r;
	r = store_open(c->store, 0, &diag, &s);
	if (!r)
		r = settings_read(s, &diag, &settings);
	if (!r && c->args->item_count) {
		r = read_options(c, &settings);
		if (r)
			return r;
		r = settings_write(s, &settings);
	}
	if (r)
		return call_fail_err(c, r, &diag, c->store);
	return print(c, &settings);
}

const struct verb cmd_settings = {
	.name = "settings",
	.synopsis = "",
	.summary = "show and change what holds for the whole store",
	.text = "SIZE is a number of bytes, or one with K, M, G or T behind "
		"it.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.run = run,
};
