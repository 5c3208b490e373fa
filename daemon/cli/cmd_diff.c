/* SPDX-License-Identifier: MIT */
/*
 * cmd_diff.c - `cowfs diff`: what changed in an environment, or between two
 * environments or snapshots.
 *
 * The list of changed paths has a form of its own, for all that a file system
 * knows; --patch and --stat are git's, for what git knows. With -z names are
 * raw and each field ends in NUL, else they are quoted as git does.
 */
#include "cli/cmd.h"

#include "cli/diff.h"
#include "cli/number.h"

/* Content of this size may be in memory some six times. */
#define DEFAULT_MAX (UINT64_C(32) << 20)

enum {
	OPT_NAME_STATUS,
	OPT_PATCH,
	OPT_STAT,
	OPT_NUL,
	OPT_TIMES,
	OPT_EXIT_CODE,
	OPT_MAX_FILE,
};

static const struct opt_def options[] = {
	[OPT_NAME_STATUS] = {"name-status", 0, OPT_FLAG, ARG_NONE, NULL,
			     "a letter and the path (this is the default)"},
	[OPT_PATCH] = {"patch", 'p', OPT_FLAG, ARG_NONE, NULL,
		       "a patch that git apply takes"},
	[OPT_STAT] = {"stat", 0, OPT_FLAG, ARG_NONE, NULL,
		      "changed lines, as git counts them; with -z sizes before "
		      "and after"},
	[OPT_NUL] = {"null", 'z', OPT_FLAG, ARG_NONE, NULL,
		     "names as they are, each field ends in NUL"},
	[OPT_TIMES] = {"times", 0, OPT_FLAG, ARG_NONE, NULL,
		       "also where only the modification time changed"},
	[OPT_EXIT_CODE] = {"exit-code", 0, OPT_FLAG, ARG_NONE, NULL,
			   "exit 1 when there are changes"},
	[OPT_MAX_FILE] = {"max-file", 0, OPT_VALUE, ARG_TEXT, "SIZE",
			  "of bigger files only say that they differ (32M)"},
};

const struct out_col diff_columns[DIFF_COLUMNS] = {
	{"status", NULL, OUT_STR},
	{"path", NULL, OUT_STR},
	{"old_path", NULL, OUT_STR},
	{"dir", NULL, OUT_BOOL},
	{"content", NULL, OUT_BOOL},
	{"old_size", NULL, OUT_SIZE},
	{"new_size", NULL, OUT_SIZE},
	{"old_mode", NULL, OUT_MODE},
	{"new_mode", NULL, OUT_MODE},
	/* of git's forms only */
	{"binary", NULL, OUT_BOOL},
	{"insertions", NULL, OUT_COUNT},
	{"deletions", NULL, OUT_COUNT},
	{"patch", NULL, OUT_STR},
};

struct ask {
	bool is_git; /* one of git's forms */
	enum diff_form form;
	enum diff_fields fields;
	bool times;
	uint64_t max;
};

static int check_together(const struct call *c, size_t a, size_t b)
{
	if (!opt_has(c->args, a) || !opt_has(c->args, b))
		return CODE_DONE;
	return call_fail(c, CODE_USAGE, "--%s: not together with --%s",
			 options[a].name, options[b].name);
}

static int read_options(const struct call *c, struct ask *a)
{
	static const size_t not_together[][2] = {
		{OPT_STAT, OPT_NAME_STATUS}, {OPT_PATCH, OPT_NAME_STATUS},
		{OPT_PATCH, OPT_STAT},	     {OPT_PATCH, OPT_NUL},
		{OPT_PATCH, OPT_TIMES},
	};
	const char *max = opt_value(c->args, OPT_MAX_FILE);
	const bool stat = opt_has(c->args, OPT_STAT);
	const bool nul = opt_has(c->args, OPT_NUL);
	int r = CODE_DONE;

	for (size_t i = 0; i < ARRAY_SIZE(not_together) && !r; i++)
		r = check_together(c, not_together[i][0], not_together[i][1]);
	if (r)
		return r;
	a->max = DEFAULT_MAX;
	if (max && number_read_size(max, &a->max) < 0)
		return call_fail(c, CODE_USAGE, "--max-file: %s: not a size",
				 max);
	a->is_git = opt_has(c->args, OPT_PATCH) || (stat && !nul);
	a->form = stat ? DIFF_STAT : DIFF_PATCH;
	a->fields = !nul ? DIFF_LINES : stat ? DIFF_SIZES : DIFF_NUL;
	a->times = opt_has(c->args, OPT_TIMES);
	return CODE_DONE;
}

static int answer(struct diff_job *j, const struct ask *a, struct out *out,
		  uint64_t *ret_count)
{
	int r;

	if (!a->is_git && !diff_has_two(j)) {
		r = diff_list_env(j, a->fields, a->times, out, ret_count);
		/* is there such a path, or was it meant for a name? */
		return r || *ret_count || !j->loose ? r : diff_open(j);
	}
	r = diff_open(j);
	if (r)
		return r;
	if (a->is_git)
		return diff_git(j, a->form, a->max, out, ret_count);
	return diff_list_two(j, a->fields, a->times, out, ret_count);
}

static int run(struct call *c)
{
	_cleanup_(diff_fini) struct diff_job j = {.c = c, .fd = -1};
	_cleanup_out_ struct out out;
	struct ask a = {0};
	uint64_t count = 0;
	int r = read_options(c, &a);

	out_init(&out, c->json, OUT_LINES, diff_columns,
		 a.is_git ? DIFF_COLUMNS : DIFF_LIST_COLUMNS);
	if (!r)
		r = diff_read_args(&j);
	if (!r)
		r = answer(&j, &a, &out, &count);
	if (r)
		return r;
	return call_finish(
		c, &out,
		count && opt_has(c->args, OPT_EXIT_CODE) ? CODE_NO : CODE_DONE);
}

const struct verb cmd_diff = {
	.name = "diff",
	.synopsis = "ENV [OTHER] [PATH...]",
	.summary = "list what changed in an environment, or between two",
	.text = "Letters: A added, M modified, D deleted, T other kind of "
		"file, R100 renamed.\nFiles, symbolic links and special files; "
		"a directory (with a '/' at its end) when\nit is new and "
		"empty, gone, or its own attributes changed.\n\nWith OTHER, "
		"both may be environments or snapshots. PATHs are from the "
		"root, and\nmean all that is below them; after -- nothing is "
		"taken for OTHER.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = OPT_MANY,
	.run = run,
};
