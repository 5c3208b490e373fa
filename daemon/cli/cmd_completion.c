/* SPDX-License-Identifier: MIT */
/*
 * cmd_completion.c - `cowfs completion`: scripts for shells, from the tables.
 *
 * The scripts only split words; what fits is answered by `cowfs completion
 * words -- [WORD]... LAST`, a hidden form that prints one candidate a line, so
 * that three shells need no knowledge of verbs. "@dirs" stands for directories,
 * which shells find themselves; of "--option=VALUE" the values are printed, as
 * shells see them in different ways. Names are read from the store without
 * starting a server. `completion options` lists all options, for the
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
	"\tlocal IFS=$'\\n' line=${COMP_LINE:0:COMP_POINT} rest word cur found "
	"i\n"
	"\tlocal -a all=()\n"
	"\t# Readline breaks words at ':' and '='; what no space parts is "
	"one.\n"
	"\tfor ((i = 0; i <= COMP_CWORD; i++)); do\n"
	"\t\trest=${line#\"${line%%[![:space:]]*}\"}\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\t((i == COMP_CWORD)) && word=$rest\n"
	"\t\tif ((i)) && [[ $rest == \"$line\" ]]; then\n"
	"\t\t\tall[-1]+=$word\n"
	"\t\telse\n"
	"\t\t\tall+=(\"$word\")\n"
	"\t\tfi\n"
	"\t\tline=${rest#\"$word\"}\n"
	"\tdone\n"
	"\tfound=$(cowfs completion words -- \"${all[@]:1}\" 2>/dev/null)\n"
	"\tcur=${all[-1]}\n"
	"\t[[ $cur == --*=* ]] && cur=${cur#*=}\n"
	"\tCOMPREPLY=()\n"
	"\tif [[ $found == *@dirs* ]]; then\n"
	"\t\tfound=${found//@dirs/}\n"
	"\t\tcompopt -o filenames\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
	"\tfi\n"
	"\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY \\\n"
	"\t\t< <(compgen -W \"$found\" -- \"$cur\")\n"
	"\tif [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
	"\t\tword=${cur%\"${cur##*:}\"}\n"
	"\t\tCOMPREPLY=(\"${COMPREPLY[@]#\"$word\"}\")\n"
	"\tfi\n"
	"}\n"
	"complete -F _cowfs cowfs\n";

static const char zsh_script[] =
	"#compdef cowfs\n"
	"# zsh completion for cowfs, after compinit: eval \"$(cowfs completion "
	"zsh)\"\n"
	"_cowfs() {\n"
	"\tlocal -a found\n"
	"\tfound=(${(f)\"$(cowfs completion words -- \\\n"
	"\t\t${(Q)words[2,CURRENT-1]} \"${(Q)PREFIX}\" 2>/dev/null)\"})\n"
	"\t[[ $PREFIX == --*=* ]] && compset -P '*='\n"
	"\tif (( ${found[(I)@dirs]} )); then\n"
	"\t\tfound=(${found:#@dirs})\n"
	"\t\t_files -/\n"
	"\tfi\n"
	"\tcompadd -- $found\n"
	"}\n"
	"if [[ $funcstack[1] == _cowfs ]]; then\n"
	"\t_cowfs \"$@\"\n"
	"else\n"
	"\tcompdef _cowfs cowfs\n"
	"fi\n";

static const char fish_script[] =
	"# fish completion for cowfs: cowfs completion fish | source\n"
	"function __cowfs_words\n"
	"\tset -l word (commandline -ct)\n"
	"\tset -l done (commandline -opc)\n"
	"\tset -l found (cowfs completion words -- $done[2..] \"$word\" "
	"2>/dev/null)\n"
	"\tset -l option (string match -r -- '^--[a-z-]+=' \"$word\")\n"
	"\tif contains -- @dirs $found\n"
	"\t\tset -l value (string replace -- \"$option\" '' \"$word\")\n"
	"\t\tfor d in (__fish_complete_directories \"$value\" '')\n"
	"\t\t\t# After a ':' fish completes as in a list of paths.\n"
	"\t\t\tstring match -q -- '*:*' \"$value\"\n"
	"\t\t\tand not test -d (string split -f 1 -- \\t \"$d\")\n"
	"\t\t\tand continue\n"
	"\t\t\techo -- \"$option$d\"\n"
	"\t\tend\n"
	"\tend\n"
	"\tfor w in (string match -v -- @dirs $found)\n"
	"\t\techo -- \"$option$w\"\n"
	"\tend\n"
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
		if (v == &cmd_mount || v == &cmd_export)
			put_envs(c, o);
		if (v == &cmd_mount)
			out_printf(o, "@dirs\n");
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

/* What the words before the last one have settled. */
struct before {
	const struct verb *verb;
	size_t given; /* arguments of the verb */
	bool value;   /* the last word is an option's value */
	enum opt_arg kind;
};

static void read_words(struct call *c, struct before *b)
{
	const struct opt_args *a = c->args;
	bool was_store = false;

	for (size_t i = 1; i + 1 < a->arg_count; i++) {
		const char *word = a->args[i];

		if (was_store)
			c->store = word;
		was_store = !b->value && !strcmp(word, "--store");
		if (!b->value && !strncmp(word, "--store=", 8))
			c->store = word + 8;
		if (b->value)
			b->value = false;
		else if (word[0] == '-' && word[1])
			b->value = wants_value(b->verb, word, &b->kind);
		else if (b->verb)
			b->given++;
		else
			b->verb =
				opt_find_verb(cmd_verbs, cmd_verb_count, word);
	}
}

/* Whether the last word is "--option=", which waits for its value. */
static bool is_assignment(const struct verb *v, const char *word,
			  enum opt_arg *ret_kind)
{
	_cleanup_free_ char *name = strndup(word, strcspn(word, "="));

	return word[0] == '-' && strchr(word, '=') && name &&
	       wants_value(v, name, ret_kind);
}

/* Candidates for the last of the words in args[1..]. What an argument may be
 * is known for the first one, and for all where a verb takes many. */
static void put_words(struct call *c, struct out *o)
{
	const struct opt_args *a = c->args;
	const char *last = a->arg_count > 1 ? a->args[a->arg_count - 1] : "";
	struct before b = {.kind = ARG_NONE};
	const struct verb *v;

	read_words(c, &b);
	v = b.verb;
	if (b.value || is_assignment(v, last, &b.kind)) {
		put_kind(c, o, b.kind, v);
	} else if (last[0] == '-') {
		if (v)
			put_options(o, v->opts, v->opt_count);
		put_options(o, opt_globals, opt_global_count);
	} else if (!v) {
		put_kind(c, o, ARG_VERB, v);
	} else if (!b.given || v->max_args == OPT_MANY) {
		put_kind(c, o, v->arg, v);
	}
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
