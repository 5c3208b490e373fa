/* SPDX-License-Identifier: MIT */
/*
 * db_server.c - a database server in an environment's sandbox.
 *
 * How: pg_ctl of the cluster's version starts it, as the right user, and waits
 * until it takes connections; the server is then an orphan of the sandbox, and
 * ends with it whatever happens. What it says goes to STORE/envs/NAME/box/
 * db.log, of which the last complaint is shown when it fails.
 *
 * A copy of a running cluster has a postmaster.pid. Its number may be anybody's
 * in this sandbox, and PostgreSQL would take that one for its server; so the
 * file goes when no server of this directory runs.
 */
#include "cli/db.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/proc.h"
#include "box/ports.h"

enum {
	PORT_OWN = 5432, /* in a network of its own */
	TRIES = 3,
	START_S = 60,
	STOP_S = 30,
	LIMIT_MS = 70000,
	POLL_MS = 20,
	MS_PER_S = 1000,
	LOG_MAX = 1 << 20,
	PID_MAX_BYTES = 4096,
};

/* --- commands in the sandbox --------------------------------------------- */

int db_enter(struct db *d)
{
	_cleanup_(run_spec_fini) struct run_spec s = {0};
	struct opt_args none = {0};
	const struct call plain = {
		.verb = d->c->verb, .args = &none, .store = d->c->store};
	struct box_look look;
	int code = run_spec_make(&plain, &d->env, &s), r;

	if (code)
		return code;
	r = box_join_any(&s.spec, &d->box, &look);
	if (r == 0) {
		(void)snprintf(d->at, sizeof d->at, "%s", look.at);
		return CODE_DONE;
	}
	if (r != -ESRCH)
		return call_fail_err(d->c, r, NULL, "sandbox");
	code = run_spec_home(&plain, &d->fd, &(struct box_command){0}, &s);
	if (code == CODE_DONE)
		code = run_box_open(&plain, &d->fd, &s, &d->box);
	(void)snprintf(d->at, sizeof d->at, "%s", s.at);
	return code;
}

/* Runs argv there as the server's user, its output to the log. Returns its exit
 * code, or a negative error. */
static int run_inside(struct db *d, const char *dir, const char *const *argv,
		      int log)
{
	_cleanup_buf_ struct buf vars = {0};
	_cleanup_free_ char **list = NULL;
	_cleanup_close_ int out = -1, err = -1;
	struct box_wait wait = {.timeout_ms = LIMIT_MS};
	char data[2 * PATH_MAX];
	enum box_fault fault;
	struct box_command cmd = {.argv = (char *const *)argv,
				  .cwd = "/",
				  .has_user = geteuid() == 0,
				  .uid = d->uid,
				  .gid = d->gid};
	pid_t pid;
	int r;

	(void)snprintf(data, sizeof data, "%s/%s", d->at, dir);
	box_vars_set(&vars, "PATH", "/usr/bin:/bin");
	box_vars_set(&vars, "HOME", "/tmp");
	box_vars_set(&vars, "LC_ALL", "C");
	box_vars_set(&vars, "PGDATA", data);
	list = box_vars_list(&vars);
	out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (!list || out < 0 || err < 0)
		return -ENOMEM;
	cmd.vars = list;
	(void)dup2(log, STDOUT_FILENO);
	(void)dup2(log, STDERR_FILENO);
	r = box_spawn(&d->box, &cmd, NULL, &pid, &fault);
	(void)dup2(out, STDOUT_FILENO);
	(void)dup2(err, STDERR_FILENO);
	return r < 0 ? r : box_wait(pid, &wait);
}

/* --- is it running ------------------------------------------------------- */

/* The innermost of a process's numbers. */
static pid_t number_inside(pid_t pid)
{
	_cleanup_buf_ struct buf text = {0};
	char path[32];
	const char *line, *end;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (io_read_file(AT_FDCWD, path, LOG_MAX, &text) < 0 || !buf_str(&text))
		return 0;
	line = strstr(buf_str(&text), "\nNSpid:");
	end = line ? strchr(line + 1, '\n') : NULL;
	while (end && end > line && *end != '\t')
		end--;
	return end ? (pid_t)strtol(end, NULL, 10) : 0;
}

static bool is_named(pid_t pid, const char *name)
{
	char own[PROC_COMMAND_BYTES];

	return proc_command(pid, own) == 0 && !strcmp(own, name);
}

/* The process of the sandbox that postmaster.pid names, if it is a server. */
static pid_t find_server(const struct db *d)
{
	_cleanup_buf_ struct buf text = {0}, pids = {0};
	long want;

	if (io_read_file(d->data, "postmaster.pid", PID_MAX_BYTES, &text) < 0 ||
	    !buf_str(&text))
		return 0;
	want = strtol(buf_str(&text), NULL, 10);
	if (want <= 1 || box_processes(d->c->store, d->env.name, &pids) < 0)
		return 0;
	for (size_t at = 0; at < pids.len; at += sizeof(pid_t)) {
		pid_t pid;

		memcpy(&pid, pids.data + at, sizeof pid);
		if (is_named(pid, "postgres") && number_inside(pid) == want)
			return pid;
	}
	return 0;
}

