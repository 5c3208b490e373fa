/* SPDX-License-Identifier: MIT */
/*
 * cmd_env.c - `cowfs env`: an environment's variables, for a shell to read.
 *
 * For people and programs that work in a mount without `run`: their tools'
 * caches go where those of `run` are, into the environment's HOME.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "box/box.h"
#include "box/ports.h"
#include "cli/remote.h"
#include "cli/warm.h"
#include "serve/serve.h"

enum { OPT_SHELL, OPT_HOME };

static const struct opt_def options[] = {
	[OPT_SHELL] = {"shell", 0, OPT_VALUE, ARG_CHOICE, "SHELL",
		       "whose language: bash, which is sh's, or fish"},
	[OPT_HOME] = {"home", 0, OPT_FLAG, ARG_NONE, NULL, "set HOME, too"},
};

static const struct out_col columns[] = {
	{"name", NULL, OUT_STR},
	{"value", NULL, OUT_STR},
};

/* In single quotes, as both shells read them. */
static void put_quoted(struct buf *b, const char *s, bool fish)
{
	buf_put_u8(b, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			buf_printf(b, fish ? "\\'" : "'\\''");
		else if (*s == '\\' && fish)
			buf_printf(b, "\\\\");
		else
			buf_put_u8(b, (uint8_t)*s);
	}
	buf_put_u8(b, '\'');
}

static void put_variable(struct out *o, const char *entry, bool fish)
{
	const size_t n = strcspn(entry, "=");
	_cleanup_buf_ struct buf line = {0};

	buf_printf(&line, fish ? "set -gx %.*s " : "export %.*s=", (int)n,
		   entry);
	put_quoted(&line, entry + n + 1, fish);
	buf_printf(&line, fish ? ";\n" : "\n");
	out_row(o, (struct out_cell[]){out_bytes(entry, n),
				       out_str(entry + n + 1)});
	out_raw(o, line.data, line.len);
}

static int read_shell(const struct call *c, bool *ret_fish)
{
	const char *shell = opt_value(c->args, OPT_SHELL);

	*ret_fish = shell && !strcmp(shell, "fish");
	if (shell && !*ret_fish && strcmp(shell, "bash") != 0 &&
	    strcmp(shell, "sh") != 0 && strcmp(shell, "zsh") != 0)
		return call_fail(c, CODE_USAGE, "--shell: %s: not bash or fish",
				 shell);
	return CODE_DONE;
}

static bool is_published(const struct ports_row *p, unsigned port)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->v[i] == port)
			return true;
	return false;
}

/* Ports and the database, where they are reached from here. A database in a
 * private network is, when its port is published. */
static void set_places(const struct call *c, const struct remote_env *e,
		       struct buf *vars)
{
	const enum box_net net = ports_net(c, e);
	char address[BOX_ADDRESS_BYTES];
	struct box_db db;

	ports_vars_outside(&e->ports, net, vars);
	if (box_db_read(c->store, e->name, &db) < 0 || !box_db_runs(&db))
		return;
	box_address_text(e->ports.address, address);
	if (net == BOX_NET_HOST)
		box_db_vars(&db, db.mount, "127.0.0.1", vars);
	else if (e->ports.address && is_published(&e->ports, db.port))
		box_db_vars(&db, db.mount, address, vars);
}

static int fail_home(const struct call *c, int err, const char *name,
		     const char *path)
{
	if (err == -ENOENT || err == -ENOTDIR)
		return call_fail(c, CODE_FAILED, "%s: unknown environment",
				 name);
	if (err == -EACCES || err == -EPERM)
		return remote_fail_denied(c);
	if (err == -EXDEV)
		return call_fail(c, CODE_FAILED,
				 "%s: %s in its HOME is a link that leads out "
				 "of it",
				 name, path);
	return call_fail_err(c, err, NULL, name);
}

/* Writes where HOME is: a view that the server has, or a folder. Without a
 * server nothing is mounted. */
static int find_home(const struct call *c, const char *name, char *path,
		     size_t size)
{
	const struct box_command me = {0};
	_cleanup_close_ int fd = -1;
	struct warm_home home = {.state = "none"};
	const char *bad = NULL, *view = NULL;
	int r;

	if (serve_is_held(c->store)) {
		r = remote_connect(c, &fd);
		if (!r)
			r = warm_home(c, &fd, name, &me, &home);
		if (r)
			return r;
	}
	if (!strcmp(home.state, "view"))
		view = home.path;
	r = box_caches_make(c->store, name, view, &bad);
	if (r < 0)
		return fail_home(c, r, name, bad);
	if ((view ? snprintf(path, size, "%s", view)
		  : snprintf(path, size, "%s/envs/%s/box/home", c->store,
			     name)) >= (int)size)
		return call_fail_err(c, -ENAMETOOLONG, NULL, c->store);
	return CODE_DONE;
}

static int run(struct call *c)
{
	const char *name = c->args->args[0];
	_cleanup_buf_ struct buf vars = {0};
	_cleanup_out_ struct out o;
	char home[PATH_MAX];
	_cleanup_free_ struct remote_env *e = calloc(1, sizeof *e);
	bool fish;
	int r;

	out_init(&o, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	if (!e)
		return call_fail_err(c, -ENOMEM, NULL, name);
	r = read_shell(c, &fish);
	if (!r)
		r = remote_list_one(c, name, e);
	if (!r)
		r = find_home(c, name, home, sizeof home);
	if (r)
		return r;
	box_vars_set(&vars, "COWFS_ENV", name);
	if (opt_has(c->args, OPT_HOME))
		box_vars_set(&vars, "HOME", home);
	box_caches(home, &vars);
	set_places(c, e, &vars);
	if (buf_error(&vars))
		return call_fail_err(c, -ENOMEM, NULL, name);
	for (size_t at = 0; at < vars.len;) {
		const char *entry = (const char *)vars.data + at;

		put_variable(&o, entry, fish);
		at += strlen(entry) + 1;
	}
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_env = {
	.name = "env",
	.synopsis = "ENV",
	.summary = "print variables that keep caches in an environment",
	.text = "For those who work in the mount without \"run\":\n"
		"    eval \"$(cowfs env anna)\"\n"
		"    cowfs env anna --shell fish | source\n"
		"Package managers then write below STORE/envs/ENV, and it goes "
		"with it.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.choices = "bash fish",
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
