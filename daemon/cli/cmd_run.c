/* SPDX-License-Identifier: MIT */
/*
 * cmd_run.c - `cowfs run`: a command in an environment.
 *
 * The server says where the environment is, and mounts it when needed; the
 * sandbox and the command are made here, with the caller's rights. The command
 * is this process's child, and its exit code ours; 125 says that it was not
 * started. What the throwing away of --new has to decide, umount decides.
 */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/artifacts.h"
#include "cli/number.h"
#include "cli/path.h"

enum {
	CODE_OURS = 125,
	CODE_NO_EXEC = 126,
	CODE_NO_FILE = 127,
	TIMEOUT_MAX = 366 * 24 * 3600,
	MS_PER_S = 1000,
	/* Shorter values of variables are switches, not secrets. */
	SECRET_MIN = 4,
	SECRET_OTHER_MIN = 8,
	SPAWN_TRIES = 5,
};

static const struct opt_def options[] = {
	[RUN_NEW] = {"new", 0, OPT_VALUE, ARG_SNAPSHOT, "SNAPSHOT",
		     "mount this as a new environment, umount it in the end"},
	[RUN_ROOTFS] = {"rootfs", 0, OPT_FLAG, ARG_NONE, NULL,
			"it is the root file system, of the host is nothing"},
	[RUN_AT] = {"at", 0, OPT_VALUE, ARG_DIR, "PATH",
		    "where it appears; \"mount\": where it is mounted"},
	[RUN_RW] = {"rw", 0, OPT_LIST, ARG_DIR, "PATH",
		    "a path of the host that may be written"},
	[RUN_RO] = {"ro", 0, OPT_LIST, ARG_DIR, "PATH",
		    "a path of the host that is not shown else"},
	[RUN_HIDE] = {"hide", 0, OPT_LIST, ARG_DIR, "PATH",
		      "a path of the host that is not to be seen"},
	[RUN_ENV] = {"env", 'e', OPT_LIST, ARG_TEXT, "NAME[=VALUE]",
		     "set a variable, or pass the caller's on"},
	[RUN_ENV_FILE] = {"env-file", 0, OPT_LIST, ARG_DIR, "FILE",
			  "set the variables that stand in its lines"},
	[RUN_SECRET] = {"secret", 0, OPT_LIST, ARG_TEXT, "NAME[=FILE]",
			"the same for what must stay in memory only"},
	[RUN_USER] = {"user", 0, OPT_VALUE, ARG_TEXT, "USER",
		      "run as this user; for root"},
	[RUN_NET] = {"net", 0, OPT_VALUE, ARG_CHOICE, "NET",
		     "the network: host, private or none"},
	[RUN_PORT] = {"port", 0, OPT_LIST, ARG_TEXT, "PORT",
		      "with --new: a port that the host is to reach"},
	[RUN_ALLOW_HOST] = {"allow-host", 0, OPT_LIST, ARG_TEXT, "HOST",
			    "a host that the private network may reach"},
	[RUN_NESTED] = {"nested", 0, OPT_FLAG, ARG_NONE, NULL,
			"allow name spaces and mounts inside"},
	[RUN_MEMORY] = {"memory", 0, OPT_VALUE, ARG_TEXT, "SIZE",
			"all processes together may use so much"},
	[RUN_CPUS] = {"cpus", 0, OPT_VALUE, ARG_TEXT, "N",
		      "likewise processors, as 1.5"},
	[RUN_PIDS] = {"pids", 0, OPT_VALUE, ARG_TEXT, "N",
		      "there may be so many processes and threads"},
	[RUN_TIMEOUT] = {"timeout", 0, OPT_VALUE, ARG_TEXT, "TIME",
			 "end the command after so long, exit 124"},
	[RUN_DETACH] = {"detach", 'd', OPT_FLAG, ARG_NONE, NULL,
			"go on in the background"},
	[RUN_WARM] = {"warm", 0, OPT_FLAG, ARG_NONE, NULL,
		      "begin with copies of your own tools' caches"},
	[RUN_ARTIFACT] = {"artifact", 0, OPT_LIST, ARG_TEXT, "PATTERN",
			  "with --artifacts: what is copied, as "
			  "'test-results/**'"},
	[RUN_ARTIFACTS] = {"artifacts", 0, OPT_VALUE, ARG_DIR, "DIR",
			   "with --new: copy logs and artifacts there in the "
			   "end"},
};

struct run {
	const struct call *c;
	int fd; /* to the server */
	struct remote_env env;
	/* Of --new: its ports, and where artifacts go, absolute, or NULL. */
	struct ports_wish ports;
	char *artifacts;
	struct run_spec s;
	struct box box;
	struct buf own, vars; /* what options set, and all */
	char **vars_list, **argv;
	struct mask secrets;
	struct box_command cmd;
	struct box_wait wait;
};

