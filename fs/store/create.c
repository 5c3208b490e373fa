/* SPDX-License-Identifier: MIT */
/*
 * How a store comes to be. It is built in a directory beside its place and
 * renamed there, so that a store that can be seen is a whole one; rename also
 * takes the place of an empty directory and decides a race of two creators.
 * The file `format` is written last: a directory without it is no store.
 *
 * A directory that cannot be renamed over (a mount point, say a volume of a
 * container, or one below a parent that we may not write) is filled in place
 * instead, again with `format` last. Each step of that may find its work done
 * already, so an interrupted or concurrent creation is simply gone on with.
 *
 * The format file is text, for people: its first line names the version and
 * its last one a checksum of the lines before; both for ever.
 */
#include "store/store_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"

enum {
	FORMAT_FILE_MAX = 4096,
	BUILD_TRIES = 16,
};
#define FORMAT_CHECKSUM_SEED 0x5443574d524f46 /* any number; never change */

/* --- the format file ---------------------------------------------------- */

void store_seal_int(struct buf *text)
{
	buf_printf(text, "checksum %016" PRIx64 "\n",
		   oid_checksum(text->data, text->len, FORMAT_CHECKSUM_SEED));
}

void store_format_int(struct buf *out)
{
	buf_printf(out, "cowfs store %d\nhash %d\nchunk %d\n", FORMAT_VERSION,
		   FORMAT_HASH_XXH3, FORMAT_CHUNK_SHIFT);
	store_seal_int(out);
}

bool store_is_sealed_int(struct buf *text)
{
	static const char key[] = "\nchecksum ";
	const char *s = buf_str(text);
	const char *last = NULL;
	char want[40];
	size_t n;

	if (!s)
		return false;
	for (const char *p = s; (p = strstr(p, key)); p++)
		last = p;
	if (!last)
		return false;
	n = (size_t)(last + 1 - s);
	(void)snprintf(want, sizeof want, "checksum %016" PRIx64 "\n",
		       oid_checksum(s, n, FORMAT_CHECKSUM_SEED));
	return strlen(s) == text->len && strcmp(last + 1, want) == 0;
}

/* Returns the version of a whole format file, 0 of a damaged one. */
static unsigned long sealed_version(struct buf *text)
{
	static const char key[] = "cowfs store ";
	const char *s = buf_str(text);

	if (!s || !store_is_sealed_int(text) ||
	    strncmp(s, key, strlen(key)) != 0)
		return 0;
	return strtoul(s + strlen(key), NULL, 10);
}

int store_check_format_int(int fd, const char *path, struct diag *diag)
{
	_cleanup_buf_ struct buf text = {0};
	_cleanup_buf_ struct buf want = {0};
	unsigned long version;
	int r = io_read_file(fd, "format", FORMAT_FILE_MAX, &text);

	if (r == -EFBIG || r == -EFSCORRUPTED)
		r = -EFSBADCRC;
	if (r < 0 && r != -EFSBADCRC)
		return r;
	version = r < 0 ? 0 : sealed_version(&text);
	if (version == 0)
		return diag_fail(diag, -EFSBADCRC,
				 "%s/format is damaged: it does not fit its "
				 "checksum",
				 path);
	if (version != FORMAT_VERSION)
		return diag_fail(
			diag, -EPROTONOSUPPORT,
			"the store %s has format %lu, this cowfs knows "
			"%d: use a newer cowfs",
			path, version, FORMAT_VERSION);
	store_format_int(&want);
	r = buf_error(&want);
	if (r < 0)
		return r;
	if (want.len != text.len || memcmp(want.data, text.data, want.len) != 0)
		return diag_fail(diag, -EPROTONOSUPPORT,
				 "the store %s has a hash or chunk size that "
				 "this cowfs does not know",
				 path);
	return 0;
}

/* --- what is there ------------------------------------------------------ */

/* Names that creation makes before `format`, its temporary file, and what a
 * fresh file system has. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {
		".",	  "..",	  "index", "index.clean", "segments",
		"copies", "envs", "trash", "lock",	  "lost+found",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, ".tmp-", 5) == 0; /* of io_write_file */
}

int store_is_vacant_int(int fd)
{
	const struct dirent *e;
	DIR *d;
	int r = io_open_names(fd, ".", 0, &d);
	int vacant = 1;

	if (r < 0)
		return r;
	while (vacant && (e = readdir(d)))
		vacant = is_ours(e->d_name);
	(void)closedir(d);
	return vacant;
}

/* --- building ----------------------------------------------------------- */

