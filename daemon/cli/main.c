/* SPDX-License-Identifier: MIT */
/*
 * main.c - the way into the command table.
 *
 * A mount must be there in milliseconds, so nothing is set up that a verb may
 * not need: no locale, no store, no thread.
 */
#include "cli/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/path.h"
#include "cli/quote.h"

/* A closed standard descriptor would be taken by the next open, and results
 * end in the store. /dev/null read-only makes writing fail, as it should. */
static void open_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			return;
}

/* A command that passes another's exit code on has one of its own to say that
 * it did not come to it. */
static int own_code(const struct verb *v, int code)
{
	return v && v->own_code ? v->own_code : code;
}

static int fail_usage(const struct opt_args *a, const struct diag *diag)
{
	const char *line = diag_line(diag, 0), *hint = diag_line(diag, 1);
	_cleanup_buf_ struct buf b = {0};

	if (!line)
		line = "out of memory";
	buf_printf(&b, "cowfs %s%s", a->verb ? a->verb->name : "",
		   a->verb ? ": " : "");
	quote_line(&b, line, strlen(line)); /* it may name an argument */
	buf_put_u8(&b, '\n');
	if (hint) {
		quote_line(&b, hint, strlen(hint));
		buf_put_u8(&b, '\n');
	}
	if (!buf_error(&b))
		(void)!io_write(STDERR_FILENO, b.data, b.len);
	return own_code(a->verb, CODE_USAGE);
}

static int run(const struct opt_args *a, struct call *c, struct diag *diag)
{
	if (a->version)
		return version_print(c);
	if (a->help)
		return help_print(c, a->verb);
	if (!a->verb) {
		diag_add(diag, "COMMAND: missing");
		diag_add(diag, "\"cowfs help\" lists the commands");
		return fail_usage(a, diag);
	}
	if (opt_check_count(a, diag))
		return fail_usage(a, diag);
	return a->verb->run(c);
}

int main(int argc, char **argv)
{
	_cleanup_(opt_fini) struct opt_args args = {0};
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_free_ char *store = NULL;
	struct call c = {.args = &args};
	int r;

	open_standard_fds();
	/* Writing to a closed pipe is an error that is reported like others. */
	(void)signal(SIGPIPE, SIG_IGN);
	r = argc ? opt_parse(cmd_verbs, cmd_verb_count, argv, &args, &diag)
		 : -EINVAL;
	if (r)
		return fail_usage(&args, &diag);
	c.verb = args.verb ? args.verb : &cmd_help;
	c.json = args.json;
	r = path_store(args.store, &store);
	if (r == -ENOENT)
		return call_fail(&c, own_code(c.verb, CODE_FAILED),
				 "store: no place is known: set HOME, "
				 "XDG_DATA_HOME or COWFS_STORE");
	if (r)
		return call_fail(&c, own_code(c.verb, CODE_FAILED), "store: %s",
				 err_text(r));
	c.store = store;
	return run(&args, &c, &diag);
}