static void run_fini(struct run *r)
{
	if (r->fd >= 0)
		(void)close(r->fd);
	box_close(&r->box);
	run_spec_fini(&r->s);
	if (r->own.len)
		explicit_bzero(r->own.data, r->own.len);
	if (r->vars.len)
		explicit_bzero(r->vars.data, r->vars.len);
	buf_fini(&r->own);
	buf_fini(&r->vars);
	free((void *)r->vars_list);
	free((void *)r->argv);
	record_fini(r->wait.record);
	mask_fini(&r->secrets);
	free(r->artifacts);
}

/* --- the environment ----------------------------------------------------- */

/* Sets env, mounted. */
static int find_env(struct run *r)
{
	const char *fresh = opt_value(r->c->args, RUN_NEW);
	int code;

	if (!fresh)
		return run_env_find(r->c, r->c->args->args[0], &r->fd, &r->env);
	if (!remote_has_store(r->c))
		return call_fail(r->c, CODE_FAILED, "%s: unknown snapshot",
				 fresh);
	code = remote_connect(r->c, &r->fd);
	return code ? code
		    : run_env_mount(r->c, &r->fd, fresh, &r->ports, &r->env);
}

/* Where they cannot go is said before anything is done. */
static int check_artifacts(struct run *r)
{
	const char *path = opt_value(r->c->args, RUN_ARTIFACTS);
	struct artifacts a;
	bool given;
	int code = artifacts_check(r->c, RUN_ARTIFACT, &given), err;

	if (code || !path)
		return code;
	err = path_absolute(path, false, &r->artifacts);
	if (err)
		return call_fail_err(r->c, err, NULL, path);
	a = (struct artifacts){.parent = -1, .dir = -1};
	code = artifacts_open(r->c, r->artifacts, NULL, &a);
	artifacts_close(&a);
	return code;
}

/* --- the command --------------------------------------------------------- */

/* Reads USER[:GROUP], names or numbers. */
static int find_user(struct run *r)
{
	const char *text = opt_value(r->c->args, RUN_USER);
	_cleanup_free_ char *user = text ? strdup(text) : NULL;
	char *group = user ? strchr(user, ':') : NULL;
	const struct passwd *pw;
	const struct group *gr;
	uint64_t n;

	r->cmd.uid = geteuid();
	if (!user)
		return CODE_DONE;
	if (geteuid() != 0)
		return call_fail(r->c, CODE_USAGE, "--user: only root can");
	if (group)
		*group++ = 0;
	pw = getpwnam(user);
	if (!pw && !number_read(user, INT_MAX, &n))
		pw = getpwuid((uid_t)n);
	else if (!pw)
		return call_fail(r->c, CODE_FAILED, "--user: %s: unknown user",
				 user);
	r->cmd.uid = pw ? pw->pw_uid : (uid_t)n;
	r->cmd.gid = pw ? pw->pw_gid : (gid_t)n;
	gr = group ? getgrnam(group) : NULL;
	if (gr)
		r->cmd.gid = gr->gr_gid;
	else if (group && !number_read(group, INT_MAX, &n))
		r->cmd.gid = (gid_t)n;
	else if (group)
		return call_fail(r->c, CODE_FAILED, "--user: %s: unknown group",
				 group);
	r->cmd.has_user = true;
	return CODE_DONE;
}

/* The same by the lists of a root that is the environment. */
static int find_root_user(struct run *r)
{
	const char *text = opt_value(r->c->args, RUN_USER);
	struct run_root *root = &r->s.root;
	int code;

	if (text && geteuid() != 0)
		return call_fail(r->c, CODE_USAGE, "--user: only root can");
	code = run_root_user(r->c, r->env.path, text, root);
	if (code)
		return code;
	r->cmd.has_user = text;
	r->cmd.uid = root->uid;
	r->cmd.gid = root->gid;
	r->s.spec.home = root->home;
	return CODE_DONE;
}

static const char *find_shell(const struct run *r)
{
	static const char *const shells[] = {"/bin/bash", "/bin/sh"};
	const char *shell = getenv("SHELL");

	if (r->s.spec.rootfs)
		return r->s.root.shell;
	if (!shell || access(shell, X_OK) < 0)
		shell = shells[access(shells[0], X_OK) < 0];
	return shell;
}

/* The rest of the command line, or a shell. */
static int find_argv(struct run *r)
{
	const struct opt_args *a = r->c->args;
	const size_t from = opt_has(a, RUN_NEW) ? 0 : 1;

	r->argv = calloc(a->arg_count + 2, sizeof *r->argv);
	if (!r->argv)
		return call_fail_err(r->c, -ENOMEM, NULL, "run");
	for (size_t i = from; i < a->arg_count; i++)
		r->argv[i - from] = (char *)a->args[i];
	if (!r->argv[0])
		r->argv[0] = (char *)find_shell(r);
	r->cmd.argv = r->argv;
	return CODE_DONE;
}

