/* SPDX-License-Identifier: MIT */
/*
 * db_reset.c - a directory of an environment becomes again what it is in the
 * snapshot.
 *
 * How: the snapshot is mounted beside it, as an environment of its own that is
 * gone a moment later, and the two directories are walked together. A file that
 * nothing has touched has the same number, size and times in both and is
 * passed; of the others only blocks that differ are written. So it costs what
 * has changed, not what the database has. Nothing follows a link.
 */
#include "cli/db.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

enum { BLOCK = 64 << 10 };

static int restore_dir(int from, int to);

/* --- one entry ----------------------------------------------------------- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_untouched(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) &&
	       same_time(&a->st_ctim, &b->st_ctim);
}

static int set_meta(int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchown(fd, st->st_uid, st->st_gid) < 0 ||
	    fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Writes the blocks that differ. */
static int copy_blocks(int from, int to, uint64_t size)
{
	_cleanup_free_ char *a = malloc(BLOCK), *b = malloc(BLOCK);

	if (!a || !b)
		return -ENOMEM;
	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(from, a, BLOCK, (off_t)at);
		ssize_t have;
		int r = 0;

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		have = pread(to, b, (size_t)n, (off_t)at);
		if (have != n || memcmp(a, b, (size_t)n) != 0)
			r = io_pwrite(to, a, (size_t)n, at);
		if (r < 0)
			return r;
		at += (uint64_t)n;
	}
	return io_truncate(to, size);
}

static int restore_file(int from, int to, const char *name,
			const struct stat *st)
{
	_cleanup_close_ int in =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int out = openat(
		to, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (in < 0 || out < 0)
		return -errno;
	r = copy_blocks(in, out, (uint64_t)st->st_size);
	return r ? r : set_meta(out, st);
}

static int restore_link(int from, int to, const char *name,
			const struct stat *st)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(from, name, text, sizeof text - 1);

	if (n < 0)
		return -errno;
	text[n] = 0;
	if ((unlinkat(to, name, 0) < 0 && errno != ENOENT) ||
	    symlinkat(text, to, name) < 0 ||
	    fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int restore_below(int from, int to, const char *name,
			 const struct stat *st)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_close_ int in = -1, out = -1;
	int r;

	if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	in = openat(from, name, flags);
	out = openat(to, name, flags);
	if (in < 0 || out < 0)
		return -errno;
	r = restore_dir(in, out);
	return r ? r : set_meta(out, st);
}

static int restore_entry(int from, int to, const char *name)
{
	struct stat want, have;
	bool there;

	if (fstatat(from, name, &want, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	there = fstatat(to, name, &have, AT_SYMLINK_NOFOLLOW) == 0;
	if (there && (want.st_mode & S_IFMT) != (have.st_mode & S_IFMT)) {
		int r = io_remove_tree(to, name);

		if (r < 0)
			return r;
		there = false;
	}
	if (S_ISDIR(want.st_mode))
		return restore_below(from, to, name, &want);
	if (there && is_untouched(&want, &have))
		return 0;
	if (S_ISREG(want.st_mode))
		return restore_file(from, to, name, &want);
	return S_ISLNK(want.st_mode) ? restore_link(from, to, name, &want) : 0;
}

/* --- directories --------------------------------------------------------- */

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static int list_names(int dir, struct buf *names)
{
	const struct dirent *e;
	DIR *d;
	int r = io_open_names(dir, ".", 0, &d);

	if (r < 0)
		return r;
	while ((e = readdir(d)))
		if (!is_dots(e->d_name))
			buf_put(names, e->d_name, strlen(e->d_name) + 1);
	(void)closedir(d);
	return buf_error(names) ? -ENOMEM : 0;
}

static int restore_dir(int from, int to)
{
	_cleanup_buf_ struct buf here = {0}, there = {0};
	int r = list_names(from, &there);
	struct stat st;

	if (!r)
		r = list_names(to, &here);
	for (size_t at = 0; !r && at < here.len;) {
		const char *name = (char *)here.data + at;

		if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = errno == ENOENT ? io_remove_tree(to, name) : -errno;
		at += strlen(name) + 1;
	}
	for (size_t at = 0; !r && at < there.len;) {
		const char *name = (char *)there.data + at;

		r = restore_entry(from, to, name);
		at += strlen(name) + 1;
	}
	return r;
}

/* --- the snapshot -------------------------------------------------------- */

static int restore_from(struct db *d, const char *base)
{
	_cleanup_buf_ struct buf path = {0};
	_cleanup_close_ int from = -1;
	struct stat st;
	int r;

	buf_printf(&path, "%s/%s", base, d->dir);
	if (!buf_str(&path))
		return call_fail_err(d->c, -ENOMEM, NULL, d->dir);
	from = open(buf_str(&path),
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0)
		return call_fail(d->c, CODE_FAILED,
				 "%s: is not in the snapshot: %s", d->dir,
				 err_text(errno));
	r = restore_dir(from, d->data);
	if (!r)
		r = set_meta(d->data, &st);
	return r ? call_fail_err(d->c, r, NULL, d->dir) : CODE_DONE;
}

int db_restore(struct db *d)
{
	struct remote_env base = {0};
	int code = run_env_mount(d->c, &d->fd, d->env.snapshot, NULL, &base);

	if (code)
		return code;
	code = restore_from(d, base.path);
	if (run_env_umount(d->c, base.name, NULL))
		return code;
	return call_fail(d->c, code ? code : CODE_FAILED,
			 "%s: does not go away", base.name);
}
