/* SPDX-License-Identifier: MIT */
/*
 * The command line's tables and parser, on tables of the test's own and on the
 * real ones.
 */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "cli/cmd.h"

enum { OPT_ALL, OPT_NAME, OPT_GLOB };

static const struct opt_def options[] = {
	[OPT_ALL] = {"all", 'a', OPT_FLAG, ARG_NONE, NULL, "all"},
	[OPT_NAME] = {"name", 'n', OPT_VALUE, ARG_TEXT, "NAME", "a name"},
	[OPT_GLOB] = {"glob", 0, OPT_LIST, ARG_TEXT, "GLOB", "globs"},
};
static const struct verb take = {
	.name = "take",
	.synopsis = "THING",
	.summary = "take a thing",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.min_args = 1,
	.max_args = 2,
};
static const struct verb look = {.name = "look", .synopsis = ""};
static const struct verb *const verbs[] = {&take, &look};

struct parsed {
	struct opt_args a;
	struct diag diag;
	int r;
};

/* Splits at spaces: "_" stands for an empty argument. */
static int parse(void **state, const char *line)
{
	struct parsed *p = *state;
	static char copy[256];
	static char *argv[32];
	size_t n = 1;
	char *s = copy, *word;

	opt_fini(&p->a);
	diag_fini(&p->diag);
	argv[0] = (char *)"cowfs";
	(void)snprintf(copy, sizeof copy, "%s", line);
	while ((word = strsep(&s, " ")))
		if (*word)
			argv[n++] = strcmp(word, "_") ? word : (char *)"";
	argv[n] = NULL;
	p->r = opt_parse(verbs, ARRAY_SIZE(verbs), argv, &p->a, &p->diag);
	if (!p->r && p->a.verb)
		p->r = opt_check_count(&p->a, &p->diag);
	return p->r;
}

static int set_up(void **state)
{
	static struct parsed p;

	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	struct parsed *p = *state;

	opt_fini(&p->a);
	diag_fini(&p->diag);
	return 0;
}

static void assert_says(void **state, const char *line, const char *first)
{
	struct parsed *p = *state;

	assert_int_equal(parse(state, line), -EINVAL);
	assert_string_equal(diag_line(&p->diag, 0), first);
	assert_null(diag_line(&p->diag, 2));
}

static void an_option_may_stand_anywhere(void **state)
{
	static const char *const lines[] = {
		"take x --name v --json",    "--json take --name v x",
		"--name v take x --json",    "take --name=v --json x",
		"take -nv x --json",	     "-n v --json take x",
		"--json take -an v x",	     "take --json --name v -- x",
		"--name=v --json -- take x",
	};
	const struct parsed *p = *state;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(parse(state, lines[i]), 0);
		assert_ptr_equal(p->a.verb, &take);
		assert_true(p->a.json);
		assert_string_equal(opt_value(&p->a, OPT_NAME), "v");
		assert_int_equal(p->a.arg_count, 1);
		assert_string_equal(p->a.args[0], "x");
	}
}

static void after_two_dashes_all_are_arguments(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "take -- --all -"), 0);
	assert_false(opt_has(&p->a, OPT_ALL));
	assert_int_equal(p->a.arg_count, 2);
	assert_string_equal(p->a.args[0], "--all");
	assert_int_equal(p->a.free_count, 0);
	assert_int_equal(parse(state, "take a -- b"), 0);
	assert_int_equal(p->a.free_count, 1);
	assert_int_equal(parse(state, "take a b"), 0);
	assert_int_equal(p->a.free_count, 2);
}

static void a_single_dash_is_an_argument(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "take -"), 0);
	assert_string_equal(p->a.args[0], "-");
}

static void a_value_may_begin_with_a_dash(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "take x --name --all"), 0);
	assert_string_equal(opt_value(&p->a, OPT_NAME), "--all");
	assert_false(opt_has(&p->a, OPT_ALL));
}

static void a_value_is_given_once_and_lists_keep_all(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "take x --glob a -n 1 --glob=b"), 0);
	assert_string_equal(opt_value(&p->a, OPT_NAME), "1");
	assert_int_equal(p->a.item_count, 3);
	assert_string_equal(p->a.items[0].value, "a");
	assert_string_equal(p->a.items[2].value, "b");
	assert_says(state, "take x -n 1 --name=1", "--name: given twice");
	assert_says(state, "-n1 take x -n2", "--name: given twice");
	assert_says(state, "--store a take x --store a",
		    "--store: given twice");
}

static void version_and_help_have_letters(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "-V"), 0);
	assert_true(p->a.version);
	assert_int_equal(parse(state, "-h"), 0);
	assert_true(p->a.help);
	assert_says(state, "-q", "-q: unknown option");
	assert_string_equal(diag_line(&p->diag, 1),
			    "\"cowfs help\" lists the options");
}

static void many_letters_in_one_word_fit(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "take x -aaaaaaaaaaaaaaaaaaaaaaaaaaa"),
			 0);
	assert_int_equal(p->a.item_count, 27);
}

