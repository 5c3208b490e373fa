/* SPDX-License-Identifier: MIT */
/*
 * side_mount.c - a side that is a mounted tree.
 *
 * Names are opened one after the other below descriptors, so that no symbolic
 * link is followed and no path is too long. What is no directory on the way
 * means that nothing stands at the path. A file is read to its end: the size
 * that was looked up is only what the caller expects.
 */
#include "exchange/side_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/io.h"
#include "object/format.h"
#include "object/xset.h"

enum {
	XATTR_LIST_BYTES = 1 << 16,
	PROC_PATH_BYTES = 32,
};

static int fold_error(int err)
{
	return err == ENOTDIR || err == ELOOP ? -ENOENT : -err;
}

static int open_name(int dir, const char *name, size_t n, int *ret_fd)
{
	char buf[NAME_MAX + 1];
	int fd;

	if (n > NAME_MAX)
		return -ENOENT;
	memcpy(buf, name, n);
	buf[n] = '\0';
	fd = openat(dir, buf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fold_error(errno);
	*ret_fd = fd;
	return 0;
}

/* Opens the directory that is the first len bytes of a path. */
static int open_dir(struct side *s, const char *path, size_t len)
{
	size_t at = 0;
	int fd = s->root, r = 0;

	if (side_is_open(s, path, len))
		return 0;
	s->has_dir = false;
	while (r == 0 && at < len) {
		const size_t n = strcspn(path + at, "/");
		int next = -1;

		r = open_name(fd, path + at, n, &next);
		if (fd != s->root)
			(void)close(fd);
		fd = next;
		at += n + 1;
	}
	if (s->dir >= 0)
		(void)close(s->dir);
	s->dir = fd != s->root ? fd : -1;
	return r < 0 ? r : side_opened(s, path, len);
}

static int dir_of(const struct side *s)
{
	return s->dir >= 0 ? s->dir : s->root;
}

/* Finds the directory and the name that openat and its like want; of the root
 * that is itself and ".". */
static int locate(struct side *s, const char *path, const char **ret_name)
{
	const size_t len = side_split(path, ret_name);

	if (!*path)
		*ret_name = ".";
	return open_dir(s, path, len);
}

int side_mount_look(struct side *s, const char *path,
		    struct side_node *ret_node)
{
	const char *name;
	struct stat st;
	int r = locate(s, path, &name);

	if (r < 0)
		return r;
	if (fstatat(dir_of(s), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fold_error(errno);
	*ret_node = (struct side_node){
		.mode = st.st_mode,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.rdev = S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? st.st_rdev
								   : 0,
		.size = S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)
				? (uint64_t)st.st_size
				: 0,
		.mtime_sec = st.st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)st.st_mtim.tv_nsec,
	};
	return 0;
}

int side_mount_is_empty(struct side *s, const char *path)
{
	const struct dirent *e;
	const char *name;
	DIR *names;
	int r = locate(s, path, &name);

	if (r == 0)
		r = io_open_names(dir_of(s), name, O_NOFOLLOW, &names);
	if (r != 0)
		return r;
	do {
		e = readdir(names);
	} while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
	r = !e;
	(void)closedir(names);
	return r;
}

/* --- content ------------------------------------------------------------- */

static int read_file(int fd, content_bytes_fn fn, void *ctx)
{
	_cleanup_free_ uint8_t *piece = malloc(FORMAT_CHUNK_BYTES);
	ssize_t n;

	if (!piece)
		return -ENOMEM;
	while ((n = io_read(fd, piece, FORMAT_CHUNK_BYTES)) > 0) {
		int r = fn(ctx, piece, (size_t)n);

		if (r < 0)
			return r;
	}
	return (int)n;
}

static int read_link(const struct side *s, const char *name, content_bytes_fn fn,
		     void *ctx)
{
	char target[FORMAT_MAX_TARGET + 2];
	ssize_t n = readlinkat(dir_of(s), name, target, sizeof target);

	if (n < 0)
		return errno == EINVAL ? -ESTALE : -errno;
	return fn(ctx, target, (size_t)n);
}

int side_mount_open(struct side *s, const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	const char *name;
	struct stat st;
	int r = locate(s, path, &name);

	if (r < 0)
		return r;
	/* a fifo in its place must not make us wait */
	fd = openat(dir_of(s), name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? -ESTALE : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ESTALE;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int side_mount_read(struct side *s, const struct side_node *node,
		    const char *path, content_bytes_fn fn, void *ctx)
{
	_cleanup_close_ int fd = -1;
	const char *name;
	int r;

	if (S_ISLNK(node->mode)) {
		r = locate(s, path, &name);
		return r < 0 ? r : read_link(s, name, fn, ctx);
	}
	r = side_mount_open(s, path, &fd);
	return r < 0 ? r : read_file(fd, fn, ctx);
}

/* --- extended attributes ------------------------------------------------- */

/* As an import keeps them: of the system's own only access control lists. */
static bool is_kept(const char *name)
{
	return strncmp(name, "system.", 7) != 0 ||
	       !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

/* Appends the value of an attribute. -ENODATA: it is gone. */
static int get_value(const char *proc, const char *name, struct buf *values,
		     size_t *ret_len)
{
	const size_t at = values->len;
	ssize_t n;
	int r = buf_resize(values, at + FORMAT_MAX_XATTR_VALUE);

	if (r < 0)
		return r;
	n = getxattr(proc, name, values->data + at, FORMAT_MAX_XATTR_VALUE);
	values->len = at + (n > 0 ? (size_t)n : 0);
	if (n < 0)
		return -errno;
	*ret_len = (size_t)n;
	return 0;
}

static int put_pairs(const char *proc, const char *names, size_t len,
		     struct buf *out)
{
	_cleanup_free_ struct xset_pair *pairs = NULL;
	_cleanup_buf_ struct buf values = {0};
	uint32_t count = 0;
	size_t value_at = 0;

	/* a name and its NUL are two bytes or more */
	pairs = calloc(len / 2 + 1, sizeof *pairs);
	if (!pairs)
		return -ENOMEM;
	for (size_t at = 0; at < len; at += strlen(names + at) + 1) {
		struct xset_pair *p = &pairs[count];
		int r;

		if (!is_kept(names + at))
			continue;
		p->name = names + at;
		p->name_len = strlen(p->name);
		r = get_value(proc, p->name, &values, &p->value_len);
		if (r < 0 && r != -ENODATA)
			return r;
		count += r == 0;
	}
	/* only now the values no longer move */
	for (uint32_t i = 0; i < count; i++) {
		pairs[i].value = values.data + value_at;
		value_at += pairs[i].value_len;
	}
	return count ? xset_encode(pairs, count, out) : 0;
}

int side_mount_xattrs(struct side *s, const char *path, struct buf *out)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_BYTES + 1);
	_cleanup_close_ int fd = -1;
	char proc[PROC_PATH_BYTES];
	const char *name;
	ssize_t n;
	int r = names ? locate(s, path, &name) : -ENOMEM;

	if (r < 0)
		return r;
	/* of a link itself, too: /proc leads to what the descriptor is */
	fd = openat(dir_of(s), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	n = listxattr(proc, names, XATTR_LIST_BYTES);
	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	names[n] = '\0';
	return n ? put_pairs(proc, names, (size_t)n, out) : 0;
}
