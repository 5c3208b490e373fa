/* SPDX-License-Identifier: MIT */
/*
 * opt.c - parsing a command line by the tables.
 *
 * Two passes over argv. The first finds the verb: the first argument that is
 * neither an option nor an option's value. As its table is not known then, an
 * option takes a value when the first table that has it says so; names mean the
 * same everywhere (but for "ro", a flag of mount and a path of run: before the
 * verb it is the flag).
 * The second pass reads everything by the verb's own table and the global one.
 *
 * getopt_long is not used: it knows no options before the verb without
 * reordering argv, and its messages are not ours.
 */
#include "cli/opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct opt_def opt_globals[] = {
	{"store", 0, OPT_VALUE, ARG_DIR, "DIR",
	 "use this store instead of $COWFS_STORE or the default"},
	{"json", 0, OPT_FLAG, ARG_NONE, NULL, "print one JSON object a line"},
	{"help", 'h', OPT_FLAG, ARG_NONE, NULL, "say how the command is used"},
	{"version", 'V', OPT_FLAG, ARG_NONE, NULL, "say which version this is"},
};
const size_t opt_global_count = ARRAY_SIZE(opt_globals);

enum { GLOBAL_STORE, GLOBAL_JSON, GLOBAL_HELP, GLOBAL_VERSION };

/* Without a verb only global options make sense. */
static const struct verb no_verb = {.name = ""};

struct parser {
	const struct verb *const *verbs;
	size_t verb_count;
	char *const *argv;
	size_t i; /* of the argument looked at */
	struct opt_args *a;
	struct diag *diag;
};

void opt_fini(struct opt_args *a)
{
	free(a->items);
	free((void *)a->args);
	*a = (struct opt_args){0};
}

const struct verb *opt_find_verb(const struct verb *const *verbs,
				 size_t verb_count, const char *name)
{
	for (size_t i = 0; i < verb_count; i++)
		if (!strcmp(verbs[i]->name, name))
			return verbs[i];
	return NULL;
}

/* --- near matches ------------------------------------------------------ */

enum { NEAR_MAX = 32 };

/* Edits (insert, delete, replace, swap of neighbours) between two words. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned char d[NEAR_MAX + 1][NEAR_MAX + 1];

	if (n > NEAR_MAX || m > NEAR_MAX)
		return NEAR_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			size_t best;

			if (!i || !j) {
				d[i][j] = (unsigned char)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			best = MIN(best, d[i - 1][j] + 1U);
			best = MIN(best, d[i][j - 1] + 1U);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				best = MIN(best, d[i - 2][j - 2] + 1U);
			d[i][j] = (unsigned char)best;
		}
	return d[n][m];
}

static bool is_near(const char *meant, const char *given)
{
	size_t len = strlen(given);

	return (len >= 2 && !strncmp(meant, given, len)) ||
	       distance(meant, given) <= (len > 3 ? 2 : 1);
}

const char *opt_near_verb(const struct verb *const *verbs, size_t verb_count,
			  const char *name)
{
	const char *near = NULL;

	for (size_t i = 0; i < verb_count; i++)
		if (is_near(verbs[i]->name, name) &&
		    (!near ||
		     distance(verbs[i]->name, name) < distance(near, name)))
			near = verbs[i]->name;
	return near;
}

static void hint_option(const struct parser *p, const char *name)
{
	const struct verb *v = p->a->verb;

	for (size_t i = 0; v && i < v->opt_count; i++)
		if (is_near(v->opts[i].name, name)) {
			diag_add(p->diag, "did you mean --%s?",
				 v->opts[i].name);
			return;
		}
	for (size_t i = 0; i < opt_global_count; i++)
		if (is_near(opt_globals[i].name, name)) {
			diag_add(p->diag, "did you mean --%s?",
				 opt_globals[i].name);
			return;
		}
	diag_add(p->diag, "\"cowfs help%s%s\" lists the options",
		 v && *v->name ? " " : "", v ? v->name : "");
}

/* --- options ----------------------------------------------------------- */

static bool is_option(const char *arg)
{
	return arg[0] == '-' && arg[1];
}

static const struct opt_def *find(const struct opt_def *opts, size_t count,
				  const char *name, size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(opts[i].name, name, len) && !opts[i].name[len])
			return &opts[i];
	return NULL;
}

static const struct opt_def *find_letter(const struct opt_def *opts,
					 size_t count, char letter)
{
	for (size_t i = 0; i < count; i++)
		if (opts[i].letter == letter)
			return &opts[i];
	return NULL;
}

