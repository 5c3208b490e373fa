/* SPDX-License-Identifier: MIT */
/*
 * tarfile.c - an archive appears under its name whole, or not at all.
 *
 * It is written to a file without a name where the file system has such, so
 * that a command that is killed leaves nothing. It gets a temporary name when
 * it is whole and on the disk, and is renamed then: that replaces a file that
 * was there before, which no other call does.
 */
#include "cli/tarfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

enum { TRIES = 100 };

static int fail(const struct call *c, const char *name, int err)
{
	const bool usage = err == ENOENT || err == ENOTDIR || err == EISDIR ||
			   err == ENAMETOOLONG;

	return call_fail(c, usage ? CODE_USAGE : CODE_FAILED, "%s: %s",
			 *name ? name : "FILE", err_text(err));
}

int tarfile_read(const struct call *c, const char *name,
		 struct tarfile *ret_file)
{
	struct stat st;

	*ret_file = (struct tarfile){.fd = -1, .name = name, .dir = -1};
	if (!strcmp(name, "-")) {
		if (isatty(STDIN_FILENO))
			return call_fail(c, CODE_USAGE,
					 "--tar -: standard input is a "
					 "terminal");
		ret_file->fd = STDIN_FILENO;
		ret_file->is_lent = true;
		return CODE_DONE;
	}
	ret_file->fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (ret_file->fd < 0 || fstat(ret_file->fd, &st) < 0)
		return fail(c, name, errno);
	if (S_ISDIR(st.st_mode))
		return fail(c, name, EISDIR);
	(void)posix_fadvise(ret_file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return CODE_DONE;
}

/* --- writing ---------------------------------------------------------------
 */

/* Gives the file a name that nobody has. */
static int name_it(struct tarfile *f)
{
	char path[32];
	int r = -1;

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", f->fd);
	for (unsigned i = 0; i < TRIES && r < 0; i++) {
		free(f->place);
		if (asprintf(&f->place, ".cowfs-%d-%u", (int)getpid(), i) < 0) {
			f->place = NULL;
			return -ENOMEM;
		}
		r = linkat(AT_FDCWD, path, f->dir, f->place, AT_SYMLINK_FOLLOW);
		if (r < 0 && errno != EEXIST)
			break;
	}
	if (r == 0)
		return 0;
	r = -errno;
	free(TAKE_PTR(f->place));
	return r;
}

/* A file with a name from the beginning, where there are none without. */
static int make_named(struct tarfile *f)
{
	for (unsigned i = 0; i < TRIES; i++) {
		free(f->place);
		if (asprintf(&f->place, ".cowfs-%d-%u", (int)getpid(), i) < 0) {
			f->place = NULL;
			return -ENOMEM;
		}
		f->fd = openat(f->dir, f->place,
			       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (f->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	free(TAKE_PTR(f->place));
	return -errno;
}

static int make(struct tarfile *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

	f->base = strdup(slash ? slash + 1 : path);
	if (!dir || !f->base)
		return -ENOMEM;
	f->dir = open(*dir ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir < 0)
		return -errno;
	if (!*f->base)
		return -EISDIR;
	f->fd = openat(f->dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	if (f->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	return make_named(f);
}

static int begin(struct tarfile *f, const char *name)
{
	_cleanup_free_ char *real = realpath(name, NULL);
	struct stat st;

	if (!real || stat(real, &st) < 0)
		return make(f, name);
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (S_ISREG(st.st_mode)) /* a link stays one */
		return make(f, real);
	f->fd = open(real, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return f->fd < 0 ? -errno : 0;
}

int tarfile_begin(const struct call *c, const char *name,
		  struct tarfile *ret_file)
{
	int r;

	*ret_file = (struct tarfile){.fd = -1, .name = name, .dir = -1};
	if (!strcmp(name, "-")) {
		if (isatty(STDOUT_FILENO))
			return call_fail(c, CODE_USAGE,
					 "--tar -: standard output is a "
					 "terminal");
		ret_file->fd = STDOUT_FILENO;
		ret_file->is_lent = true;
		return CODE_DONE;
	}
	r = begin(ret_file, name);
	return r < 0 ? fail(c, name, -r) : CODE_DONE;
}

static int finish(struct tarfile *f)
{
	int r = io_sync(f->fd);

	if (r == 0 && !f->place)
		r = name_it(f);
	if (r < 0)
		return r;
	if (renameat(f->dir, f->place, f->dir, f->base) < 0)
		return -errno;
	free(TAKE_PTR(f->place));
	return io_sync_dir(f->dir);
}

int tarfile_finish(const struct call *c, struct tarfile *f)
{
	int r = f->dir >= 0 ? finish(f) : 0;

	return r < 0 ? call_fail(c, CODE_FAILED, "%s: %s", f->name, err_text(r))
		     : CODE_DONE;
}

void tarfile_fini(struct tarfile *f)
{
	if (f->place)
		(void)unlinkat(f->dir, f->place, 0);
	free(f->place);
	free(f->base);
	if (f->fd >= 0 && !f->is_lent)
		(void)close(f->fd);
	if (f->dir >= 0)
		(void)close(f->dir);
}
