/* SPDX-License-Identifier: MIT */
/*
 * import_gitfile.c - a name ".git" that stands for a repository elsewhere.
 *
 * `git worktree add`, `git init --separate-git-dir` and submodules have a file
 * ".git" that names a directory; older tools have a symlink. In an environment
 * it would lead back to the origin, so a directory ".git" takes its place: the
 * repository itself, or, for a linked work tree, what it shares with the
 * others and what it has alone, in one (import_gitdir.c). Objects are in the
 * store already when another work tree was imported.
 *
 * What stays a file: one that names a directory below a ".git" of the same
 * tree, as those of submodules do. An absolute name is made relative then.
 *
 * Going out of the tree is only done for files that belong to the caller, by
 * git's own idea (safe.directory): else whoever may write a file could have
 * root import a repository that he may not read.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "git/safe.h"

static const char prefix[] = "gitdir:";

struct target {
	char *named;		 /* as the file names it */
	char *real;		 /* where that is */
	bool link;		 /* the name is a symlink */
	int fd;			 /* what is named */
	int common;		 /* where objects and refs are; -1: the same */
	struct import_list list; /* of that */
};

static void target_fini(struct target *t)
{
	free(t->named);
	free(t->real);
	attr_closep(&t->fd);
	attr_closep(&t->common);
	import_list_fini(&t->list);
}

/* --- reading names ------------------------------------------------------- */

/* Takes a line without blanks at its end; NULL: none. */
static char *take_line(struct buf *text, size_t from)
{
	size_t end = from;

	while (end < text->len && text->data[end] != '\n')
		end++;
	while (end > from &&
	       (text->data[end - 1] == '\r' || text->data[end - 1] == ' '))
		end--;
	if (end == from || memchr(text->data + from, 0, end - from))
		return NULL;
	return strndup((const char *)text->data + from, end - from);
}

/* The path in a .git file, or the target of a symlink; NULL: neither. */
static char *read_named(int dirfd, const char *name, bool *ret_link)
{
	_cleanup_buf_ struct buf text = {0};
	char link[PATH_MAX];
	size_t from = sizeof prefix - 1;
	ssize_t n = readlinkat(dirfd, name, link, sizeof link - 1);

	*ret_link = n > 0;
	if (n > 0)
		return strndup(link, (size_t)n);
	if (io_read_file(dirfd, name, IMPORT_LINE_BYTES, &text) < 0 ||
	    text.len <= from || memcmp(text.data, prefix, from) != 0)
		return NULL;
	while (from < text.len && text.data[from] == ' ')
		from++;
	return take_line(&text, from);
}

static int open_dir(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

char *import_real(int fd)
{
	char proc[48];

	(void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	return realpath(proc, NULL);
}

/* Opens what a linked work tree shares with others; -ENOENT: it is none. */
static int open_common(int fd, int *ret_fd)
{
	_cleanup_buf_ struct buf text = {0};
	_cleanup_free_ char *path = NULL;
	int r = io_read_file(fd, "commondir", IMPORT_LINE_BYTES, &text);

	if (r < 0)
		return r;
	path = take_line(&text, 0);
	r = path ? open_dir(fd, path) : -EINVAL;
	if (r < 0)
		return r == -ENOENT ? -ENOTDIR : r;
	*ret_fd = r;
	return 0;
}

/* --- deciding ------------------------------------------------------------ */

/* Says whether the target lies in the imported tree, below a ".git"; then
 * ret_inside is its path from the root. */
static bool is_inside(const struct importer *imp, const char *real,
		      const char **ret_inside)
{
	const size_t n = imp->root_real ? strlen(imp->root_real) : 0;
	const char *rest;

	if (!n || strncmp(real, imp->root_real, n) != 0 || real[n] != '/')
		return false;
	rest = real + n + 1;
	*ret_inside = rest;
	return !strncmp(rest, ".git/", 5) || strstr(rest, "/.git/");
}

/* A repository of somebody else is not followed. */
static int check_owner(struct importer *imp, int dirfd, const char *name,
		       const struct target *t)
{
	struct stat file, dir;

	if (fstatat(dirfd, name, &file, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstat(t->common >= 0 ? t->common : t->fd, &dir) < 0)
		return -errno;
	if ((gitsafe_is_owner(file.st_uid) && gitsafe_is_owner(dir.st_uid)) ||
	    gitsafe_is_trusted(t->real))
		return 0;
	imp->failed = true;
	return diag_fail(imp->diag, -EPERM,
			 "%s: leads to %s, and not both are yours (users %u "
			 "and %u); if you trust it: git config --global --add "
			 "safe.directory %s",
			 import_path(imp), t->real, (unsigned)file.st_uid,
			 (unsigned)dir.st_uid, t->real);
}

/* Opens what is named; false: there is no repository. */
static bool target_open(struct importer *imp, int dirfd, const char *name,
			struct target *t)
{
	struct stat st;
	int r;

	t->named = read_named(dirfd, name, &t->link);
	if (!t->named)
		return false;
	t->fd = open_dir(dirfd, t->named);
	if (t->fd < 0)
		return false;
	t->real = import_real(t->fd);
	r = open_common(t->fd, &t->common);
	if (!t->real || (r < 0 && r != -ENOENT))
		return false;
	return import_list(imp, t->common >= 0 ? t->common : t->fd, &st,
			   &t->list) == 0 &&
	       import_is_gitdir(&t->list);
}

/* --- taking --------------------------------------------------------------- */

static int take_outside(struct importer *imp, const struct target *t,
			struct import_node *node)
{
	const struct import_gitdir where = {.fd = t->common >= 0 ? t->common
								 : t->fd,
					    .own = t->common >= 0 ? t->fd : -1,
					    .moved = true};
	const dev_t root_dev = imp->root_dev;
	struct stat st;
	int r;

	if (fstat(t->fd, &st) < 0)
		return -errno;
	r = import_xattrs(imp, t->fd, st.st_dev, false, &node->e.xattrs);
	if (r < 0)
		return r;
	imp->in_git++;
	imp->depth++;
	imp->root_dev = st.st_dev;
	r = import_gitdir(imp, &where, &t->list, &st, &node->e);
	imp->root_dev = root_dev;
	imp->depth--;
	imp->in_git--;
	return r;
}

/* Writes "gitdir: " and the way from the file to a path of the tree. */
static int relative_text(struct importer *imp, const char *inside,
			 struct buf *out)
{
	const char *path = import_path(imp);

	buf_printf(out, "%s ", prefix);
	for (; (path = strchr(path, '/')); path++)
		buf_printf(out, "../");
	buf_printf(out, "%s\n", inside);
	return buf_error(out);
}

int import_gitfile(struct importer *imp, int dirfd, const char *name,
		   struct import_node *node, struct buf *ret_text)
{
	_cleanup_(target_fini) struct target t = {.fd = -1, .common = -1};
	const char *inside = NULL;
	int r;

	if (!target_open(imp, dirfd, name, &t)) {
		if (t.named)
			import_left_out(imp, &imp->outward);
		return IMPORT_RETYPED;
	}
	if (t.common < 0 && is_inside(imp, t.real, &inside) &&
	    !(t.link && t.named[0] == '/')) {
		r = 0;
		if (t.named[0] == '/')
			r = relative_text(imp, inside, ret_text);
		return r < 0 ? r : IMPORT_RETYPED;
	}
	r = check_owner(imp, dirfd, name, &t);
	return r < 0 ? r : take_outside(imp, &t, node);
}
