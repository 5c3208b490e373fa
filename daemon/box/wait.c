/* SPDX-License-Identifier: MIT */
/*
 * wait.c - a command in a sandbox behaves as if it had been called directly.
 *
 * How: signals are blocked and taken one by one. What the terminal sent to our
 * group goes to the command's group, unless it is the same one and has it
 * already; what somebody sent to us goes to the command. When the command
 * stops, we take the terminal back and stop, too, so that the caller's shell
 * notices; when we go on, it does.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "base/clock.h"

enum { KILL_AFTER_MS = 5000, NS_PER_MS = 1000000, TIMED_OUT = 124 };

static const int handed_on[] = {
	SIGHUP,	 SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
	SIGUSR2, SIGTSTP, SIGALRM, SIGWINCH,
};

static void fill(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(handed_on); i++)
		(void)sigaddset(set, handed_on[i]);
}

void box_block_signals(void)
{
	sigset_t set;

	fill(&set);
	/* Ignored by our caller, a command's end would not be told. */
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Makes a group the terminal's, if `from` is it. */
static void give_terminal(pid_t from, pid_t to)
{
	sigset_t set, old;

	if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != from)
		return;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTTOU);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	(void)tcsetpgrp(STDIN_FILENO, to);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
}

/* The command has stopped: so do we, until somebody lets us go on. */
static void stop_too(pid_t pid, struct record *record)
{
	const pid_t own = getpgrp();

	/* What it has written is not to wait. */
	if (record)
		record_catch_up(record);
	give_terminal(pid, own);
	(void)raise(SIGSTOP);
	give_terminal(own, getpgid(pid) == pid ? pid : own);
	(void)kill(getpgid(pid) == pid ? -pid : pid, SIGCONT);
}

static void hand_on(pid_t pid, const siginfo_t *info)
{
	const bool own_group = getpgid(pid) == pid;

	if (info->si_code != SI_KERNEL)
		(void)kill(pid, info->si_signo);
	else if (own_group)
		(void)kill(-pid, info->si_signo);
}

/* 1: it has ended. */
static int collect(pid_t pid, struct record *record, struct record_end *end)
{
	int state;
	pid_t r;

	while ((r = wait4(pid, &state, WNOHANG | WUNTRACED, &end->usage)) ==
	       pid) {
		if (WIFEXITED(state) || WIFSIGNALED(state)) {
			end->code = WIFEXITED(state) ? WEXITSTATUS(state)
						     : -WTERMSIG(state);
			end->has_usage = true;
			return 1;
		}
		stop_too(pid, record);
	}
	return r < 0 && errno == ECHILD ? -ECHILD : 0;
}

struct deadline {
	uint64_t at_ns; /* 0: none */
	bool is_last;	/* SIGKILL comes next */
};

static void end_in_time(pid_t pid, struct deadline *d, struct record_end *end)
{
	const pid_t to = getpgid(pid) == pid ? -pid : pid;

	if (!d->at_ns || clock_mono_ns() < d->at_ns)
		return;
	end->timed_out = true;
	(void)kill(to, d->is_last ? SIGKILL : SIGTERM);
	(void)kill(to, SIGCONT);
	d->is_last = true;
	d->at_ns = clock_mono_ns() + (uint64_t)KILL_AFTER_MS * NS_PER_MS;
}

static int next_signal(const sigset_t *set, const struct deadline *d,
		       struct record *record, siginfo_t *ret_info)
{
	const uint64_t now = clock_mono_ns();
	const uint64_t left = d->at_ns > now ? d->at_ns - now : 0;
	struct timespec t = {
		.tv_sec = (time_t)(left / (1000 * NS_PER_MS)),
		.tv_nsec = (long)(left % (1000 * NS_PER_MS)),
	};

	if (record) {
		record_pump(record, set,
			    d->at_ns ? (int)MIN(left / NS_PER_MS + 1, INT_MAX)
				     : -1);
		t = (struct timespec){0};
	} else if (!d->at_ns) {
		return sigwaitinfo(set, ret_info);
	}
	return sigtimedwait(set, ret_info, &t);
}

int box_wait(pid_t pid, struct box_wait *wait)
{
	struct record_end end = {0};
	struct deadline d = {0};
	siginfo_t info;
	sigset_t set;
	int r;

	fill(&set);
	if (wait->timeout_ms)
		d.at_ns = clock_mono_ns() + wait->timeout_ms * NS_PER_MS;
	while ((r = collect(pid, wait->record, &end)) == 0) {
		int sig = next_signal(&set, &d, wait->record, &info);

		if (sig > 0 && sig != SIGCHLD)
			hand_on(pid, &info);
		end_in_time(pid, &d, &end);
	}
	give_terminal(pid, getpgrp());
	if (wait->record)
		record_finish(wait->record, &end, &set);
	if (r < 0)
		return r;
	if (end.timed_out)
		return TIMED_OUT;
	return end.code < 0 ? 128 - end.code : end.code;
}
