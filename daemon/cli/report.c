/* SPDX-License-Identifier: MIT */
/*
 * report.c - messages on standard error, one write a line.
 *
 * Text passes through a buffer where control bytes (a newline in a file's
 * name) become '?', so that scripts may count on lines.
 */
#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/quote.h"

static void say(const char *prefix, const char *verb, const char *text)
{
	_cleanup_buf_ struct buf line = {0};

	if (verb)
		buf_printf(&line, "%s%s: ", prefix, verb);
	quote_line(&line, text, strlen(text));
	buf_put_u8(&line, '\n');
	if (!buf_error(&line))
		(void)!io_write(STDERR_FILENO, line.data, line.len);
}

int call_fail(const struct call *c, int code, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	say("cowfs ", c->verb->name, n < 0 ? "out of memory" : text);
	if (n >= 0)
		free(text);
	return code;
}

void call_hint(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	say("", NULL, text);
	free(text);
}

int call_bad_name(const struct call *c, const char *name, const char *kind)
{
	(void)call_fail(c, CODE_USAGE, "%s: not a %s", name, kind);
	call_hint("a name is 1 to 64 of A-Z a-z 0-9 . _ -, and begins with a "
		  "letter, digit or _");
	return CODE_USAGE;
}

/* What to do about errors that are nobody's mistake. */
static void hint_error(int err)
{
	if (err == -ENOSPC || err == -EDQUOT)
		call_hint("make room on the disk of the store; \"cowfs df\" "
			  "tells what is not needed");
	else if (err == -EROFS)
		call_hint("mount its disk read-write, or choose another store "
			  "(--store DIR)");
}

int call_fail_err(const struct call *c, int err, const struct diag *diag,
		  const char *what)
{
	const char *line = diag ? diag_line(diag, 0) : NULL, *text;
	_cleanup_buf_ struct buf more = {0};

	if (line)
		(void)call_fail(c, 0, "%s", line);
	else
		(void)call_fail(c, 0, "%s: %s", what, err_text(err));
	if (!diag || !diag_line(diag, 1))
		hint_error(err);
	if (!line)
		return exit_code_of(err);
	for (size_t i = 1; (line = diag_line(diag, i)); i++)
		buf_printf(&more, "%s%s", more.len ? "; " : "", line);
	text = more.len ? buf_str(&more) : NULL;
	if (text)
		call_hint("%s", text);
	return exit_code_of(err);
}

int call_finish(const struct call *c, struct out *o, int code)
{
	int r = out_finish(o);

	if (r)
		return call_fail(c, CODE_FAILED, "standard output: %s",
				 err_text(r));
	return code;
}