/* Finds an option by name (len > 0) or letter in the verb's table, the global
 * one or, while no verb is known, in all. */
static const struct opt_def *look_up(const struct parser *p, const char *name,
				     size_t len)
{
	const struct opt_def *o;
	size_t n = p->a->verb ? 1 : p->verb_count;

	o = len ? find(opt_globals, opt_global_count, name, len)
		: find_letter(opt_globals, opt_global_count, *name);
	for (size_t i = 0; !o && i < n; i++) {
		const struct verb *v = p->a->verb ? p->a->verb : p->verbs[i];

		o = len ? find(v->opts, v->opt_count, name, len)
			: find_letter(v->opts, v->opt_count, *name);
	}
	return o;
}

/* Whether the option in argv[i] takes argv[i + 1] as its value. */
static bool takes_next(const struct parser *p, const char *arg)
{
	const struct opt_def *o;

	if (arg[1] == '-') {
		if (strchr(arg, '='))
			return false;
		o = look_up(p, arg + 2, strlen(arg + 2));
		return o && o->kind != OPT_FLAG;
	}
	for (arg++; *arg; arg++) {
		o = look_up(p, arg, 0);
		if (o && o->kind != OPT_FLAG)
			return !arg[1];
	}
	return false;
}

static void accept_option(struct parser *p, const struct opt_def *o,
			  const char *value)
{
	struct opt_args *a = p->a;

	if (o >= opt_globals && o < opt_globals + opt_global_count) {
		switch (o - opt_globals) {
		case GLOBAL_STORE:
			a->store = value;
			break;
		case GLOBAL_JSON:
			a->json = true;
			break;
		case GLOBAL_HELP:
			a->help = true;
			break;
		default:
			a->version = true;
			break;
		}
		return;
	}
	a->items[a->item_count++] = (struct opt_item){
		.opt = (size_t)(o - a->verb->opts),
		.value = value,
	};
}

static bool is_given(const struct opt_args *a, const struct opt_def *o)
{
	if (o == &opt_globals[GLOBAL_STORE])
		return a->store != NULL;
	return opt_has(a, (size_t)(o - a->verb->opts));
}

static int need_value(struct parser *p, const struct opt_def *o,
		      const char *value)
{
	if (!value)
		return diag_fail(p->diag, -EINVAL, "--%s: needs a value, %s",
				 o->name, o->metavar);
	if (!*value && o->arg != ARG_TEXT)
		return diag_fail(p->diag, -EINVAL, "--%s: %s is empty", o->name,
				 o->metavar);
	if (o->kind == OPT_VALUE && is_given(p->a, o))
		return diag_fail(p->diag, -EINVAL, "--%s: given twice",
				 o->name);
	accept_option(p, o, value);
	return 0;
}

static int parse_long(struct parser *p, const char *arg)
{
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] ? arg + len + 1 : NULL;
	const struct opt_def *o = len ? look_up(p, arg, len) : NULL;

	if (!o) {
		diag_add(p->diag, "--%.*s: unknown option", (int)len, arg);
		hint_option(p, arg);
		return -EINVAL;
	}
	if (o->kind == OPT_FLAG) {
		if (value)
			return diag_fail(p->diag, -EINVAL,
					 "--%s: takes no value", o->name);
		accept_option(p, o, NULL);
		return 0;
	}
	if (!value && p->argv[p->i + 1])
		value = p->argv[++p->i];
	return need_value(p, o, value);
}

static int parse_short(struct parser *p, const char *arg)
{
	for (; *arg; arg++) {
		const struct opt_def *o = look_up(p, arg, 0);
		const char *value = arg + 1;

		if (!o) {
			diag_add(p->diag, "-%c: unknown option", *arg);
			hint_option(p, "");
			return -EINVAL;
		}
		if (o->kind == OPT_FLAG) {
			accept_option(p, o, NULL);
			continue;
		}
		if (!*value)
			value = p->argv[p->i + 1] ? p->argv[++p->i] : NULL;
		return need_value(p, o, value);
	}
	return 0;
}

/* --- the two passes ---------------------------------------------------- */

/* Returns the index in argv of the verb, or that of the final NULL. */
static size_t find_verb(const struct parser *p)
{
	size_t i = 1;

	while (p->argv[i]) {
		if (!strcmp(p->argv[i], "--"))
			return p->argv[i + 1] ? i + 1 : i;
		if (!is_option(p->argv[i]))
			return i;
		i += takes_next(p, p->argv[i]) && p->argv[i + 1] ? 2 : 1;
	}
	return i;
}

