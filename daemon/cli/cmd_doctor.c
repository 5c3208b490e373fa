/* SPDX-License-Identifier: MIT */
/*
 * cmd_doctor.c - `cowfs doctor`: what this machine can do, what is left over.
 *
 * No server is started and no mount touched. The store itself is opened last,
 * in a child: a damaged index may crash its reader, and that is a finding too.
 */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "cli/quote.h"
#include "cli/remote.h"
#include "serve/serve.h"
#include "store/store.h"

enum { OPT_FIX };

static const struct opt_def options[] = {
	[OPT_FIX] = {"fix", 0, OPT_FLAG, ARG_NONE, NULL,
		     "clear what is left over"},
};

static const struct out_col columns[] = {
	{"kind", NULL, OUT_STR},
	{"what", NULL, OUT_STR},
	{"text", NULL, OUT_STR},
};

static void add(struct doctor *d, const char *kind, const char *what,
		const char *text)
{
	_cleanup_buf_ struct buf line = {0};

	out_row(&d->out, (struct out_cell[]){out_str(kind), out_str(what),
					     out_str(text)});
	buf_printf(&line, "%s: ", kind);
	quote_line(&line, what, strlen(what));
	buf_printf(&line, ": ");
	quote_line(&line, text, strlen(text));
	buf_put_u8(&line, '\n');
	out_raw(&d->out, line.data, line.len);
}

static void add_text(struct doctor *d, const char *kind, const char *what,
		     const char *fmt, va_list ap) _printf_(4, 0);
static void add_text(struct doctor *d, const char *kind, const char *what,
		     const char *fmt, va_list ap)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0)
		return;
	add(d, kind, what, text);
	free(text);
}

void doctor_note(struct doctor *d, const char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_text(d, "note", what, fmt, ap);
	va_end(ap);
}

void doctor_problem(struct doctor *d, const char *what, bool fixed,
		    const char *fmt, ...)
{
	va_list ap;

	d->problems += !fixed;
	va_start(ap, fmt);
	add_text(d, fixed ? "fixed" : "problem", what, fmt, ap);
	va_end(ap);
}

/* --- the store --------------------------------------------------------- */

static int open_store(const struct call *c, int fd)
{
	_cleanup_diag_ struct diag diag = {0};
	struct store *s = NULL;
	int r = store_open(c->store, 0, &diag, &s);

	if (r == -ENOENT)
		return CODE_DONE;
	if (r) {
		const char *line = diag_line(&diag, 0);

		(void)dprintf(fd, "%s", line ? line : err_text(r));
		return CODE_FAILED;
	}
	store_close(s);
	return CODE_DONE;
}

static void check_store(struct doctor *d)
{
	_cleanup_close_ int in = -1;
	char text[4352] = "";
	int p[2], state = 0;
	ssize_t n = 0;
	pid_t pid;

	if (pipe(p) < 0)
		return;
	in = p[0];
	pid = fork();
	if (pid == 0)
		_exit(open_store(d->c, p[1]));
	(void)close(p[1]);
	if (pid < 0)
		return;
	n = read(in, text, sizeof text - 1);
	text[MAX(n, 0)] = 0;
	while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(state))
		doctor_problem(d, d->c->store, false,
			       "damaged: reading its index ends by signal %d",
			       WTERMSIG(state));
	else if (WEXITSTATUS(state))
		doctor_problem(d, d->c->store, false, "%s", text);
}

/* Whether there is a store, whether it is ours, and whether a server runs. */
static void look_at_lock(struct doctor *d)
{
	struct stat st;
	int r = 0;

	d->has_store = remote_has_store(d->c);
	if (!d->has_store)
		r = -errno;
	else if (!stat(d->c->store, &st) && st.st_uid != geteuid())
		r = -EACCES;
	else
		r = serve_wait_end(d->c->store, 0);
	d->denied = r == -EACCES || r == -EPERM;
	/* Its mounts may have their server. */
	d->running = r == -ETIMEDOUT || d->denied;
}

/* Says where the store is, or whether one can be made there. */
static void note_store(struct doctor *d)
{
	_cleanup_free_ char *path = strdup(d->c->store);
	char *slash;

	if (d->has_store || d->denied) {
		doctor_note(d, "store", "%s", d->c->store);
		return;
	}
	while (path && access(path, F_OK) < 0 && (slash = strrchr(path, '/')))
		slash[slash == path] = 0;
	if (!path || !access(path, W_OK | X_OK))
		doctor_note(d, "store", "%s: there is none yet", d->c->store);
	else
		doctor_note(d, "store",
			    "%s: there is none, and none can be made: %s; name "
			    "another place by --store, COWFS_STORE or "
			    "XDG_DATA_HOME",
			    d->c->store, err_text(errno));
}

static int examine(struct doctor *d)
{
	int r = mountinfo_read(&d->mounts);

	if (r)
		return call_fail_err(d->c, r, NULL, "/proc/self/mountinfo");
	look_at_lock(d);
	doctor_machine(d);
	note_store(d);
	if (d->denied)
		doctor_note(d, d->c->store,
			    "no permission: what is in it is not looked at");
	else
		doctor_server(d);
	if (!d->denied)
		doctor_boxes(d);
	doctor_mounts(d);
	if (!d->denied) {
		doctor_left(d);
		check_store(d);
		doctor_rescues(d);
		doctor_leases(d);
	}
	out_printf(&d->out, "%zu problems\n", d->problems);
	return call_finish(d->c, &d->out, d->problems ? CODE_NO : CODE_DONE);
}

static int run(struct call *c)
{
	struct doctor d = {.c = c, .fix = opt_has(c->args, OPT_FIX)};
	_cleanup_free_ char *real = realpath(c->store, NULL);
	int r;

	/* The kernel's lists have no symlinks. */
	if (real)
		c->store = real;
	out_init(&d.out, c->json, OUT_LINES, columns, ARRAY_SIZE(columns));
	r = examine(&d);
	out_fini(&d.out);
	mountinfo_fini(&d.mounts);
	buf_fini(&d.live);
	buf_fini(&d.live_names);
	return r;
}

const struct verb cmd_doctor = {
	.name = "doctor",
	.synopsis = "",
	.summary = "say what this machine can do and what is left over",
	.text = "What the machine lacks is a note. Mounts that nobody serves, "
		"stale sockets, left\nfolders and damage are problems; exit 1 "
		"while there are any. Kept environments\nare no problems, and "
		"--fix leaves them alone.",
	.opts = options,
	.opt_count = ARRAY_SIZE(options),
	.run = run,
};
