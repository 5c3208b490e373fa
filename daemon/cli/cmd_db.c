/* SPDX-License-Identifier: MIT */
/*
 * cmd_db.c - `cowfs db`: the database of an environment.
 *
 * A database is data of the snapshot, like any other; what is done here is to
 * run its server in the sandbox (db_server.c), where it ends with everything
 * else, and to tell later commands where it is.
 */
#include "cli/db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "cli/number.h"

static const struct opt_def options[] = {
	[DB_PORT] = {"port", 0, OPT_VALUE, ARG_TEXT, "N",
		     "listen there, not where it is free"},
	[DB_ROLE] = {"role", 0, OPT_VALUE, ARG_TEXT, "NAME",
		     "the role that PGUSER and DATABASE_URL name"},
	[DB_DATABASE] = {"database", 0, OPT_VALUE, ARG_TEXT, "NAME",
			 "likewise the database"},
};

static const struct out_col columns[] = {
	{"name", "name", OUT_STR}, {"state", "state", OUT_STR},
	{"kind", "kind", OUT_STR}, {"dir", "dir", OUT_STR},
	{"host", "host", OUT_STR}, {"port", "port", OUT_COUNT},
	{"user", "user", OUT_STR}, {"database", "database", OUT_STR},
	{"pid", "pid", OUT_COUNT}, {"uid", "uid", OUT_COUNT},
};

/* A struct db is too large for the stack. */
static struct db *db_new(const struct call *c)
{
	struct db *d = calloc(1, sizeof *d);

	if (d) {
		d->c = c;
		d->fd = d->top = d->lock = d->data = -1;
	}
	return d;
}

static void db_freep(struct db **at)
{
	struct db *d = *at;

	for (size_t i = 0; d && i < 4; i++) {
		const int fd =
			((const int[]){d->fd, d->top, d->lock, d->data})[i];

		if (fd >= 0)
			(void)close(fd);
	}
	if (d)
		box_close(&d->box);
	free(d);
}

/* --- the environment ----------------------------------------------------- */

static int read_record(struct db *d)
{
	int r = box_db_read(d->c->store, d->env.name, &d->record);

	d->has_record = r == 0;
	return r && r != -ENOENT ? call_fail_err(d->c, r, NULL, d->env.name)
				 : CODE_DONE;
}

int db_open(struct db *d, const char *arg)
{
	const char *name = d->env.name;
	int code = run_env_find(d->c, arg, &d->fd, &d->env);

	if (code)
		return code;
	d->lock = box_db_lock(d->c->store, name);
	if (d->lock == -EBUSY)
		return call_fail(d->c, CODE_BUSY,
				 "%s: another cowfs db is at work", name);
	if (d->lock < 0)
		return call_fail_err(d->c, d->lock, NULL, name);
	d->top = open(d->env.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (d->top < 0)
		return call_fail_err(d->c, -errno, NULL, d->env.path);
	return read_record(d);
}

/* --- the verbs ----------------------------------------------------------- */

static int print(const struct db *d)
{
	const bool runs = d->has_record && box_db_runs(&d->record);
	const struct box_db *r = &d->record;
	_cleanup_out_ struct out o;

	out_init(&o, d->c->json, OUT_FIELDS, columns, ARRAY_SIZE(columns));
	out_row(&o, (struct out_cell[]){
			    out_str(d->env.name),
			    out_str(runs ? "running" : "stopped"),
			    out_str(d->has_record ? "postgresql" : NULL),
			    out_str(d->has_record ? r->dir : NULL),
			    out_str(runs ? "127.0.0.1" : NULL),
			    out_num_if(runs, r->port),
			    out_str(runs ? r->role : NULL),
			    out_str(runs && *r->database ? r->database : NULL),
			    out_num_if(runs, (uint64_t)r->pid),
			    out_num_if(runs, r->uid),
		    });
	return call_finish(d->c, &o, CODE_DONE);
}

/* A server that runs, with everything to stop it. */
static int take_running(struct db *d)
{
	int code = db_find_dir(d, NULL);

	d->uid = d->record.uid;
	d->gid = d->record.gid;
	if (!code)
		code = db_find_programs(d);
	return code ? code : db_enter(d);
}

static int read_port(const struct call *c, unsigned *ret_port)
{
	const char *text = opt_value(c->args, DB_PORT);
	uint64_t n = 0;

	if (text && (number_read(text, 65535, &n) || !n))
		return call_fail(c, CODE_USAGE, "--port: %s: not a port", text);
	*ret_port = (unsigned)n;
	return CODE_DONE;
}

/* Texts of a record: one line, and nothing that ends a word of an address. */
static int check_names(const struct call *c)
{
	static const struct {
		const char *name;
		size_t opt;
	} all[] = {{"role", DB_ROLE}, {"database", DB_DATABASE}};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const char *text = opt_value(c->args, all[i].opt);

		if (text &&
		    (!*text || strlen(text) > 63 || strpbrk(text, "\n@:/?#% ")))
			return call_fail(c, CODE_USAGE,
					 "--%s: \"%s\": not a "
					 "usable name",
					 all[i].name, text);
	}
	return CODE_DONE;
}

