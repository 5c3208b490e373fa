/* SPDX-License-Identifier: MIT */
/*
 * doctor_machine.c - notes on what this machine has and lacks.
 *
 * Each is probed by the thing itself where that is harmless (opening
 * /dev/fuse, a child in new name spaces), else by what the kernel tells in
 * /proc. Where something is missing the note says what to do.
 */
#include "cli/doctor.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/path.h"
#include "serve/serve.h"

enum { FILE_MAX = 1 << 20 };

/* Whether a text file has a line that is this word, or (any) ends with it. */
static bool has_line(const char *path, const char *word, bool any)
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
		if (!strcmp(line, word))
			return true;
		if (any && len > n && !strcmp(line + len - n, word))
			return true;
	}
	return false;
}

/* Finds a program by PATH; "" when there is none. */
static void find_program(const char *name, char *ret, size_t size,
			 struct stat *ret_st)
{
	const char *dirs = getenv("PATH");

	for (const char *s = dirs ? dirs : "/usr/bin:/bin"; *s;) {
		size_t n = strcspn(s, ":");

		if (snprintf(ret, size, "%.*s/%s", (int)n, s, name) > 0 &&
		    !access(ret, X_OK) && !stat(ret, ret_st))
			return;
		s += n + (s[n] == ':');
	}
	ret[0] = 0;
}

static void note_fuse(struct doctor *d)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int err = fd < 0 ? errno : 0;
	bool known = has_line("/proc/filesystems", "fuse", true);
	struct stat st = {0};

	(void)stat("/dev/fuse", &st);
	if (!err && (st.st_mode & 0006) == 0006)
		doctor_note(d, "/dev/fuse", "usable, for users, too");
	else if (!err)
		doctor_note(d, "/dev/fuse",
			    "usable, but its mode is %04o: other users need "
			    "\"chmod 666 /dev/fuse\"",
			    st.st_mode & 07777);
	else if (err == EACCES || err == EPERM)
		doctor_note(d, "/dev/fuse",
			    "not usable, its mode is %04o: root can run "
			    "\"chmod 666 /dev/fuse\"; a container may need to "
			    "allow the device",
			    st.st_mode & 07777);
	else if (err == ENOENT && known)
		doctor_note(d, "/dev/fuse",
			    "missing: a container needs it as a device, else "
			    "root can run \"mknod /dev/fuse c 10 229\"");
	else
		doctor_note(d, "/dev/fuse",
			    "not usable: %s; root can run \"modprobe fuse\"",
			    err_text(err));
}

static void note_fusermount(struct doctor *d)
{
	char path[4096];
	struct stat st;

	find_program("fusermount3", path, sizeof path, &st);
	if (!path[0])
		doctor_note(d, "fusermount3",
			    "missing: users cannot mount; install fuse3");
	else if (!(st.st_mode & S_ISUID) || st.st_uid != 0)
		doctor_note(d, "fusermount3",
			    "%s is not setuid root: users cannot mount; root "
			    "can run \"chmod u+s %s\"",
			    path, path);
	else
		doctor_note(d, "fusermount3", "%s", path);
}

static void note_rights(struct doctor *d)
{
	if (geteuid() == 0)
		doctor_note(d, "rights", "root: mounts by itself");
	else
		doctor_note(d, "rights", "a user: mounts by fusermount3");
	note_fusermount(d);
	doctor_note(d, "user_allow_other", "%s",
		    has_line("/etc/fuse.conf", "user_allow_other", false)
			    ? "set in /etc/fuse.conf"
			    : "not set in /etc/fuse.conf: what a user mounts, "
			      "others cannot enter");
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
	struct stat st;

	if (!uname(&u))
		doctor_note(d, "kernel", "%s %s", u.sysname, u.release);
	note_fuse(d);
	note_rights(d);
	doctor_note(d, "overlay", "%s",
		    has_line("/proc/filesystems", "overlay", true)
			    ? "known to the kernel"
			    : "not known to the kernel, or a module that is "
			      "not loaded");
	note_name_spaces(d);
	find_program("bwrap", path, sizeof path, &st);
	doctor_note(d, "bubblewrap", "%s",
		    path[0] ? path : "missing: install bubblewrap");
	note_cgroups(d);
	doctor_note(d, "libfuse", "%s, built in", serve_libfuse());
}
