/* SPDX-License-Identifier: MIT */
/*
 * doctor_server.c - whether the store's server runs, goes on and answers.
 *
 * Server and keeper are found by what they hold open, the lock of the store:
 * links below /proc are read, nothing is followed. One that was stopped
 * (SIGSTOP, the terminal's ^Z) is continued by --fix, and its mounts answer
 * again. One that still does not answer is killed; that loses nothing, as
 * every call that returned is in the journal (docs/durability.md), and the
 * kernel then ends its connections, so what waited in a mount gets an error
 * instead of waiting for ever.
 */
#include "cli/doctor.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/io.h"
#include "base/proc.h"
#include "cli/remote.h"
#include "serve/serve.h"

enum {
	ANSWER_MS = 5000,
	END_MS = 5000,
	DYING_MS = 1000,
	AGAIN_MS = 1000,
	PROC_FILE_MAX = 1 << 20
};

/* --- its processes ------------------------------------------------------- */

/* Other commands hold the lock for moments, and are not to be ended. */
static bool is_server(int proc, const char *pid)
{
	static const char words[] = "\0daemon\0keeper";
	_cleanup_buf_ struct buf text = {0};
	char path[300];

	(void)snprintf(path, sizeof path, "%s/cmdline", pid);
	return io_read_file(proc, path, PROC_FILE_MAX, &text) == 0 &&
	       memmem(text.data, text.len, words, sizeof words);
}

static bool holds(int proc, const char *pid, const char *lock)
{
	char path[300], target[4352];
	const struct dirent *e;
	bool found = false;
	DIR *dir;

	(void)snprintf(path, sizeof path, "%s/fd", pid);
	if (io_open_names(proc, path, 0, &dir) < 0)
		return false;
	while (!found && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target,
				       sizeof target);

		found = n == (ssize_t)strlen(lock) &&
			!memcmp(target, lock, (size_t)n);
	}
	(void)closedir(dir);
	return found;
}

/* Appends the process ids of server and keeper. */
static void find_servers(const struct doctor *d, struct buf *pids)
{
	_cleanup_buf_ struct buf lock = {0};
	const struct dirent *e;
	DIR *dir = opendir("/proc");

	buf_printf(&lock, "%s/server.lock", d->c->store);
	while (dir && buf_str(&lock) && (e = readdir(dir))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && is_server(dirfd(dir), e->d_name) &&
		    holds(dirfd(dir), e->d_name, buf_str(&lock)))
			buf_put(pids, &pid, sizeof pid);
	}
	if (dir)
		(void)closedir(dir);
}

static bool is_stopped(pid_t pid)
{
	struct proc_stat s;

	return proc_stat(pid, &s) == 0 && s.state == 'T';
}

/* Sends sig to those processes (with stopped: to those of them that are), and
 * returns how many there were; ret_last is one of them. */
static size_t each_server(const struct buf *pids, bool stopped, int sig,
			  pid_t *ret_last)
{
	size_t n = 0;

	for (size_t at = 0; at < pids->len; at += sizeof(pid_t)) {
		pid_t pid;

		memcpy(&pid, pids->data + at, sizeof pid);
		if (stopped && !is_stopped(pid))
			continue;
		*ret_last = pid;
		n += kill(pid, sig) == 0;
	}
	return n;
}

/* --- its answer ---------------------------------------------------------- */

/* Sorts the environments into live and dead ones; of those that the server
 * has mounted in the store the path must be a mount. */
static int ask_list(int fd, struct doctor *d, struct buf *dead)
{
	_cleanup_(mountinfo_fini) struct mountinfo now = {0};
	_cleanup_msg_ struct msg request = {0}, answer = {0};
	size_t n = strlen(d->c->store);
	struct remote_env e;
	int r;

	buf_clear(&d->live);
	buf_clear(&d->live_names);
	buf_clear(dead);
	msg_begin(&request, CTL_LIST);
	r = msg_send(fd, &request, ANSWER_MS);
	while (!r) {
		r = msg_recv(fd, &answer, ANSWER_MS);
		if (!r)
			r = msg_check(&answer);
		if (r || msg_verb(&answer) != CTL_ROW)
			break;
		if (!now.v && mountinfo_read(&now))
			return -EIO;
		remote_read_env(&answer, &e);
		if (!strcmp(e.state, "dead") ||
		    (!strcmp(e.state, "mounted") && d->same_space &&
		     !strncmp(e.path, d->c->store, n) && e.path[n] == '/' &&
		     !mountinfo_has(&now, e.path))) {
			buf_put(dead, e.name, strlen(e.name) + 1);
		} else if (strcmp(e.state, "kept") != 0) {
			buf_put(&d->live, e.path, strlen(e.path) + 1);
			buf_put(&d->live_names, e.name, strlen(e.name) + 1);
		}
	}
	return r;
}

