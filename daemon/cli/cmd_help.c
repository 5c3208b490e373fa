/* SPDX-License-Identifier: MIT */
/*
 * cmd_help.c - `cowfs help` and `cowfs version`, written from the tables.
 */
#include "cli/cmd.h"

#include "base/err.h"

enum { HELP_COLUMN = 26, VERB_COLUMN = 12 };

static const struct out_col version_columns[] = {
	{"version", NULL, OUT_STR},
};

static void print_option(struct out *o, const struct opt_def *d)
{
	_cleanup_buf_ struct buf name = {0};
	const char *text;

	if (d->letter)
		buf_printf(&name, "-%c, ", d->letter);
	else
		buf_printf(&name, "    ");
	buf_printf(&name, "--%s", d->name);
	if (d->metavar)
		buf_printf(&name, " %s", d->metavar);
	text = buf_str(&name);
	out_printf(o, "  %-*s %s\n", HELP_COLUMN, text ? text : "", d->help);
}

static void print_verb(struct out *o, const struct verb *v)
{
	out_printf(o, "usage: cowfs %s%s%s%s\n\n%s\n", v->name,
		   v->opt_count ? " [OPTIONS]" : "", *v->synopsis ? " " : "",
		   v->synopsis, v->summary);
	if (v->text)
		out_printf(o, "\n%s\n", v->text);
	if (v->opt_count)
		out_printf(o, "\noptions:\n");
	for (size_t i = 0; i < v->opt_count; i++)
		print_option(o, &v->opts[i]);
	out_printf(o, "\noptions of every command:\n");
	for (size_t i = 0; i < opt_global_count; i++)
		print_option(o, &opt_globals[i]);
}

static void print_overview(struct out *o)
{
	out_printf(o,
		   "usage: cowfs [--store DIR] [--json] COMMAND [OPTIONS] "
		   "[ARGUMENTS]\n\n"
		   "Copy-on-write workspaces: import a tree once, mount it as "
		   "often as you like.\n\ncommands:\n");
	for (size_t i = 0; i < cmd_verb_count; i++)
		out_printf(o, "  %-*s %s\n", VERB_COLUMN, cmd_verbs[i]->name,
			   cmd_verbs[i]->summary);
	out_printf(o, "\noptions of every command:\n");
	for (size_t i = 0; i < opt_global_count; i++)
		print_option(o, &opt_globals[i]);
	out_printf(o, "\n\"cowfs help COMMAND\" tells more; the manual is "
		      "cowfs(1), a tutorial cowfs(7).\n");
}

int help_print(const struct call *c, const struct verb *verb)
{
	_cleanup_out_ struct out o;

	out_init(&o, false, OUT_LINES, NULL, 0);
	if (verb)
		print_verb(&o, verb);
	else
		print_overview(&o);
	return call_finish(c, &o, CODE_DONE);
}

static int run_help(struct call *c)
{
	const struct verb *v;
	const char *name, *near;

	if (!c->args->arg_count)
		return help_print(c, NULL);
	name = c->args->args[0];
	v = opt_find_verb(cmd_verbs, cmd_verb_count, name);
	if (v)
		return help_print(c, v);
	(void)call_fail(c, 0, "%s: unknown command", name);
	near = opt_near_verb(cmd_verbs, cmd_verb_count, name);
	if (near)
		call_hint("did you mean \"cowfs help %s\"?", near);
	else
		call_hint("\"cowfs help\" lists the commands");
	return CODE_USAGE;
}

const struct verb cmd_help = {
	.name = "help",
	.synopsis = "[COMMAND]",
	.summary = "say how cowfs, or one command, is used",
	.arg = ARG_VERB,
	.max_args = 1,
	.run = run_help,
};

int version_print(const struct call *c)
{
	_cleanup_out_ struct out o;

	out_init(&o, c->json, OUT_LINES, version_columns,
		 ARRAY_SIZE(version_columns));
	out_row(&o, (struct out_cell[]){out_str(COWFS_VERSION)});
	out_printf(&o, "cowfs %s\n", COWFS_VERSION);
	return call_finish(c, &o, CODE_DONE);
}

static int run_version(struct call *c)
{
	return version_print(c);
}

const struct verb cmd_version = {
	.name = "version",
	.synopsis = "",
	.summary = "say which version this is",
	.run = run_version,
};