static int find_timeout(struct run *r)
{
	const char *text = opt_value(r->c->args, RUN_TIMEOUT);
	uint64_t seconds;

	if (!text)
		return CODE_DONE;
	if (number_read_span(text, TIMEOUT_MAX, &seconds) || !seconds)
		return call_fail(r->c, CODE_USAGE,
				 "--timeout: %s: not a time (a number of "
				 "seconds, or of s, m, h, d)",
				 text);
	r->wait.timeout_ms = seconds * MS_PER_S;
	return CODE_DONE;
}

static int find_command(struct run *r)
{
	const bool rootfs = r->s.spec.rootfs;
	int code = rootfs ? find_root_user(r) : find_user(r);

	if (!code)
		code = find_argv(r);
	if (!code)
		code = find_timeout(r);
	if (!code)
		code = run_vars_own(r->c, &r->own, &r->secrets);
	if (code)
		return code;
	r->cmd.cwd = r->s.cwd;
	if (!rootfs && strncmp(r->s.spec.home, r->s.at, strlen(r->s.at)) != 0)
		r->cmd.home = r->s.spec.home;
	return CODE_DONE;
}

/* --- running it ---------------------------------------------------------- */

/* The sandbox, and the variables, which tell of its network. */
static int open_box(struct run *r)
{
	int code = r->fd < 0 ? remote_connect(r->c, &r->fd) : CODE_DONE;

	if (!code)
		code = run_box_open(r->c, &r->fd, &r->s, &r->box);
	if (code)
		return code;
	buf_clear(&r->vars);
	free((void *)r->vars_list);
	run_vars(&r->s, r->cmd.uid, &r->own, &r->vars);
	r->vars_list = box_vars_list(&r->vars);
	if (!r->vars_list)
		return call_fail_err(r->c, -ENOMEM, NULL, "run");
	mask_add_vars(&r->secrets, r->vars_list, SECRET_MIN);
	/* The caller's shell may have put them into arguments. */
	mask_add_vars(&r->secrets, environ, SECRET_OTHER_MIN);
	r->cmd.vars = r->vars_list;
	return CODE_DONE;
}

/* Leaves ret_again set when the sandbox has ended while we were on our way in.
 */
static int spawn_once(struct run *r, pid_t *ret_pid, bool *ret_again)
{
	static const int codes[] = {[BOX_OURS] = CODE_OURS,
				    [BOX_NO_FILE] = CODE_NO_FILE,
				    [BOX_NO_EXEC] = CODE_NO_EXEC};
	_cleanup_diag_ struct diag diag = {0};
	enum box_fault fault;
	int err;

	/* The command must not have it, nor keep the server from ending. */
	if (r->fd >= 0)
		(void)close(TAKE_FD(r->fd));
	err = box_spawn(&r->box, &r->cmd, &diag, ret_pid, &fault);
	if (!err)
		return CODE_DONE;
	if (*ret_again && fault == BOX_OURS && box_is_over(&r->box))
		return CODE_OURS;
	*ret_again = false;
	(void)call_fail_err(r->c, err, &diag, r->cmd.argv[0]);
	return codes[fault];
}

/* Somebody's kill at the same moment is no failure of ours. */
static int spawn(struct run *r, pid_t *ret_pid)
{
	int code;

	for (int i = 1;; i++) {
		bool again = i < SPAWN_TRIES;

		code = spawn_once(r, ret_pid, &again);
		if (!code || !again)
			return code;
		box_close(&r->box);
		r->box = (struct box){0};
		if (open_box(r))
			return CODE_OURS;
	}
}

/* A record that cannot be made is no reason not to run. */
static void begin_record(struct run *r)
{
	const struct record_what what = {
		.store = r->c->store,
		.env = r->env.name,
		.argv = r->cmd.argv,
		.dir = r->cmd.cwd,
		.mask = &r->secrets,
		.detached = opt_has(r->c->args, RUN_DETACH),
		.has_user = r->cmd.has_user,
		.uid = r->cmd.uid,
		.gid = r->cmd.gid,
	};
	int err = record_begin(&what, &r->wait.record);

	if (err < 0)
		(void)call_fail(r->c, 0, "not recorded: %s", err_text(err));
	else
		record_fds(r->wait.record, r->cmd.fds);
}

/* Starts the command and waits for its end; started tells how the start went,
 * or is negative. */
