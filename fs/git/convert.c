/* SPDX-License-Identifier: MIT */
/*
 * convert.c - what a filter's program makes of a file, by git.
 *
 * git hashes the file as `git add` would in the origin, into a folder of
 * objects that goes away, and the blob is read back from there. Neither hooks
 * nor a watcher of files run: nobody asked for these.
 */
#include "git/convert_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/io.h"
#include "git/outside.h"

/* What both runs of git have in common. */
struct conversion {
	char git_dir[PATH_MAX + 16];
	char work_tree[PATH_MAX + 16];
	char objects[PATH_MAX + 32];
	char named[PATH_MAX + 16];
	char folder[PATH_MAX];
	const char *view;
};

static int prepare(struct conversion *c, git_repository *origin,
		   const char *path)
{
	int r;

	(void)snprintf(c->git_dir, sizeof c->git_dir, "--git-dir=%s",
		       git_repository_path(origin));
	(void)snprintf(c->work_tree, sizeof c->work_tree, "--work-tree=%s",
		       c->view);
	(void)snprintf(c->named, sizeof c->named, "--path=%s", path);
	r = io_temp_dir("filter", c->folder, sizeof c->folder);
	if (r < 0)
		return r;
	(void)snprintf(c->objects, sizeof c->objects, "GIT_OBJECT_DIRECTORY=%s",
		       c->folder);
	return 0;
}

static int run_git(struct conversion *c, const char *const *args, int fd,
		   struct buf *out)
{
	_cleanup_buf_ struct buf said = {0};
	enum { FIRST = 9, MOST = 6 };
	const char *argv[FIRST + MOST + 1] = {
		"git",	     c->git_dir,
		"-c",	     "core.bare=false",
		"-c",	     "core.hooksPath=/dev/null",
		"-c",	     "core.fsmonitor=false",
		c->work_tree};
	const char *const set[] = {c->objects, NULL};
	const struct gitoutside p = {
		.argv = argv, .set = set, .in = fd, .dir = c->view};
	int r;

	for (size_t i = 0; args[i] && i < MOST; i++)
		argv[FIRST + i] = args[i];
	r = gitoutside_run(&p, out, &said);
	return r > 0 ? -ECANCELED : r;
}

int gitconvert(git_repository *origin, const char *view, const char *path,
	       int fd, struct buf *out)
{
	_cleanup_free_ struct conversion *c = calloc(1, sizeof *c);
	_cleanup_buf_ struct buf name = {0};
	const char *hash[] = {"hash-object", "-w", "--stdin", NULL, NULL};
	const char *cat[] = {"cat-file", "blob", NULL, NULL};
	int r;

	if (!c)
		return -ENOMEM;
	c->view = view;
	r = prepare(c, origin, path);
	if (r < 0)
		return r;
	hash[3] = c->named;
	r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
	if (r == 0)
		r = run_git(c, hash, fd, &name);
	if (r == 0 && name.len)
		name.len--; /* the line's end */
	cat[2] = buf_str(&name);
	if (r == 0)
		r = cat[2] ? run_git(c, cat, -1, out) : -ENOMEM;
	if (io_remove_tree(AT_FDCWD, c->folder) < 0 && r == 0)
		r = -EIO;
	return r;
}
