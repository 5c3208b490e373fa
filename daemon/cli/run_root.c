/* SPDX-License-Identifier: MIT */
/*
 * run_root.c - `cowfs run --rootfs`: who runs in a root that is an environment.
 *
 * Its users are those of its own /etc/passwd and /etc/group, which whoever
 * worked in it has written: they are read by descriptors that follow no link,
 * up to a size, and say names, numbers, a HOME and a shell, no more.
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

#include "base/io.h"
#include "cli/number.h"

enum { FILE_MAX = 1 << 20 };

/* Reads a file below a directory; empty when it is none. */
static FILE *open_list(int top, const char *path)
{
	_cleanup_close_ int fd =
		io_open_beneath(top, path, O_RDONLY | O_NONBLOCK);
	struct stat st;
	FILE *f;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > FILE_MAX)
		return NULL;
	f = fdopen(fd, "r");
	if (f)
		(void)TAKE_FD(fd);
	return f;
}

static void close_list(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static char *copy_path(const char *text)
{
	return text && text[0] == '/' ? strdup(text) : NULL;
}

/* Finds one by its name or, where name is NULL, by its number. */
static bool find_user(int top, const char *name, struct run_root *root)
{
	_cleanup_(close_list) FILE *f = open_list(top, "etc/passwd");
	const struct passwd *pw;

	while (f && (pw = fgetpwent(f))) {
		if (name ? strcmp(pw->pw_name, name) != 0
			 : pw->pw_uid != root->uid)
			continue;
		root->uid = pw->pw_uid;
		root->gid = pw->pw_gid;
		root->name = strdup(pw->pw_name);
		root->home = copy_path(pw->pw_dir);
		root->shell = copy_path(pw->pw_shell);
		return true;
	}
	return false;
}

static bool find_group(int top, const char *name, gid_t *ret_gid)
{
	_cleanup_(close_list) FILE *f = open_list(top, "etc/group");
	const struct group *gr;

	while (f && (gr = fgetgrent(f))) {
		if (strcmp(gr->gr_name, name) != 0)
			continue;
		*ret_gid = gr->gr_gid;
		return true;
	}
	return false;
}

/* USER[:GROUP], names or numbers. */
static int find_named(const struct call *c, int top, char *user,
		      struct run_root *root)
{
	char *group = strchr(user, ':');
	uint64_t n;

	if (group)
		*group++ = 0;
	if (!number_read(user, INT_MAX, &n)) {
		root->uid = (uid_t)n;
		root->gid = (gid_t)n;
		(void)find_user(top, NULL, root);
	} else if (!find_user(top, user, root)) {
		return call_fail(c, CODE_FAILED,
				 "--user: %s: not in the root's /etc/passwd",
				 user);
	}
	if (group && !number_read(group, INT_MAX, &n))
		root->gid = (gid_t)n;
	else if (group && !find_group(top, group, &root->gid))
		return call_fail(c, CODE_FAILED,
				 "--user: %s: not in the root's /etc/group",
				 group);
	return CODE_DONE;
}

int run_root_user(const struct call *c, const char *mount, const char *user,
		  struct run_root *root)
{
	_cleanup_close_ int top = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *copy = user ? strdup(user) : NULL;
	int r = CODE_DONE;

	if (top < 0)
		return call_fail_err(c, -errno, NULL, mount);
	root->uid = geteuid();
	root->gid = getegid();
	if (copy)
		r = find_named(c, top, copy, root);
	else
		(void)find_user(top, NULL, root);
	if (r)
		return r;
	if (!root->home)
		root->home = strdup("/");
	if (!root->shell)
		root->shell = strdup("/bin/sh");
	return root->home && root->shell && (copy || !user)
		       ? CODE_DONE
		       : call_fail_err(c, -ENOMEM, NULL, "run");
}

void run_root_fini(struct run_root *root)
{
	free(root->name);
	free(root->home);
	free(root->shell);
	*root = (struct run_root){0};
}
