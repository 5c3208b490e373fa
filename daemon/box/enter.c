/* SPDX-License-Identifier: MIT */
/*
 * enter.c - a command is started in a sandbox.
 *
 * How: a helper joins all name spaces of the sandbox's first process at once
 * (setns of a pidfd) and then makes the command with CLONE_PARENT, so that it
 * is a child of ours: who waits for it needs nobody between. The helper ends.
 *
 * Between joining and executing the command has more rights than it is to
 * have, in sight of what runs in there already: it is not dumpable, so nothing
 * can trace it or look at its descriptors, and it has none but the three
 * standard ones and the pipe by which it says what failed.
 *
 * Rights go in this order: groups and user, the bounding set, no_new_privs, the
 * filter, the sets of capabilities. With an empty bounding set uid 0 gets
 * nothing back by executing a program.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#include "base/err.h"
#include "base/io.h"

/* What the pipe says. */
struct report {
	enum {
		STEP_PID, /* pid: of the command */
		STEP_JOIN,
		STEP_LIMITS,
		STEP_DIR,
		STEP_RIGHTS,
		STEP_EXEC,
	} step;
	int err;
	pid_t pid;
};

static void tell(int out, int step, int err, pid_t pid)
{
	const struct report r = {.step = step, .err = err, .pid = pid};

	(void)!write(out, &r, sizeof r);
}

/* --- in the sandbox ------------------------------------------------------ */

/* Root may map itself into a user name space of its own only with this one. On
 * files that are nosuid it gives nothing. */
static bool is_kept(int cap, bool nested)
{
	return nested && cap == CAP_SETFCAP && geteuid() == 0;
}

static int drop_bounds(bool nested)
{
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!is_kept(cap, nested) &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	return 0;
}

static int drop_capabilities(bool nested)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct left[2] = {{0}};

	if (is_kept(CAP_SETFCAP, nested))
		left[0].permitted = left[0].effective = 1U << CAP_SETFCAP;
	return syscall(SYS_capset, &head, left) < 0 ? -errno : 0;
}

static int drop_rights(const struct box_command *c, bool nested)
{
	int r;

	if (c->has_user &&
	    (setgroups(0, NULL) < 0 || setresgid(c->gid, c->gid, c->gid) < 0))
		return -errno;
	r = drop_bounds(nested);
	if (r)
		return r;
	if (c->has_user && setresuid(c->uid, c->uid, c->uid) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* Changing the user made it so again. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	r = drop_capabilities(nested);
	return r ? r : filter_load(nested);
}

/* A group of its own: a signal to "everybody in my group" from inside would
 * reach the caller's script, too. It is in the foreground where we were. */
static void take_terminal(void)
{
	const bool front = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
			   tcgetpgrp(STDIN_FILENO) == getpgrp();
	sigset_t set, old;

	if (isatty(STDIN_FILENO) && !front)
		return; /* part of a pipeline that the terminal drives */
	(void)setpgid(0, 0);
	if (!front)
		return;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTTOU);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
}

static void reset_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
}

static _noreturn_ void command_main(const struct box *b,
				    const struct box_command *c, int out)
{
	char runtime[64];
	int r;

	take_terminal();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (c->has_user && c->home)
		(void)lchown(c->home, c->uid, c->gid);
	r = drop_rights(c, b->nested);
	if (r) {
		tell(out, STEP_RIGHTS, r, 0);
		_exit(1);
	}
	(void)snprintf(runtime, sizeof runtime, "/run/user/%u",
		       (unsigned)getuid());
	/* A root has what it has. */
	if (!b->rootfs)
		(void)mkdir(runtime, 0700);
	if (chdir(c->cwd) < 0) {
		tell(out, STEP_DIR, -errno, 0);
		_exit(1);
	}
	/* Changing the user forgot it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	reset_signals();
	/* Its own PATH is the one to look in. */
	environ = (char **)c->vars;
	(void)execvp(c->argv[0], c->argv);
	tell(out, STEP_EXEC, -errno, 0);
	_exit(1);
}

/* The name spaces of the sandbox that are not ours already. Joining one that is
 * takes rights over it, which users do not have. */
