/* SPDX-License-Identifier: MIT */
/*
 * points.c - mount points in folders that commands of a sandbox may write.
 *
 * How: name by name, by descriptors, so that a link leads nowhere: bubblewrap,
 * which has more rights, would follow it. What is missing is made and stays.
 * What stands in the way is removed from a HOME, which is thrown away with its
 * environment; an environment that is the root keeps it, and is refused.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Opens a folder in one, made when it is missing. */
static int enter(int dir, const char *name, bool replace)
{
	for (;; replace = false) {
		int fd;

		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(dir, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (!replace || (errno != ENOTDIR && errno != ELOOP))
			return -errno;
		if (unlinkat(dir, name, 0) < 0)
			return -errno;
	}
}

static int make_file(int dir, const char *name, bool replace)
{
	for (;; replace = false) {
		struct stat st;
		int fd = openat(dir, name,
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
					O_CLOEXEC,
				0644);

		if (fd >= 0) {
			(void)close(fd);
			return 0;
		}
		if (errno != EEXIST ||
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISREG(st.st_mode))
			return 0;
		if (!replace || S_ISDIR(st.st_mode))
			return S_ISLNK(st.st_mode) ? -ELOOP : -EISDIR;
		if (unlinkat(dir, name, 0) < 0)
			return -errno;
	}
}

int point_make(int top, const char *path, bool is_file, bool replace)
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
			return make_file(dir, name, replace);
		fd = enter(dir, name, replace);
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
		r = point_make(top, s->path, s->is_file, false);
	}
	return r;
}
