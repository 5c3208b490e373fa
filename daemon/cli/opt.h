/* SPDX-License-Identifier: MIT */
/*
 * opt.h - option tables: one per verb, read by the parser, the help and the
 * shell completion, so that nothing is listed twice.
 *
 * Options may stand anywhere before "--", also before the verb. A value is
 * given as "--name value", "--name=value", "-n value" or "-nvalue".
 *
 * Contract
 *   Ownership   opt_fini frees the arrays; strings are lent from argv
 *   Threads     any
 *   Errors      -EINVAL: wrong usage; diag has "WHAT: why" and what to do
 */
#ifndef COWFS_CLI_OPT_H
#define COWFS_CLI_OPT_H

#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>

struct call;

enum opt_kind {
	OPT_FLAG,
	OPT_VALUE, /* once at most */
	OPT_LIST,  /* may be given several times */
};

/* What an argument or a value is, for completion. */
enum opt_arg {
	ARG_NONE,
	ARG_TEXT,
	ARG_DIR,
	ARG_ENV,
	ARG_SNAPSHOT, /* or a directory, where the verb takes paths */
	ARG_VERB,
	ARG_CHOICE, /* one of the verb's choices */
};

struct opt_def {
	const char *name; /* without "--" */
	char letter;	  /* or 0 */
	enum opt_kind kind;
	enum opt_arg arg;
	const char *metavar; /* what help calls the value, or NULL */
	const char *help;
};

struct verb {
	const char *name;
	const char *synopsis; /* its arguments, or "" */
	const char *summary;  /* one line */
	const char *text;     /* further lines for help, or NULL */
	const struct opt_def *opts;
	size_t opt_count;
	enum opt_arg arg;
	const char *choices; /* of ARG_CHOICE, separated by spaces */
	size_t min_args;
	size_t max_args;
	bool hidden_args; /* takes further arguments that help does not show */
	/* Its second argument begins a command line, in which options are not
	 * ours; the first does when option number `instead` is given. */
	bool takes_command;
	size_t instead;
	int own_code; /* exit code of failures before run; 0: CODE_USAGE */
	int (*run)(struct call *c);
};

enum { OPT_MANY = 1 << 20 }; /* max_args of a verb without a limit */

struct opt_item {
	size_t opt; /* index into the verb's table */
	const char *value;
};

struct opt_args {
	const struct verb *verb; /* NULL: none was given */
	const char *store;	 /* of --store, or NULL */
	bool json;
	bool help;
	bool version;
	struct opt_item *items;
	size_t item_count;
	const char **args;
	size_t arg_count;
	size_t free_count; /* of these stand before "--", or all */
};

/* The options that every verb has. */
extern const struct opt_def opt_globals[];
extern const size_t opt_global_count;

void opt_fini(struct opt_args *a);
/* Parses a command line; argv[0] is skipped. On -EINVAL ret_args->verb says
 * which verb, if any, was recognised. ret_args is set up in every case. */
_must_check_ int opt_parse(const struct verb *const *verbs, size_t verb_count,
			   char *const *argv, struct opt_args *ret_args,
			   struct diag *diag);
/* Checks the number of arguments, and that none is empty; after a look at
 * help. */
_must_check_ int opt_check_count(const struct opt_args *a, struct diag *diag);
const struct verb *opt_find_verb(const struct verb *const *verbs,
				 size_t verb_count, const char *name);
/* Returns the verb that was probably meant, or NULL. */
const char *opt_near_verb(const struct verb *const *verbs, size_t verb_count,
			  const char *name);

/* Whether option number opt was given; its value or NULL. */
bool opt_has(const struct opt_args *a, size_t opt);
const char *opt_value(const struct opt_args *a, size_t opt);

#endif