static int start_found(struct db *d, unsigned port)
{
	int code = db_find_programs(d);

	if (!code)
		code = db_find_user(d);
	if (!code)
		code = db_enter(d);
	return code ? code : db_start(d, port);
}

static int start(struct db *d, const char *dir)
{
	unsigned port = 0;
	int code = check_names(d->c);

	if (!code)
		code = read_port(d->c, &port);
	if (code)
		return code;
	if (d->has_record && box_db_runs(&d->record))
		return call_fail(d->c, CODE_FAILED,
				 "%s: runs already, on port %u", d->record.dir,
				 d->record.port);
	code = db_find_dir(d, dir);
	if (!code)
		code = start_found(d, port);
	return code ? code : print(d);
}

static int stop(struct db *d)
{
	int code;

	if (!d->has_record || !box_db_runs(&d->record))
		return call_fail(d->c, CODE_FAILED,
				 "%s: no database server runs", d->env.name);
	code = take_running(d);
	return code ? code : db_stop(d, false);
}

/* What runs is stopped without writing anything out, and started again. */
static int reset(struct db *d, const char *dir)
{
	const bool runs = d->has_record && box_db_runs(&d->record);
	const unsigned port = d->record.port;
	int code;

	if (runs) {
		code = take_running(d);
		if (!code)
			code = db_stop(d, true);
	} else {
		code = db_find_dir(d, dir);
		if (!code && db_has_server(d))
			code = call_fail(d->c, CODE_FAILED,
					 "%s: a server runs that is not on "
					 "record; see \"cowfs db start\"",
					 d->dir);
	}
	if (!code)
		code = db_restore(d);
	if (!code && runs) {
		code = db_find_user(d);
		if (!code)
			code = db_start(d, port);
	}
	return code;
}

static int run(struct call *c)
{
	_cleanup_(db_freep) struct db *d = db_new(c);
	const struct opt_args *a = c->args;
	const char *what = a->args[0];
	const char *dir = a->arg_count > 2 ? a->args[2] : NULL;
	const bool takes_dir = !strcmp(what, "start") || !strcmp(what, "reset");
	int code;

	if (!takes_dir && strcmp(what, "stop") != 0 &&
	    strcmp(what, "status") != 0)
		return call_fail(c, CODE_USAGE,
				 "%s: not start, stop, reset or status", what);
	if (dir && !takes_dir)
		return call_fail(c, CODE_USAGE, "%s: one argument too many",
				 dir);
	code = d ? db_open(d, a->args[1])
		 : call_fail_err(c, -ENOMEM, NULL, what);
	if (code)
		return code;
	box_block_signals();
	if (!strcmp(what, "start"))
		return start(d, dir);
	if (!strcmp(what, "stop"))
		return stop(d);
	return strcmp(what, "reset") ? print(d) : reset(d, dir);
}

const struct verb cmd_db = {
	.name = "db",
	.synopsis = "start|stop|reset|status ENV [DIR]",
	.summary = "run the PostgreSQL database that an environment has",
	.text = "A data directory (DIR, or the only one that is found) is part "
		"of the snapshot; its\nserver runs in the environment's "
		"sandbox and ends with it, cleanly. Later commands\nof \"run\" "
		"have PGHOST, PGPORT, PGUSER, PGDATA and DATABASE_URL. reset: "
		"the data are\nthe snapshot's again.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_CHOICE,
	.choices = "start stop reset status",
	.min_args = 2,
	.max_args = 3,
	.run = run,
};