bool db_has_server(const struct db *d)
{
	return find_server(d) != 0;
}

/* --- the port ------------------------------------------------------------ */

static bool has_own_net(const struct db *d)
{
	struct stat own, other;
	char path[48];

	(void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)d->box.pid);
	return stat("/proc/self/ns/net", &own) == 0 &&
	       stat(path, &other) == 0 && own.st_ino != other.st_ino;
}

static bool is_free(unsigned port)
{
	return box_port_try(INADDR_LOOPBACK, (uint16_t)port) == 0;
}

/* With the host's network that of the environment's lease, which is another one
 * when this was taken. */
static int choose_port(struct db *d, bool again, unsigned *ret_port)
{
	struct ports_row *p = &d->env.ports;
	int code;

	*ret_port = PORT_OWN;
	if (has_own_net(d))
		return CODE_DONE;
	code = ports_lease(d->c, &d->fd, d->env.name, BOX_NET_HOST, false, p);
	if (!code && (again || !is_free(p->database)))
		code = ports_lease(d->c, &d->fd, d->env.name, BOX_NET_HOST,
				   true, p);
	*ret_port = p->database;
	return code;
}

/* --- what went wrong ----------------------------------------------------- */

/* The last line of the log since `from` that says why. */
static void read_complaint(int log, off_t from, char *text, size_t room)
{
	static const char *const marks[] = {
		"FATAL:", "PANIC:", "pg_ctl:", "could not", "ERROR:"};
	_cleanup_free_ char *all = calloc(1, LOG_MAX + 1);
	char *save = NULL, *line;

	*text = 0;
	if (!all || pread(log, all, LOG_MAX, from) <= 0)
		return;
	for (line = strtok_r(all, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		for (size_t i = 0; i < 2; i++) {
			const char *at = strstr(line, marks[i]);

			if (at)
				(void)snprintf(text, room, "%s",
					       at + strlen(marks[i]) + 2);
		}
		for (size_t i = 2; i < ARRAY_SIZE(marks) && !*text; i++)
			if (strstr(line, marks[i]))
				(void)snprintf(text, room, "%s", line);
	}
}

static bool says_taken(int log, off_t from)
{
	_cleanup_free_ char *all = calloc(1, LOG_MAX + 1);

	return all && pread(log, all, LOG_MAX, from) > 0 &&
	       strstr(all, "Address already in use");
}

static int fail_start(const struct db *d, int code, int log, off_t from)
{
	char text[512];

	if (code < 0)
		return call_fail_err(d->c, code, NULL, d->dir);
	read_complaint(log, from, text, sizeof text);
	(void)call_fail(d->c, 0, "%s: does not start: %s", d->dir,
			*text ? text : "no reason is known");
	call_hint("its log is %s/envs/%s/box/db.log", d->c->store, d->env.name);
	return CODE_FAILED;
}

/* --- start and stop ------------------------------------------------------ */

/* Who may connect is not to be read from outside: names are tried. */
static void find_role(struct db *d, int null)
{
	const char *given = opt_value(d->c->args, DB_ROLE);
	const struct passwd *pw = getpwuid(d->uid);
	const char *tried[] = {"postgres", pw ? pw->pw_name : "postgres",
			       getenv("USER")};
	char psql[PATH_MAX + 8], port[16];

	(void)snprintf(psql, sizeof psql, "%s/psql", d->bin);
	(void)snprintf(port, sizeof port, "%u", d->record.port);
	(void)snprintf(d->record.role, sizeof d->record.role, "%s",
		       given ? given : "postgres");
	for (size_t i = 0; i < ARRAY_SIZE(tried) && !given; i++) {
		const char *argv[] = {psql, "-XqAtw",	"-h", BOX_DB_SOCKETS,
				      "-p", port,	"-U", tried[i],
				      "-d", "postgres", "-c", "select 1",
				      NULL};

		if (tried[i] && run_inside(d, d->dir, argv, null) == 0) {
			(void)snprintf(d->record.role, sizeof d->record.role,
				       "%s", tried[i]);
			return;
		}
	}
}

static int start_once(struct db *d, unsigned port, int log)
{
	char options[512], limit[16], program[PATH_MAX + 8];
	const char *argv[] = {
		"/bin/sh",	"-c",	 "mkdir -p \"$0\" && exec \"$@\"",
		BOX_DB_SOCKETS, program, "-w",
		"-t",		limit,	 "-o",
		options,	"start", NULL};

	/* Settings that name the machine that the cluster came from. */
	(void)snprintf(options, sizeof options,
		       "-p %u -k " BOX_DB_SOCKETS
		       " -c listen_addresses=127.0.0.1 -c ssl=off"
		       " -c logging_collector=off -c external_pid_file=",
		       port);
	(void)snprintf(limit, sizeof limit, "%d", START_S);
	(void)snprintf(program, sizeof program, "%s/pg_ctl", d->bin);
	return run_inside(d, d->dir, argv, log);
}

static int write_record(struct db *d)
{
	const char *database = opt_value(d->c->args, DB_DATABASE);
	int r;

	(void)snprintf(d->record.dir, sizeof d->record.dir, "%s", d->dir);
	(void)snprintf(d->record.mount, sizeof d->record.mount, "%s",
		       d->env.path);
	if (database)
		(void)snprintf(d->record.database, sizeof d->record.database,
			       "%s", database);
	d->record.uid = d->uid;
	d->record.gid = d->gid;
	r = box_db_write(d->c->store, d->env.name, &d->record);
	d->has_record = !r;
	return r < 0 ? call_fail_err(d->c, r, NULL, d->env.name) : CODE_DONE;
}

static int start_anew(struct db *d, unsigned wanted, int log)
{
	unsigned port = wanted;
	off_t from = 0;
	int r = -1, code;

	if (wanted && !has_own_net(d) && !is_free(wanted))
		return call_fail(d->c, CODE_FAILED, "port %u: is taken",
				 wanted);
	if (unlinkat(d->data, "postmaster.pid", 0) < 0 && errno != ENOENT)
		return call_fail_err(d->c, -errno, NULL, "postmaster.pid");
	for (int i = 0; i < TRIES && r; i++) {
		from = lseek(log, 0, SEEK_END);
		code = wanted ? CODE_DONE : choose_port(d, i, &port);
		if (code)
			return code;
		r = start_once(d, port, log);
		if (r && (wanted || !says_taken(log, from)))
			break;
	}
	/* It may be in the way of one that was about to start, see below. */
	return r && !find_server(d) ? fail_start(d, r, log, from) : CODE_DONE;
}

/* Reads what postmaster.pid says, in lines 4, 5 and 8: port, folder of sockets,
 * and whether it takes connections. */
static bool read_server(const struct db *d, unsigned *ret_port, bool *ret_ours)
{
	_cleanup_buf_ struct buf text = {0};
	char *lines[8] = {0}, *at;

	if (io_read_file(d->data, "postmaster.pid", PID_MAX_BYTES, &text) < 0 ||
	    !buf_str(&text))
		return false;
	at = (char *)text.data;
	for (size_t i = 0; i < ARRAY_SIZE(lines) && at; i++)
		lines[i] = strsep(&at, "\n");
	if (!lines[7] || strncmp(lines[7], "ready", 5) != 0)
		return false;
	*ret_port = (unsigned)strtoul(lines[3], NULL, 10);
	*ret_ours = !strcmp(lines[4], BOX_DB_SOCKETS);
	return true;
}

/* Puts the server that runs on record: it was started by us, or by a `db start`
 * that was killed before it came to this. */
static int take_server(struct db *d, unsigned wanted)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct proc_stat s;
	unsigned port = 0;
	bool ours = false;

	for (int i = 0; !read_server(d, &port, &ours); i++) {
		if (i == START_S * MS_PER_S / POLL_MS || !find_server(d))
			return call_fail(d->c, CODE_FAILED,
					 "%s: does not get ready", d->dir);
		(void)poll(NULL, 0, POLL_MS);
	}
	if (!ours || (wanted && wanted != port))
		return call_fail(d->c, CODE_FAILED,
				 "%s: runs already, on port %u", d->dir, port);
	if (null < 0)
		return call_fail_err(d->c, -errno, NULL, "/dev/null");
	d->record.port = port;
	d->record.pid = find_server(d);
	d->record.start = proc_stat(d->record.pid, &s) < 0 ? 0 : s.start;
	find_role(d, null);
	return write_record(d);
}

