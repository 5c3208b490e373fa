/* SPDX-License-Identifier: MIT */
/*
 * How: each need is tried by the thing itself where that is harmless (opening
 * /dev/fuse), else by what makes it fail: fusermount3 says of most of its
 * failures no more than "Operation not permitted".
 */
#include "serve/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

enum { CONF_MAX = 1 << 16 };

#define SAY(text, ...) (void)snprintf((text), RIGHTS_TEXT_BYTES, __VA_ARGS__)

bool rights_find(const char *program, char *ret_path, size_t size)
{
	const char *dirs = getenv("PATH");

	for (const char *s = dirs ? dirs : "/usr/bin:/bin"; *s;) {
		size_t n = strcspn(s, ":");
		int len =
			snprintf(ret_path, size, "%.*s/%s", (int)n, s, program);

		if (len > 0 && (size_t)len < size && !access(ret_path, X_OK))
			return true;
		s += n + (s[n] == ':');
	}
	ret_path[0] = '\0';
	return false;
}

static bool have_device(char *text)
{
	_cleanup_close_ int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		SAY(text, "usable");
		return true;
	}
	switch (errno) {
	case EACCES:
		SAY(text, "no permission: as root, chmod 0666 /dev/fuse");
		break;
	case EPERM:
		SAY(text, "forbidden to this container: start it with "
			  "--device /dev/fuse");
		break;
	case ENOENT:
		SAY(text, "missing: as root, modprobe fuse; a container is "
			  "to be started with --device /dev/fuse");
		break;
	default:
		SAY(text, "not usable: %s; as root, modprobe fuse",
		    err_text(errno));
	}
	return false;
}

static bool have_program(char *text)
{
	char path[4096];
	struct statvfs fs;
	struct stat st;

	if (!rights_find("fusermount3", path, sizeof path) ||
	    stat(path, &st) < 0 || statvfs(path, &fs) < 0)
		SAY(text, "not found in PATH: install the package fuse3");
	else if (st.st_uid != 0 || !(st.st_mode & S_ISUID))
		SAY(text,
		    "%s is not setuid root: as root, chown root and "
		    "chmod u+s it",
		    path);
	else if (fs.f_flag & ST_NOSUID)
		SAY(text,
		    "%s is on a file system without setuid: as root, "
		    "remount that with the option suid",
		    path);
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		SAY(text,
		    "%s gets no rights from a process that may gain none "
		    "(no_new_privs): run \"cowfs daemon start\" outside "
		    "of the sandbox",
		    path);
	else {
		SAY(text, "%s", path);
		return true;
	}
	return false;
}

static bool have_account(char *text)
{
	const struct passwd *pw = getpwuid(getuid());

	if (pw)
		SAY(text, "%s", pw->pw_name);
	else
		SAY(text,
		    "user %u has no name, and fusermount3 wants one: add "
		    "a line to /etc/passwd, or work below \"unshare "
		    "-Urm\"",
		    (unsigned)getuid());
	return pw;
}

/* As fusermount3 reads it: a line of its own, blanks around it allowed. */
static bool conf_says(const char *word)
{
	_cleanup_buf_ struct buf text = {0};
	const char *s;

	if (io_read_file(AT_FDCWD, "/etc/fuse.conf", CONF_MAX, &text) < 0)
		return false;
	s = buf_str(&text);
	while (s && *s) {
		size_t len, blank;

		s += strspn(s, " \t\n");
		len = strcspn(s, " \t\n");
		blank = strspn(s + len, " \t");
		if (len == strlen(word) && !memcmp(s, word, len) &&
		    (s[len + blank] == '\n' || !s[len + blank]))
			return true;
		s += strcspn(s, "\n");
	}
	return false;
}

static bool have_others(char *text)
{
	if (conf_says("user_allow_other")) {
		SAY(text, "set in /etc/fuse.conf");
		return true;
	}
	SAY(text, "not set: for \"mount --allow-other\" root is to add the "
		  "line user_allow_other to /etc/fuse.conf");
	return false;
}

bool rights_have(enum rights_need need, char ret_text[RIGHTS_TEXT_BYTES])
{
	switch (need) {
	case RIGHTS_DEVICE:
		return have_device(ret_text);
	case RIGHTS_PROGRAM:
		return have_program(ret_text);
	case RIGHTS_ACCOUNT:
		return have_account(ret_text);
	case RIGHTS_OTHERS:
		break;
	}
	return have_others(ret_text);
}