static int set_verb(struct parser *p, const char *name)
{
	const char *near;

	p->a->verb = opt_find_verb(p->verbs, p->verb_count, name);
	if (p->a->verb)
		return 0;
	if (*name)
		diag_add(p->diag, "%s: unknown command", name);
	else
		diag_add(p->diag, "COMMAND: an empty name");
	near = opt_near_verb(p->verbs, p->verb_count, name);
	if (near)
		diag_add(p->diag, "did you mean \"cowfs %s\"?", near);
	else
		diag_add(p->diag, "\"cowfs help\" lists the commands");
	return -EINVAL;
}

/* Whether what was read last began a command line. */
static bool begins_command(const struct opt_args *a)
{
	return a->verb->takes_command &&
	       a->arg_count > (opt_has(a, a->verb->instead) ? 0U : 1U);
}

static int parse_rest(struct parser *p, size_t verb_at)
{
	bool options = true;

	for (p->i = 1; p->argv[p->i]; p->i++) {
		const char *arg = p->argv[p->i];
		int r = 0;

		if (p->i == verb_at)
			continue;
		if (options && !strcmp(arg, "--")) {
			options = false;
			p->a->free_count = p->a->arg_count;
		} else if (options && is_option(arg)) {
			r = arg[1] == '-' ? parse_long(p, arg + 2)
					  : parse_short(p, arg + 1);
		} else {
			p->a->args[p->a->arg_count++] = arg;
			options = options && !begins_command(p->a);
		}
		if (r)
			return r;
	}
	if (options)
		p->a->free_count = p->a->arg_count;
	return 0;
}

int opt_parse(const struct verb *const *verbs, size_t verb_count,
	      char *const *argv, struct opt_args *ret_args, struct diag *diag)
{
	struct parser p = {.verbs = verbs,
			   .verb_count = verb_count,
			   .argv = argv,
			   .a = ret_args,
			   .diag = diag};
	size_t argc = 0, letters = 0, at;
	int r;

	*ret_args = (struct opt_args){0};
	for (; argv[argc]; argc++)
		letters += strlen(argv[argc]); /* "-zz" is two options */
	ret_args->items = calloc(argc + letters + 1, sizeof *ret_args->items);
	ret_args->args = calloc(argc + 1, sizeof *ret_args->args);
	if (!ret_args->items || !ret_args->args)
		return diag_fail(diag, -ENOMEM, "out of memory");
	at = find_verb(&p);
	if (argv[at] && strcmp(argv[at], "--") != 0) {
		r = set_verb(&p, argv[at]);
		if (r)
			return r;
		return parse_rest(&p, at);
	}
	ret_args->verb = &no_verb;
	r = parse_rest(&p, at);
	ret_args->verb = NULL;
	return r;
}

static bool has_empty(const struct opt_args *a)
{
	/* What is hidden may be anything. */
	for (size_t i = 0; i < MIN(a->arg_count, a->verb->max_args); i++)
		if (!*a->args[i])
			return true;
	return false;
}

int opt_check_count(const struct opt_args *a, struct diag *diag)
{
	const struct verb *v = a->verb;
	const char *optional = strstr(v->synopsis, " [");
	const size_t n = optional ? (size_t)(optional - v->synopsis)
				  : strlen(v->synopsis);

	if (a->arg_count < v->min_args)
		diag_add(diag, "%.*s: missing", (int)n, v->synopsis);
	else if (a->arg_count > v->max_args && !v->hidden_args)
		diag_add(diag, "%s: one argument too many",
			 a->args[v->max_args]);
	else if (has_empty(a))
		diag_add(diag, "%s: an empty %s", v->synopsis,
			 v->arg == ARG_DIR ? "path" : "name");
	else
		return 0;
	diag_add(diag, "usage: cowfs %s%s%s", v->name, *v->synopsis ? " " : "",
		 v->synopsis);
	return -EINVAL;
}

bool opt_has(const struct opt_args *a, size_t opt)
{
	for (size_t i = 0; i < a->item_count; i++)
		if (a->items[i].opt == opt)
			return true;
	return false;
}

const char *opt_value(const struct opt_args *a, size_t opt)
{
	for (size_t i = a->item_count; i > 0; i--)
		if (a->items[i - 1].opt == opt)
			return a->items[i - 1].value;
	return NULL;
}