static int find_spaces(const struct box *b)
{
	static const struct {
		const char *name;
		int flag;
	} all[] = {{"user", CLONE_NEWUSER},    {"mnt", CLONE_NEWNS},
		   {"pid", CLONE_NEWPID},      {"ipc", CLONE_NEWIPC},
		   {"uts", CLONE_NEWUTS},      {"net", CLONE_NEWNET},
		   {"cgroup", CLONE_NEWCGROUP}};
	struct stat own, other;
	char path[64];
	int flags = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		(void)snprintf(path, sizeof path, "/proc/self/ns/%s",
			       all[i].name);
		if (stat(path, &own) < 0)
			continue; /* unknown to the kernel */
		(void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)b->pid,
			       all[i].name);
		if (stat(path, &other) < 0 || other.st_ino != own.st_ino)
			flags |= all[i].flag;
	}
	return flags;
}

static _noreturn_ void helper_main(const struct box *b,
				   const struct box_command *c, int out)
{
	const int spaces = find_spaces(b);
	pid_t pid;

	int r = cgroup_join(b->folder);

	(void)prctl(PR_SET_DUMPABLE, 0);
	if (r < 0) {
		tell(out, STEP_LIMITS, r, 0);
		_exit(1);
	}
	if (setns(b->pidfd, spaces) < 0) {
		tell(out, STEP_JOIN, -errno, 0);
		_exit(1);
	}
	for (int i = 0; i < 2; i++)
		if (c->fds[i] > 0)
			(void)dup2(c->fds[i], STDOUT_FILENO + i);
	if (out != 3) {
		(void)dup3(out, 3, O_CLOEXEC);
		out = 3;
	}
	(void)close_range(4, ~0U, 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL,
			     NULL, NULL);
	if (pid == 0)
		command_main(b, c, out);
	tell(out, pid < 0 ? STEP_JOIN : STEP_PID, pid < 0 ? -errno : 0, pid);
	_exit(0);
}

/* --- outside ------------------------------------------------------------- */

static int say_failure(const struct report *r, const struct box_command *c,
		       struct diag *diag, enum box_fault *ret_fault)
{
	switch (r->step) {
	case STEP_EXEC:
		*ret_fault = r->err == -ENOENT || r->err == -ENOTDIR
				     ? BOX_NO_FILE
				     : BOX_NO_EXEC;
		return diag_fail(diag, r->err, "%s: %s", c->argv[0],
				 r->err == -ENOENT ? "command not found"
						   : err_text(r->err));
	case STEP_DIR:
		return diag_fail(diag, r->err, "%s: %s", c->cwd,
				 err_text(r->err));
	case STEP_LIMITS:
		return diag_fail(diag, r->err, "cannot join its cgroups: %s",
				 err_text(r->err));
	case STEP_RIGHTS:
		return diag_fail(diag, r->err, "cannot give up rights: %s",
				 err_text(r->err));
	default:
		return diag_fail(diag, r->err, "cannot enter the sandbox: %s",
				 err_text(r->err));
	}
}

static void collect(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Reads until the pipe ends, which it does when the command is executed. */
static int read_reports(int in, pid_t *ret_pid, struct report *ret_failure)
{
	struct report r;
	bool failed = false;

	*ret_pid = 0;
	while (io_read(in, &r, sizeof r) == (ssize_t)sizeof r) {
		if (r.step == STEP_PID) {
			*ret_pid = r.pid;
		} else {
			*ret_failure = r;
			failed = true;
		}
	}
	return failed ? -EIO : 0;
}

int box_spawn(const struct box *b, const struct box_command *cmd,
	      struct diag *diag, pid_t *ret_pid, enum box_fault *ret_fault)
{
	struct report failure = {.step = STEP_JOIN, .err = -ESRCH};
	_cleanup_close_ int in = -1;
	pid_t helper, pid;
	int p[2], r;

	*ret_fault = BOX_OURS;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	helper = fork();
	if (helper == 0)
		helper_main(b, cmd, p[1]);
	r = helper < 0 ? -errno : 0;
	(void)close(p[1]);
	if (r)
		return r;
	r = read_reports(in, &pid, &failure);
	collect(helper);
	if (!r && pid > 0) {
		*ret_pid = pid;
		return 0;
	}
	if (pid > 0)
		collect(pid);
	return say_failure(&failure, cmd, diag, ret_fault);
}
