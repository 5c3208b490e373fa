/* SPDX-License-Identifier: MIT */
/*
 * cmd_completion.c - `cowfs completion`: scripts for shells, from the tables.
 *
 * The scripts only split words; what fits is answered by `cowfs completion
 * words VERB [WORD]...`, a hidden form that prints one candidate a line, so
 * that three shells need no knowledge of verbs. Names are read from the store
 * without starting a server. `completion options` lists all options, for the
 * lint that compares them with the manual.
 */
#include "cli/cmd.h"

#include <dirent.h>
#include <stdio.h>

#include "base/name.h"
#include "cli/remote.h"
#include "cli/snaps.h"

static const char bash_script[] =
	"# bash completion for cowfs: eval \"$(cowfs completion bash)\"\n"
	"_cowfs() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} IFS=$'\\n'\n"
	"\tlocal words=$(cowfs completion words -- "
	"\"${COMP_WORDS[@]:1:COMP_CWORD-1}\" 2>/dev/null)\n"
	"\tif [[ $words == *@dirs* ]]; then\n"
	"\t\twords=${words//@dirs/}\n"
	"\t\tcompopt -o filenames\n"
	"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\")\n"
	"\t\t\t$(compgen -d -- \"$cur\"))\n"
	"\telse\n"
	"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	"\tfi\n"
	"}\n"
	"complete -F _cowfs cowfs\n";

static const char zsh_script[] =
	"#compdef cowfs\n"
	"# zsh completion for cowfs: eval \"$(cowfs completion zsh)\"\n"
	"_cowfs() {\n"
	"\tlocal -a found\n"
	"\tfound=(${(f)\"$(cowfs completion words -- "
	"${words[2,CURRENT-1]} 2>/dev/null)\"})\n"
	"\tif (( ${found[(I)@dirs]} )); then\n"
	"\t\tfound=(${found:#@dirs})\n"
	"\t\t_files -/\n"
	"\tfi\n"
	"\tcompadd -- $found\n"
	"}\n"
	"compdef _cowfs cowfs\n";

static const char fish_script[] =
	"# fish completion for cowfs: cowfs completion fish | source\n"
	"function __cowfs_words\n"
	"\tset -l done (commandline -opc)\n"
	"\tset -l found (cowfs completion words -- $done[2..-1] 2>/dev/null)\n"
	"\tif contains -- @dirs $found\n"
	"\t\t__fish_complete_directories (commandline -ct)\n"
	"\tend\n"
	"\tstring match -v -- @dirs $found\n"
	"end\n"
	"complete -c cowfs -f -a '(__cowfs_words)'\n";

/* --- candidates -------------------------------------------------------- */

static void put_options(struct out *o, const struct opt_def *opts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		out_printf(o, "--%s\n", opts[i].name);
		if (opts[i].letter)
			out_printf(o, "-%c\n", opts[i].letter);
	}
}

/* Environments are entries of STORE/envs. */
static void put_envs(const struct call *c, struct out *o)
{
	_cleanup_buf_ struct buf path = {0};
	const struct dirent *e;
	const char *s;
	DIR *dir;

	buf_printf(&path, "%s/envs", c->store);
	s = buf_str(&path);
	dir = s ? opendir(s) : NULL;
	if (!dir)
		return;
	while ((e = readdir(dir)))
		if (name_is_label(e->d_name))
			out_printf(o, "%s\n", e->d_name);
	(void)closedir(dir);
}

static void put_snapshots(const struct call *c, struct out *o)
{
	_cleanup_snaps_ struct snaps all = {0};
	_cleanup_store_ struct store *s = NULL;

	if (store_open(c->store, 0, NULL, &s) || snaps_read_refs(&all, s))
		return;
	for (size_t at = 0; at < all.refs.len; at += sizeof(struct snaps_ref))
		out_printf(o, "%s\n", (const char *)all.refs.data + at);
}