/* Ends what is left of an environment's mount, and keeps the environment. */
static bool keep(int fd, const char *name)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};

	msg_begin(&request, CTL_UMOUNT);
	msg_put_str(&request, CTL_TAG_NAME, name);
	msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_KEEP);
	return client_call(fd, &request, NULL, NULL, &done) == 0 &&
	       msg_get_u64(&done, CTL_TAG_CODE, CODE_DONE) == CODE_DONE;
}

/* Whether the server sees the mounts that we see. */
static bool sees_the_same(pid_t pid)
{
	char path[64], ours[64] = "", theirs[64] = "";

	(void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
	return readlink("/proc/self/ns/mnt", ours, sizeof ours - 1) > 0 &&
	       readlink(path, theirs, sizeof theirs - 1) > 0 &&
	       !strcmp(ours, theirs);
}

/* One that is just being mounted or unmounted is not dead a second later. */
static int find_dead(int fd, struct doctor *d, struct buf *dead)
{
	int r = ask_list(fd, d, dead);

	if (r || !dead->len)
		return r;
	(void)poll(NULL, 0, AGAIN_MS);
	return ask_list(fd, d, dead);
}

static void report_dead(struct doctor *d, int fd, const struct buf *dead)
{
	for (size_t i = 0; i < dead->len;) {
		const char *name = (const char *)dead->data + i;

		doctor_problem(d, name, d->fix && keep(fd, name),
			       "its mount is broken; \"cowfs mount %s\" brings "
			       "it back",
			       name);
		i += strlen(name) + 1;
	}
}

static void end_servers(struct doctor *d, const struct buf *pids, int err)
{
	pid_t last = 0;
	bool gone = each_server(pids, false, SIGKILL, &last) &&
		    !serve_wait_end(d->c->store, END_MS);

	d->running = !gone;
	doctor_problem(d, "server", gone,
		       "runs but does not answer: %s; %s; see %s/server.log",
		       err_text(err),
		       gone ? "ended, its environments are kept"
			    : "it cannot be ended",
		       d->c->store);
}

/* The lock is held, by no server: by another command, or by one that has just
 * been killed and is not gone yet. */
static void report_locked(struct doctor *d)
{
	d->running = serve_wait_end(d->c->store, DYING_MS) < 0;
	doctor_note(d, "server",
		    d->running ? "not running; another command has the store "
				 "for itself, as \"cowfs fsck --repair\" does"
			       : "not running");
}

/* Says so of one that is stopped, and continues it to fix that. */
static bool report_stopped(struct doctor *d, const struct buf *pids)
{
	pid_t pid = 0;

	if (!each_server(pids, true, d->fix ? SIGCONT : 0, &pid))
		return false;
	doctor_problem(d, "server", d->fix,
		       "process %d is stopped, what uses its mounts hangs; "
		       "\"kill -CONT %d\" lets it go on",
		       (int)pid, (int)pid);
	return true;
}

/* Collects which mounts the running server answers for. */
void doctor_server(struct doctor *d)
{
	_cleanup_buf_ struct buf dead = {0}, pids = {0};
	_cleanup_close_ int fd = -1;
	pid_t pid = 0;
	int r;

	if (!d->running) {
		doctor_note(d, "server", "not running");
		return;
	}
	find_servers(d, &pids);
	if (report_stopped(d, &pids) && !d->fix)
		return;
	if (pids.len)
		memcpy(&pid, pids.data, sizeof pid);
	d->same_space = pid && sees_the_same(pid);
	r = client_connect(d->c->store, &fd);
	if (!r)
		r = find_dead(fd, d, &dead);
	/* Stopped on the way, or on a busy machine just now. */
	if (r && report_stopped(d, &pids))
		return;
	if ((r == -ECONNREFUSED || r == -ECONNRESET) && !pids.len) {
		report_locked(d);
	} else if (r && d->fix) {
		end_servers(d, &pids, r);
	} else if (r) {
		doctor_problem(d, "server", false,
			       "runs but does not answer: %s; --fix ends it; "
			       "see %s/server.log",
			       err_text(r), d->c->store);
	} else {
		d->live_known = true;
		doctor_note(d, "server", "running");
		report_dead(d, fd, &dead);
	}
}
