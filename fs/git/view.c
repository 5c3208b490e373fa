/* SPDX-License-Identifier: MIT */
/*
 * view.c - each directory on the way is opened by itself, without following
 * links. Paths come sorted, so the last directory is kept.
 */
#include "git/view_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"

int gitview_open(struct gitview *v, const char *path)
{
	*v = (struct gitview){.fd = -1};
	v->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return v->root < 0 ? -errno : 0;
}

static void forget(struct gitview *v)
{
	if (v->fd >= 0)
		(void)close(TAKE_FD(v->fd));
	buf_clear(&v->dir);
}

void gitview_close(struct gitview *v)
{
	forget(v);
	buf_fini(&v->dir);
	attr_closep(&v->root);
	v->root = -1;
}

/* What says that a path leads nowhere. */
static int plain(int err)
{
	return err == ENOTDIR || err == ELOOP || err == ENAMETOOLONG ? -ENOENT
								     : -err;
}

static int walk(int root, const char *path, size_t len)
{
	_cleanup_close_ int fd = -1;
	char name[NAME_MAX + 1];

	for (size_t at = 0; at < len;) {
		const size_t n = strcspn(path + at, "/");
		int next;

		if (!n || n > NAME_MAX)
			return -ENOENT;
		memcpy(name, path + at, n);
		name[n] = '\0';
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			return -ENOENT;
		next = openat(fd >= 0 ? fd : root, name,
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return plain(errno);
		if (fd >= 0)
			(void)close(fd);
		fd = next;
		at += n + 1;
	}
	return TAKE_FD(fd);
}

int gitview_parent(struct gitview *v, const char *path, int *ret_dir,
		   const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	const size_t len = slash ? (size_t)(slash - path) : 0;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!len) {
		*ret_dir = v->root;
		return 0;
	}
	if (v->fd >= 0 && v->dir.len == len &&
	    !memcmp(v->dir.data, path, len)) {
		*ret_dir = v->fd;
		return 0;
	}
	forget(v);
	fd = walk(v->root, path, len);
	if (fd < 0)
		return fd;
	v->fd = fd;
	buf_put(&v->dir, path, len);
	*ret_dir = fd;
	return buf_error(&v->dir);
}

int gitview_stat(struct gitview *v, const char *path, struct stat *ret_st)
{
	const char *name;
	int dir;
	int r = gitview_parent(v, path, &dir, &name);

	if (r < 0)
		return r;
	if (fstatat(dir, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0)
		return plain(errno);
	return 0;
}

int gitview_open_file(struct gitview *v, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	const char *name;
	int dir;
	int r = gitview_parent(v, path, &dir, &name);

	if (r < 0)
		return r;
	/* a pipe would have us wait */
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENXIO ? -ENOENT : plain(errno);
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ENOENT;
}

int gitview_read_link(struct gitview *v, const char *path, struct buf *out)
{
	char target[PATH_MAX];
	const char *name;
	ssize_t n;
	int dir;
	int r = gitview_parent(v, path, &dir, &name);

	if (r < 0)
		return r;
	n = readlinkat(dir, name, target, sizeof target);
	if (n < 0)
		return errno == EINVAL ? -ENOENT : plain(errno);
	buf_put(out, target, (size_t)n);
	return buf_error(out);
}

int gitview_read(struct gitview *v, const char *path, size_t max,
		 struct buf *out)
{
	const char *name;
	struct stat st;
	int dir;
	int r = gitview_parent(v, path, &dir, &name);

	if (r < 0)
		return r;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return plain(errno);
	return S_ISREG(st.st_mode) ? io_read_file(dir, name, max, out)
				   : -ENOENT;
}
