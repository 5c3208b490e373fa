/* SPDX-License-Identifier: MIT */
/*
 * root.c - mount points in an environment that is the root of its sandbox.
 *
 * How: name by name from the environment's root, by descriptors, so that a link
 * in it leads nowhere: bubblewrap, which has more rights, would follow it. What
 * is missing is made and stays, as in a container's layer; what is there is
 * left as it is.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Opens a folder in one, made when it is missing. */
static int enter(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_file(int dir, const char *name)
{
	struct stat st;
	int fd = openat(dir, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0644);

	if (fd >= 0)
		(void)close(fd);
	else if (errno != EEXIST ||
		 fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	else if (!S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode) ? -ELOOP : -EISDIR;
	return 0;
}

/* path is absolute, in the environment. */
static int make_point(int top, const char *path, bool is_file)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int dir = fcntl(top, F_DUPFD_CLOEXEC, 3);
	char *save = NULL, *name, *next;

	if (!copy || dir < 0)
		return -ENOMEM;
	for (name = strtok_r(copy, "/", &save); name; name = next) {
		int fd;

		next = strtok_r(NULL, "/", &save);
		if (!next && is_file)
			return make_file(dir, name);
		fd = enter(dir, name);
		if (fd < 0)
			return fd;
		(void)close(dir);
		dir = fd;
	}
	return 0;
}

int root_prepare(const struct box_spec *spec, const struct view *v,
		 const char **ret_path)
{
	_cleanup_close_ int top =
		open(spec->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = top < 0 ? -errno : 0;

	*ret_path = spec->mount;
	for (size_t i = 0; i < v->count && !r; i++) {
		const struct view_step *s = &v->steps[i];
		const struct view_step *up = view_above(v, i, s->path);

		if (!up || strcmp(up->path, "/") != 0)
			continue;
		*ret_path = s->path;
		r = make_point(top, s->path, s->is_file);
	}
	return r;
}