static int make_dir(int fd, const char *name)
{
	if (mkdirat(fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int make_lock(int fd)
{
	_cleanup_close_ int lock = openat(
		fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return lock < 0 ? -errno : 0;
}

/* Fills a directory; whatever is there already is kept. */
static int build(int fd, const char *path)
{
	static const char *const dirs[] = {"index", "segments", "copies",
					   "envs", "trash"};
	_cleanup_buf_ struct buf text = {0};
	_cleanup_buf_ struct buf dir = {0};
	struct index *x = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = make_dir(fd, dirs[i]);
	if (r == 0)
		r = make_lock(fd);
	if (r < 0)
		return r;
	buf_printf(&dir, "%s/index", path);
	store_format_int(&text);
	r = buf_str(&dir) ? buf_error(&text) : -ENOMEM;
	if (r == 0)
		r = index_open(buf_str(&dir), INDEX_MAKE, &x);
	if (r < 0)
		return r;
	index_close(x);
	/* The tables' commit was synced, the names of LMDB's files were not. */
	{
		_cleanup_close_ int sub =
			openat(fd, "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		r = sub < 0 ? -errno : io_sync_dir(sub);
	}
	/* Syncs the directory too. */
	return r < 0 ? r
		     : io_write_file(fd, "format", text.data, text.len, true);
}

/* Makes the directories above path, as mkdir -p. */
static int make_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		int err = 0;
		bool missing;

		*p = '\0';
		if (mkdir(path, 0755) < 0)
			err = errno;
		missing = err && access(path, F_OK) < 0 && errno == ENOENT;
		*p = '/';
		if (err == 0 || err == EEXIST)
			continue;
		/* A parent that may not be written may still hold the rest. */
		if (missing || (err != EACCES && err != EROFS && err != EPERM))
			return -err;
	}
	return 0;
}

/* Splits a path without a trailing slash into directory and name. */
static struct buf directory_of(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	struct buf dir = {0};

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		buf_put(&dir, ".", 1);
	else
		buf_put(&dir, path, (size_t)(slash - path) + 1);
	return dir;
}

static int open_dir(int dirfd, const char *name)
{
	const int fd = openat(dirfd, name,
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

/* Removes an unfinished store, unless its creator lives: that one has a lock
 * on it. One that was made this moment and is not locked yet is empty, and its
 * creator fails as if the place were taken. */
static void sweep_one(int dirfd, const char *name)
{
	_cleanup_close_ int fd = open_dir(dirfd, name);

	if (fd >= 0 && io_lock(fd, LOCK_EX | LOCK_NB) == 0) {
		/* What cannot be removed now is tried again next time. */
		_unused_ const int ignored = io_remove_tree(dirfd, name);
	}
}

/* Removes what killed creators of the same place have left beside it. */
static void sweep_beside(const char *path)
{
	const char *base;
	_cleanup_buf_ struct buf parent = directory_of(path, &base);
	const size_t n = strlen(base);
	const struct dirent *e;
	DIR *d = buf_str(&parent) ? opendir(buf_str(&parent)) : NULL;

	if (!d)
		return;
	while ((e = readdir(d))) {
		const char *rest = e->d_name + n;

		if (strncmp(e->d_name, base, n) == 0 &&
		    strncmp(rest, ".new-", 5) == 0 && strlen(rest) == 5 + 16 &&
		    strspn(rest + 5, "0123456789abcdef") == 16)
			sweep_one(dirfd(d), e->d_name);
	}
	(void)closedir(d);
}

static int build_beside(const char *path, const char *temp)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdir(temp, 0700) < 0)
		return -errno;
	fd = open_dir(AT_FDCWD, temp);
	r = fd < 0 ? fd : 0;
	if (r == 0) {
		r = io_lock(fd, LOCK_EX | LOCK_NB);
		/* -EBUSY is what a rename says of a mount point */
		r = r == -EBUSY ? -EAGAIN : r;
	}
	if (r == 0)
		r = build(fd, temp);
	if (r == 0 && rename(temp, path) < 0)
		r = -errno;
	if (r < 0) {
		/* The error that matters is the first one. */
		_unused_ const int ignored = io_remove_tree(AT_FDCWD, temp);
	}
	return r;
}

/* Takes the right to write there from others; from the owner it is not ours to
 * take. */
static void close_to_others(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_mode & (S_IWGRP | S_IWOTH))
		(void)fchmod(fd, st.st_mode & 07777 & ~(S_IWGRP | S_IWOTH));
}

static int build_in_place(const char *path, struct diag *diag)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = store_is_vacant_int(fd);
	if (r < 0)
		return r;
	if (r == 0)
		return -ENOTEMPTY;
	close_to_others(fd);
	r = store_check_owner_int(fd, path, diag);
	return r < 0 ? r : build(fd, path);
}

/* Makes the rename durable: syncs the directory that path is in. */
static int sync_parent(const char *path)
{
	const char *base;
	_cleanup_buf_ struct buf parent = directory_of(path, &base);
	_cleanup_close_ int fd = -1;

	if (!buf_str(&parent))
		return -ENOMEM;
	fd = open(buf_str(&parent), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : io_sync_dir(fd);
}

/* Builds under a name that no other creator has. */
static int build_and_rename(const char *path)
{
	int r = -EAGAIN;

	/* A sweeper may take a directory away before its creator has locked
	 * it: then another try. */
	for (int i = 0; (r == -EAGAIN || r == -ENOENT) && i < BUILD_TRIES;
	     i++) {
		_cleanup_buf_ struct buf temp = {0};
		uint64_t random = 0;

		if (getrandom(&random, sizeof random, 0) < 0)
			return -errno;
		buf_printf(&temp, "%s.new-%016" PRIx64, path, random);
		if (!buf_str(&temp))
			return -ENOMEM;
		r = build_beside(path, buf_str(&temp));
	}
	return r;
}

int store_create_int(const char *path, struct diag *diag)
{
	_cleanup_free_ char *copy = strdup(path);
	int r;

	if (!copy)
		return -ENOMEM;
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	r = make_parents(copy);
	if (r < 0)
		return r;
	sweep_beside(copy);
	r = build_and_rename(copy);
	if (r == 0)
		return sync_parent(copy);
	if (r == -EBUSY || r == -EACCES || r == -EPERM || r == -EROFS ||
	    r == -ENOTEMPTY || r == -EEXIST) {
		const int r2 = build_in_place(copy, diag);

		/* The place does not exist: then the first error is the one. */
		r = r2 == -ENOENT ? r : r2;
	}
	if (r == -ENOTDIR)
		return diag_fail(diag, r, "%s is not a directory", path);
	if (r == -ENOENT) /* in /proc, say */
		return diag_fail(diag, r, "no store can be made at %s", path);
	return r;
}