static int run_recorded(struct run *r, int started)
{
	pid_t pid;
	int code;

	begin_record(r);
	code = spawn(r, &pid);
	if (started >= 0) {
		(void)!write(started, &code, sizeof code);
		(void)close(started);
	}
	if (r->wait.record && code)
		record_finish(r->wait.record,
			      &(struct record_end){.code = code}, NULL);
	if (code)
		return code;
	if (r->wait.record)
		record_started(r->wait.record);
	code = box_wait(pid, &r->wait);
	return code < 0	 ? call_fail_err(r->c, code, NULL, "command"),
	       CODE_OURS : code;
}

static int run_here(struct run *r)
{
	box_block_signals();
	return open_box(r) ? CODE_OURS : run_recorded(r, -1);
}

/* The process that waits for a command in the background. */
static _noreturn_ void background_main(struct run *r, int started)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat st;

	(void)setsid();
	(void)chdir("/"); /* it may be in the mount, and would hold it */
	/* Who waits for the end of a pipe waits for this command only. */
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			(void)dup2(null, fd);
	box_block_signals();
	_exit(run_recorded(r, started));
}

static int run_detached(struct run *r)
{
	_cleanup_close_ int in = -1;
	int p[2], code;
	pid_t pid;

	if (open_box(r))
		return CODE_OURS;
	if (pipe2(p, O_CLOEXEC) < 0)
		return call_fail_err(r->c, -errno, NULL, "pipe"), CODE_OURS;
	in = p[0];
	pid = fork();
	if (pid == 0)
		background_main(r, p[1]);
	(void)close(p[1]);
	if (pid < 0 || io_read(in, &code, sizeof code) != (ssize_t)sizeof code)
		return call_fail(r->c, CODE_OURS,
				 "cannot go on in the background");
	return code;
}

static int check_usage(const struct call *c)
{
	static const int others[] = {RUN_AT, RUN_HIDE, RUN_WARM};
	const struct opt_args *a = c->args;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (opt_has(a, RUN_ROOTFS) && opt_has(a, others[i]))
			return call_fail(c, CODE_USAGE,
					 "--%s: not together with --rootfs",
					 options[others[i]].name);
	if (!opt_has(a, RUN_NEW) && !a->arg_count) {
		(void)call_fail(c, 0, "ENV: missing");
		call_hint("usage: cowfs run ENV [--] [COMMAND...]");
		return CODE_USAGE;
	}
	if (opt_has(a, RUN_NEW) && opt_has(a, RUN_DETACH))
		return call_fail(c, CODE_USAGE,
				 "--detach: not together with --new");
	if (opt_has(a, RUN_PORT) && !opt_has(a, RUN_NEW))
		return call_fail(c, CODE_USAGE,
				 "--port: only with --new; \"cowfs mount\" "
				 "publishes ports of an environment");
	if (opt_has(a, RUN_ARTIFACTS) && !opt_has(a, RUN_NEW))
		return call_fail(c, CODE_USAGE,
				 "--artifacts: only with --new; \"cowfs "
				 "umount\" copies those of an environment");
	if (opt_has(a, RUN_ARTIFACT) && !opt_has(a, RUN_ARTIFACTS))
		return call_fail(c, CODE_USAGE,
				 "--artifact: only with --artifacts");
	return CODE_DONE;
}

static int run(struct call *c)
{
	_cleanup_(run_fini) struct run r = {.c = c, .fd = -1};
	const bool fresh = opt_has(c->args, RUN_NEW);
	int code;

	if (check_usage(c) || ports_parse(c, RUN_NET, RUN_PORT, &r.ports) ||
	    check_artifacts(&r) || find_env(&r))
		return CODE_OURS;
	if ((opt_has(c->args, RUN_ARTIFACT) &&
	     artifacts_keep(c, RUN_ARTIFACT, r.env.name)) ||
	    run_spec_make(c, &r.env, &r.s) || find_command(&r) ||
	    run_spec_home(c, &r.fd, &r.cmd, &r.s))
		code = CODE_OURS;
	else
		code = opt_has(c->args, RUN_DETACH) ? run_detached(&r)
						    : run_here(&r);
	/* It is thrown away whatever came of the command. */
	if (fresh && !run_env_umount(c, r.env.name, r.artifacts) && !code)
		code = CODE_OURS;
	return code;
}

const struct verb cmd_run = {
	.name = "run",
	.synopsis = "ENV [--] [COMMAND...]",
	.summary = "run a command in an environment, in its sandbox",
	.text = "The environment appears at its origin's path, the host "
		"read-only, HOME and /tmp\nare private. Commands of one "
		"environment share a sandbox, which lives until umount\nor "
		"kill. Exit: the command's code, 128 + N for signal N; 124 for "
		"--timeout, 125 when\nit was not started, 126 when it cannot "
		"be executed, 127 when there is none.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.arg = ARG_ENV,
	.choices = "host private none",
	.max_args = OPT_MANY,
	.takes_command = true,
	.instead = RUN_NEW,
	.own_code = CODE_OURS,
	.run = run,
};
