/* SPDX-License-Identifier: MIT */
/*
 * doctor_machine.c - notes on what this machine has and lacks.
 *
 * What mounting needs, serve/rights.h knows. The rest is probed by the thing
 * itself where that is harmless (a child in new name spaces), else by what the
 * kernel tells in /proc. Where something is missing the note says what to do.
 */
#include "cli/doctor.h"

#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/path.h"
#include "serve/rights.h"
#include "serve/serve.h"

enum { FILE_MAX = 1 << 20 };

/* Whether a text file has a line that ends with this word. */
static bool has_line(const char *path, const char *word)
{
	_cleanup_buf_ struct buf text = {0};
	char *s, *line;
	size_t n = strlen(word);

	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text) < 0 ||
	    !buf_str(&text))
		return false;
	s = (char *)text.data;
	while ((line = strsep(&s, "\n"))) {
		size_t len = strlen(line);

		while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'))
			line[--len] = 0;
		if (len >= n && !strcmp(line + len - n, word))
			return true;
	}
	return false;
}

static void note_need(struct doctor *d, enum rights_need need, const char *what)
{
	static char text[RIGHTS_TEXT_BYTES]; /* much for a stack; one thread */

	(void)rights_have(need, text);
	doctor_note(d, what, "%s", text);
}

static bool is_yes(const char *s)
{
	return strchr("yYtT1", *s) || !strncasecmp(s, "on", 2);
}

/* Whether a file of settings sets this one to yes. */
static bool is_set(const char *path, const char *key)
{
	_cleanup_buf_ struct buf text = {0};
	size_t n = strlen(key);
	char *s, *line;

	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text) < 0 ||
	    !buf_str(&text))
		return false;
	s = (char *)text.data;
	while ((line = strsep(&s, "\n")))
		if (!strncmp(line, key, n) && line[n] == '=' && line[n + 1])
			return is_yes(line + n + 1);
	return false;
}

/* The server is in a session of its own, with no terminal; only logind can be
 * told to end it with the login that started it. */
static void note_logout(struct doctor *d)
{
	glob_t g = {0};
	bool kills = is_set("/etc/systemd/logind.conf", "KillUserProcesses");

	if (glob("/etc/systemd/logind.conf.d/*.conf", 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			kills |= is_set(g.gl_pathv[i], "KillUserProcesses");
	globfree(&g);
	if (kills)
		doctor_note(d, "logout",
			    "ends the server (logind: KillUserProcesses=yes): "
			    "loginctl enable-linger, and start it by "
			    "\"systemd-run --user --scope cowfs daemon "
			    "start\"");
	else
		doctor_note(d, "logout", "the server goes on");
}

static void note_rights(struct doctor *d)
{
	note_need(d, RIGHTS_DEVICE, "/dev/fuse");
	note_need(d, RIGHTS_PROGRAM, "fusermount3");
	if (geteuid() == 0) {
		doctor_note(d, "rights", "root: mounts by itself");
	} else {
		doctor_note(d, "rights", "a user: mounts by fusermount3");
		note_need(d, RIGHTS_ACCOUNT, "account");
		note_logout(d);
	}
	note_need(d, RIGHTS_OTHERS, "user_allow_other");
}

/* --- name spaces, cgroups --------------------------------------------------
 */

static const struct {
	const char *name;
	int flag;
} spaces[] = {
	{"mount", CLONE_NEWNS},
	{"pid", CLONE_NEWPID},
	{"net", CLONE_NEWNET},
};
enum { USER_FAILED = 1 << ARRAY_SIZE(spaces) };

/* In a child: tries each, and returns as bits which of them failed. Users make
 * a user name space first, without which they may not make the others. */
static int try_spaces(void)
{
	int failed = unshare(CLONE_NEWUSER) ? USER_FAILED : 0;

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		failed |= unshare(spaces[i].flag) ? 1 << i : 0;
	return failed;
}

static void note_name_spaces(struct doctor *d)
{
	_cleanup_buf_ struct buf good = {0}, bad = {0};
	pid_t pid = fork();
	int state = 0, failed;

	if (pid == 0)
		_exit(try_spaces());
	while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
		;
	failed = pid > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : ~0;
	buf_printf(failed & USER_FAILED ? &bad : &good, " user");
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		buf_printf(failed & 1 << i ? &bad : &good, " %s",
			   spaces[i].name);
	if (good.len && buf_str(&good))
		doctor_note(d, "name spaces", "usable:%s", buf_str(&good));
	if (!bad.len || !buf_str(&bad))
		return;
	doctor_note(d, "name spaces",
		    "not usable:%s; see the sysctls user.max_*_namespaces, "
		    "kernel.unprivileged_userns_clone, "
		    "kernel.apparmor_restrict_unprivileged_userns",
		    buf_str(&bad));
}

static void note_cgroup2(struct doctor *d, const char *at)
{
	_cleanup_buf_ struct buf path = {0}, text = {0};
	const char *s;

	buf_printf(&path, "%s/cgroup.controllers", at);
	s = buf_str(&path);
	if (!s || io_read_file(AT_FDCWD, s, FILE_MAX, &text) < 0)
		return;
	s = buf_str(&text);
	if (s)
		((char *)text.data)[strcspn(s, "\n")] = 0;
	doctor_note(d, "cgroups", "version 2 at %s, controllers: %s", at,
		    s && *s ? s : "none");
}

static void note_cgroups(struct doctor *d)
{
	_cleanup_buf_ struct buf old = {0};
	bool any = false;

	for (size_t i = 0; i < d->mounts.count; i++) {
		const struct mount_line *m = &d->mounts.v[i];

		if (!strcmp(m->type, "cgroup2"))
			note_cgroup2(d, m->path);
		if (!strcmp(m->type, "cgroup"))
			buf_printf(&old, " %s", path_last(m->path));
		any |= !strncmp(m->type, "cgroup", strlen("cgroup"));
	}
	if (old.len && buf_str(&old))
		doctor_note(d, "cgroups", "version 1:%s", buf_str(&old));
	if (!any)
		doctor_note(d, "cgroups", "not mounted");
}

void doctor_machine(struct doctor *d)
{
	char path[4096];
	struct utsname u;

	if (!uname(&u))
		doctor_note(d, "kernel", "%s %s", u.sysname, u.release);
	note_rights(d);
	doctor_note(d, "overlay", "%s",
		    has_line("/proc/filesystems", "overlay")
			    ? "known to the kernel"
			    : "not known to the kernel, or a module that is "
			      "not loaded");
	note_name_spaces(d);
	doctor_note(d, "bubblewrap", "%s",
		    rights_find("bwrap", path, sizeof path)
			    ? path
			    : "missing: install bubblewrap");
	note_cgroups(d);
	doctor_note(d, "libfuse", "%s, built in", serve_libfuse());
}