int db_start(struct db *d, unsigned wanted)
{
	_cleanup_close_ int log = box_db_log(d->c->store, d->env.name);
	int r = CODE_DONE;

	if (log < 0)
		return call_fail_err(d->c, log, NULL, "db.log");
	if (!find_server(d))
		r = start_anew(d, wanted, log);
	return r ? r : take_server(d, wanted);
}

int db_stop(struct db *d, bool rough)
{
	_cleanup_close_ int log = box_db_log(d->c->store, d->env.name);
	char limit[16], program[PATH_MAX + 8];
	const char *argv[] = {program, "-w", "-t",
			      limit,   "-m", rough ? "immediate" : "fast",
			      "stop",  NULL};
	off_t from;
	int r;

	if (log < 0)
		return call_fail_err(d->c, log, NULL, "db.log");
	from = lseek(log, 0, SEEK_END);
	(void)snprintf(limit, sizeof limit, "%d", STOP_S);
	(void)snprintf(program, sizeof program, "%s/pg_ctl", d->bin);
	r = run_inside(d, d->record.dir, argv, log);
	if (r) {
		char text[512];

		read_complaint(log, from, text, sizeof text);
		return call_fail(d->c, CODE_FAILED, "%s: does not stop: %s",
				 d->record.dir, text);
	}
	d->record.pid = 0;
	return write_record(d);
}