static void put_kind(const struct call *c, struct out *o, enum opt_arg kind,
		     const struct verb *v)
{
	switch (kind) {
	case ARG_DIR:
		out_printf(o, "@dirs\n");
		break;
	case ARG_ENV:
		put_envs(c, o);
		break;
	case ARG_SNAPSHOT:
		put_snapshots(c, o);
		if (v == &cmd_mount) {
			put_envs(c, o);
			out_printf(o, "@dirs\n");
		}
		break;
	case ARG_VERB:
		for (size_t i = 0; i < cmd_verb_count; i++)
			out_printf(o, "%s\n", cmd_verbs[i]->name);
		break;
	case ARG_CHOICE:
		for (const char *s = v->choices; *s;) {
			size_t n = strcspn(s, " ");

			out_printf(o, "%.*s\n", (int)n, s);
			s += n + (s[n] == ' ');
		}
		break;
	default:
		break;
	}
}

/* Whether word is an option that waits for its value; which kind of value. */
static bool wants_value(const struct verb *v, const char *word,
			enum opt_arg *ret_kind)
{
	size_t n = v ? v->opt_count : 0;

	for (size_t i = 0; i < n + opt_global_count; i++) {
		const struct opt_def *d =
			i < n ? &v->opts[i] : &opt_globals[i - n];
		bool same =
			word[1] == '-'
				? !strcmp(d->name, word + 2)
				: d->letter && d->letter == word[1] && !word[2];

		if (same && d->kind != OPT_FLAG) {
			*ret_kind = d->arg;
			return true;
		}
	}
	return false;
}

/* Candidates for the word after those in args[1..]. */
static void put_words(struct call *c, struct out *o)
{
	const struct opt_args *a = c->args;
	const struct verb *v = NULL;
	enum opt_arg kind = ARG_NONE;
	bool value = false, was_store = false;

	for (size_t i = 1; i < a->arg_count; i++) {
		const char *word = a->args[i];

		if (was_store)
			c->store = word;
		was_store = !value && !strcmp(word, "--store");
		if (value)
			value = false;
		else if (word[0] == '-' && word[1])
			value = wants_value(v, word, &kind);
		else if (!v)
			v = opt_find_verb(cmd_verbs, cmd_verb_count, word);
	}
	if (value) {
		put_kind(c, o, kind, v);
		return;
	}
	if (v)
		put_options(o, v->opts, v->opt_count);
	put_options(o, opt_globals, opt_global_count);
	put_kind(c, o, v ? v->arg : ARG_VERB, v);
}

static void put_all_options(struct out *o)
{
	for (size_t v = 0; v < cmd_verb_count; v++)
		for (size_t i = 0; i < cmd_verbs[v]->opt_count; i++) {
			const struct opt_def *d = &cmd_verbs[v]->opts[i];

			out_printf(o, "%s --%s", cmd_verbs[v]->name, d->name);
			if (d->letter)
				out_printf(o, " -%c", d->letter);
			out_printf(o, "\n");
		}
}

static int run(struct call *c)
{
	const char *what = c->args->args[0];
	_cleanup_out_ struct out o;

	out_init(&o, false, OUT_LINES, NULL, 0);
	if (!strcmp(what, "words")) {
		put_words(c, &o);
		return call_finish(c, &o, CODE_DONE);
	}
	if (c->args->arg_count > 1)
		return call_fail(c, CODE_USAGE, "%s: one argument too many",
				 c->args->args[1]);
	if (!strcmp(what, "bash"))
		out_printf(&o, "%s", bash_script);
	else if (!strcmp(what, "zsh"))
		out_printf(&o, "%s", zsh_script);
	else if (!strcmp(what, "fish"))
		out_printf(&o, "%s", fish_script);
	else if (!strcmp(what, "options"))
		put_all_options(&o);
	else
		return call_fail(c, CODE_USAGE, "%s: not bash, zsh or fish",
				 what);
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_completion = {
	.name = "completion",
	.synopsis = "bash|zsh|fish",
	.summary = "print a script that completes words in a shell",
	.text = "bash: eval \"$(cowfs completion bash)\"\n"
		"zsh:  eval \"$(cowfs completion zsh)\"\n"
		"fish: cowfs completion fish | source",
	.arg = ARG_CHOICE,
	.choices = "bash zsh fish",
	.min_args = 1,
	.max_args = 1,
	.hidden_args = true,
	.run = run,
};