static void no_verb_takes_global_options_only(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "--help"), 0);
	assert_true(p->a.help);
	assert_null(p->a.verb);
	assert_says(state, "--all", "--all: unknown option");
}

static void wrong_usage_is_one_line_and_a_hint(void **state)
{
	assert_says(state, "tak x", "tak: unknown command");
	assert_says(state, "take x --al", "--al: unknown option");
	assert_says(state, "take x -q", "-q: unknown option");
	assert_says(state, "take x --name", "--name: needs a value, NAME");
	assert_says(state, "take x -n", "--name: needs a value, NAME");
	assert_says(state, "take x --all=1", "--all: takes no value");
	assert_says(state, "take x --=1", "--: unknown option");
	assert_says(state, "take x --store _", "--store: DIR is empty");
	assert_says(state, "take", "THING: missing");
	assert_says(state, "take a b c", "c: one argument too many");
	assert_says(state, "_", "COMMAND: an empty name");
	assert_says(state, "take _", "THING: an empty name");
}

static void a_near_match_is_offered(void **state)
{
	const struct parsed *p = *state;

	assert_int_equal(parse(state, "tkae x"), -EINVAL);
	assert_string_equal(diag_line(&p->diag, 1),
			    "did you mean \"cowfs take\"?");
	assert_int_equal(parse(state, "take --nmae x"), -EINVAL);
	assert_string_equal(diag_line(&p->diag, 1), "did you mean --name?");
	assert_int_equal(parse(state, "take --jsn x"), -EINVAL);
	assert_string_equal(diag_line(&p->diag, 1), "did you mean --json?");
	assert_null(opt_near_verb(verbs, ARRAY_SIZE(verbs), "zzzz"));
	assert_null(opt_near_verb(
		verbs, ARRAY_SIZE(verbs),
		"a-word-that-is-longer-than-anything-that-could-be-near"));
}

/* The parser finds the verb by assuming that a name takes a value in every
 * table or in none. */
static void options_end_where_a_command_begins(void **state)
{
	static const char *const plain[] = {"cowfs",  "run", "e",  "--env",
					    "A=b",    "cmd", "-x", "--json",
					    "--user", "--",  NULL};
	static const char *const fresh[] = {"cowfs", "run", "--new", "s",
					    "cmd",   "-x",  NULL};
	_cleanup_(opt_fini) struct opt_args a = {0}, b = {0};

	assert_int_equal(opt_parse(cmd_verbs, cmd_verb_count,
				   (char *const *)plain, &a, NULL),
			 0);
	assert_int_equal(a.item_count, 1);
	assert_int_equal(a.arg_count, 6);
	assert_string_equal(a.args[0], "e");
	assert_string_equal(a.args[2], "-x");
	assert_string_equal(a.args[5], "--");
	assert_false(a.json);
	assert_int_equal(opt_parse(cmd_verbs, cmd_verb_count,
				   (char *const *)fresh, &b, NULL),
			 0);
	assert_int_equal(b.item_count, 1);
	assert_int_equal(b.arg_count, 2);
	assert_string_equal(b.args[1], "-x");
}

static void a_name_means_the_same_in_every_table(void **state)
{
	for (size_t v = 0; v < cmd_verb_count; v++)
		for (size_t i = 0; i < cmd_verbs[v]->opt_count; i++) {
			const struct opt_def *a = &cmd_verbs[v]->opts[i];

			assert_non_null(a->name);
			assert_int_equal(!a->metavar, a->kind == OPT_FLAG);
			for (size_t w = 0; w < v; w++)
				for (size_t j = 0; j < cmd_verbs[w]->opt_count;
				     j++) {
					const struct opt_def *b =
						&cmd_verbs[w]->opts[j];

					if (strcmp(a->name, b->name) != 0)
						continue;
					/* Mount's flag, which comes first. */
					if (!strcmp(a->name, "ro"))
						assert_int_equal(b->kind,
								 OPT_FLAG);
					/* Of a database there is one. */
					else if (!strcmp(a->name, "port"))
						assert_int_not_equal(a->kind,
								     OPT_FLAG);
					else
						assert_int_equal(!a->metavar,
								 !b->metavar);
				}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_option_may_stand_anywhere),
		cmocka_unit_test(after_two_dashes_all_are_arguments),
		cmocka_unit_test(a_single_dash_is_an_argument),
		cmocka_unit_test(a_value_may_begin_with_a_dash),
		cmocka_unit_test(a_value_is_given_once_and_lists_keep_all),
		cmocka_unit_test(version_and_help_have_letters),
		cmocka_unit_test(many_letters_in_one_word_fit),
		cmocka_unit_test(no_verb_takes_global_options_only),
		cmocka_unit_test(wrong_usage_is_one_line_and_a_hint),
		cmocka_unit_test(a_near_match_is_offered),
		cmocka_unit_test(options_end_where_a_command_begins),
		cmocka_unit_test(a_name_means_the_same_in_every_table),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
