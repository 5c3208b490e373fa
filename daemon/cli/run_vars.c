/* SPDX-License-Identifier: MIT */
/*
 * run_vars.c - the variables that `cowfs run` hands on.
 *
 * A secret comes from a variable of the caller's or from a file, never from the
 * command line, which everybody sees in ps; it goes into the command's
 * environment and nowhere else.
 */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"

enum { FILE_MAX = 1 << 20 };

/* Copies the name before '='; NULL: it is none. */
static char *name_of(const char *text)
{
	const size_t n = strcspn(text, "=");

	return n && !memchr(text, ' ', n) ? strndup(text, n) : NULL;
}

static int bad_name(const struct call *c, const char *option, const char *text)
{
	return call_fail(c, CODE_USAGE, "--%s: %s: not the name of a variable",
			 option, text);
}

static int add_env(const struct call *c, const char *text, struct buf *vars)
{
	_cleanup_free_ char *name = name_of(text);
	const char *value = strchr(text, '=');

	if (!name)
		return bad_name(c, "env", text);
	value = value ? value + 1 : getenv(name);
	if (!value)
		return call_fail(c, CODE_USAGE,
				 "--env: %s: has no value, and is not set here",
				 name);
	box_vars_set(vars, name, value);
	return CODE_DONE;
}

static int read_text(const struct call *c, const char *option, const char *path,
		     struct buf *text)
{
	int r = io_read_file(AT_FDCWD, path, FILE_MAX, text);

	if (!r && text->len && memchr(text->data, 0, text->len))
		return call_fail(c, CODE_FAILED, "--%s: %s: has a NUL byte",
				 option, path);
	if (!r && !buf_str(text))
		r = -ENOMEM;
	return r ? call_fail(c, CODE_FAILED, "--%s: %s: %s", option, path,
			     err_text(r))
		 : CODE_DONE;
}

/* Lines NAME=VALUE, or NAME alone as in --env; '#' begins a comment. */
static int add_file(const struct call *c, const char *path, struct buf *vars)
{
	_cleanup_buf_ struct buf text = {0};
	char *save = NULL, *line;
	int r = read_text(c, "env-file", path, &text);

	if (r)
		return r;
	for (line = strtok_r((char *)text.data, "\n", &save); line && !r;
	     line = strtok_r(NULL, "\n", &save)) {
		_cleanup_free_ char *name = NULL;

		line[strcspn(line, "\r")] = 0;
		line += strspn(line, " \t");
		if (!*line || *line == '#')
			continue;
		name = name_of(line);
		if (!name)
			r = bad_name(c, "env-file", line);
		else if (strchr(line, '='))
			box_vars_set(vars, name, strchr(line, '=') + 1);
		else if (getenv(name))
			box_vars_set(vars, name, getenv(name));
	}
	return r;
}

static int add_secret(const struct call *c, const char *text, struct buf *vars,
		      struct mask *secrets)
{
	_cleanup_free_ char *name = name_of(text);
	_cleanup_buf_ struct buf value = {0};
	const char *path = strchr(text, '=');
	int r;

	if (!name)
		return call_fail(c, CODE_USAGE,
				 "--secret: not NAME or NAME=FILE");
	if (!path && !getenv(name))
		return call_fail(c, CODE_USAGE,
				 "--secret: %s: is not set here, and no file "
				 "is named",
				 name);
	if (!path) {
		box_vars_set(vars, name, getenv(name));
		mask_add(secrets, getenv(name));
		return CODE_DONE;
	}
	r = read_text(c, "secret", path + 1, &value);
	if (r)
		return r;
	while (value.len && (value.data[value.len - 1] == '\n' ||
			     value.data[value.len - 1] == '\r'))
		value.data[--value.len] = 0;
	box_vars_set(vars, name, value.len ? (const char *)value.data : "");
	if (value.len)
		mask_add(secrets, (const char *)value.data);
	if (value.len)
		explicit_bzero(value.data, value.len);
	return CODE_DONE;
}

int run_vars_own(const struct call *c, struct buf *ret_own,
		 struct mask *ret_secrets)
{
	const struct opt_args *a = c->args;
	int r = CODE_DONE;

	for (size_t i = 0; i < a->item_count && !r; i++) {
		if (a->items[i].opt == RUN_ENV)
			r = add_env(c, a->items[i].value, ret_own);
		else if (a->items[i].opt == RUN_ENV_FILE)
			r = add_file(c, a->items[i].value, ret_own);
		else if (a->items[i].opt == RUN_SECRET)
			r = add_secret(c, a->items[i].value, ret_own,
				       ret_secrets);
	}
	if (!r && buf_error(ret_own))
		r = call_fail_err(c, -ENOMEM, NULL, "variables");
	return r;
}

static void set_entry(const char *entry, struct buf *vars)
{
	_cleanup_free_ char *name = name_of(entry);

	if (name)
		box_vars_set(vars, name, strchr(entry, '=') + 1);
	else
		vars->failed = true;
}

void run_vars(const struct run_spec *s, uid_t uid, const struct buf *own,
	      struct buf *ret_vars)
{
	const struct box_spec *spec = &s->spec;
	struct box_db db;

	box_vars(spec, uid, ret_vars);
	if (spec->rootfs && s->root.name) {
		box_vars_set(ret_vars, "USER", s->root.name);
		box_vars_set(ret_vars, "LOGNAME", s->root.name);
	}
	ports_vars(&s->ports, spec->net, ret_vars);
	if (box_db_read(spec->store, spec->env, &db) == 0 && box_db_runs(&db))
		box_db_vars(&db, spec->at, BOX_DB_SOCKETS, ret_vars);
	for (size_t at = 0; at < own->len;) {
		const char *entry = (const char *)own->data + at;

		set_entry(entry, ret_vars);
		at += strlen(entry) + 1;
	}
}
