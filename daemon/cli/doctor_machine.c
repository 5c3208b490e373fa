/* SPDX-License-Identifier: MIT */
/*
 * doctor_machine.c - notes on what this machine has and lacks.
 *
 * Each is probed by the thing itself where that is harmless (opening
 * /dev/fuse), else by what the kernel tells in /proc.
 */
#include "cli/doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "base/io.h"

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

/* Returns the number in a file of /proc/sys, or fallback. */
static long read_number(const char *path, long fallback)
{
	_cleanup_buf_ struct buf text = {0};
	const char *s;

	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text) < 0)
		return fallback;
	s = buf_str(&text);
	return s ? strtol(s, NULL, 10) : fallback;
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

	if (fd >= 0)
		doctor_note(d, "/dev/fuse", "usable");
	else
		doctor_note(d, "/dev/fuse", "not usable: %s", err_text(errno));
}

static void note_rights(struct doctor *d)
{
	char path[4096];
	struct stat st;

	if (geteuid() == 0) {
		doctor_note(d, "rights", "root: mounts by itself");
	} else {
		find_program("fusermount3", path, sizeof path, &st);
		if (!path[0])
			doctor_note(d, "fusermount3",
				    "missing: needed to mount without root");
		else if (!(st.st_mode & S_ISUID))
			doctor_note(d, "fusermount3",
				    "%s is not setuid root: it may not mount",
				    path);
		else
			doctor_note(d, "fusermount3", "%s", path);
	}
	doctor_note(d, "user_allow_other", "%s",
		    has_line("/etc/fuse.conf", "user_allow_other", false)
			    ? "set in /etc/fuse.conf"
			    : "not set in /etc/fuse.conf: what a user mounts, "
			      "others cannot enter");
}

static void note_name_spaces(struct doctor *d)
{
	if (read_number("/proc/sys/user/max_user_namespaces", 0) <= 0)
		doctor_note(d, "user name spaces", "switched off");
	else if (!read_number("/proc/sys/kernel/unprivileged_userns_clone", 1))
		doctor_note(d, "user name spaces", "for root only");
	else if (read_number("/proc/sys/kernel/"
			     "apparmor_restrict_unprivileged_userns",
			     0))
		doctor_note(d, "user name spaces",
			    "restricted by AppArmor for users");
	else
		doctor_note(d, "user name spaces", "usable");
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
	doctor_note(d, "bubblewrap", "%s", path[0] ? path : "missing");
	doctor_note(d, "libfuse", "built in");
}
