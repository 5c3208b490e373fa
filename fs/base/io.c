/* SPDX-License-Identifier: MIT */
/*
 * How: loops around the system calls, since each may do less than asked or be
 * interrupted. io_write_file writes a temporary file, syncs it, renames it and
 * syncs the directory, in this order: after a crash the name has the old
 * content or the new one, never a part.
 *
 * Removing trees is long enough for a file of its own: io_remove.c.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/err.h"

enum {
	IO_READ_STEP = 1 << 16,
	IO_TEMP_TRIES = 100, /* leftovers of a dead process of our pid */
};

ssize_t io_read(int fd, void *data, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = read(fd, (char *)data + done, n - done);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		done += (size_t)k;
	}
	return (ssize_t)done;
}

ssize_t io_pread(int fd, void *data, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = pread(fd, (char *)data + done, n - done,
				  (off_t)(offset + done));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		done += (size_t)k;
	}
	return (ssize_t)done;
}

int io_write(int fd, const void *data, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = write(fd, (const char *)data + done, n - done);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			return -EIO; /* no progress and no reason: no loop */
		done += (size_t)k;
	}
	return 0;
}

int io_pwrite(int fd, const void *data, size_t n, uint64_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t k = pwrite(fd, (const char *)data + done, n - done,
				   (off_t)(offset + done));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			return -EIO;
		done += (size_t)k;
	}
	return 0;
}

/* Appends all of fd to out. st_size is not asked: files of /proc and files
 * that grow meanwhile have none that can be trusted. */
static int read_all(int fd, size_t max, struct buf *out)
{
	size_t start = out->len;

	for (;;) {
		size_t left = max - (out->len - start);
		size_t step = MIN(left, (size_t)IO_READ_STEP - 1) + 1;
		ssize_t k;
		int r = buf_reserve(out, step);

		if (r < 0)
			return r;
		k = io_read(fd, out->data + out->len, step);
		if (k < 0)
			return (int)k;
		if ((size_t)k > left)
			return -EFBIG;
		out->len += (size_t)k;
		if ((size_t)k < step)
			return 0;
	}
}

/* A FIFO would wait for its other end, but for O_NONBLOCK, which files do not
 * mind. */
static int open_regular(int dirfd, const char *name, int flags)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, flags | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == EISDIR || errno == ENXIO
			       ? -EFSCORRUPTED
			       : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EFSCORRUPTED;
}

int io_open_file(int dirfd, const char *name, int flags)
{
	return open_regular(dirfd, name, flags | O_NOFOLLOW);
}

int io_open_beneath(int dirfd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long fd;

	do {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	if (fd >= 0)
		return (int)fd;
	/* Where a filter does not know the call: a single name is the same, but
	 * for O_PATH, which would open the link itself. */
	if (errno != ENOSYS || flags & O_PATH || strchr(path, '/'))
		return -errno;
	fd = openat(dirfd, path, flags | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int io_read_file(int dirfd, const char *name, size_t max, struct buf *out)
{
	_cleanup_close_ int fd = open_regular(dirfd, name, O_RDONLY);
	size_t start = out->len;
	int r;

	if (fd < 0)
		return fd;
	r = read_all(fd, max, out);
	if (r < 0)
		out->len = start;
	return r;
}

static int open_temp(int dirfd, char *ret_name, size_t size)
{
	static atomic_uint counter;

	for (int i = 0; i < IO_TEMP_TRIES; i++) {
		int fd;

		(void)snprintf(ret_name, size, ".tmp-%ld-%u", (long)getpid(),
			       atomic_fetch_add(&counter, 1));
		fd = openat(dirfd, ret_name,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : -errno;
	}
	return -EEXIST;
}

static int fill_temp(int fd, const void *data, size_t n, bool sync)
{
	int r = io_write(fd, data, n);

	if (r < 0)
		return r;
	/* The umask may have taken bits of the owner. */
	if (fchmod(fd, 0600) < 0)
		return -errno;
	return sync ? io_sync(fd) : 0;
}

/* The same for a name without '/' below a real descriptor. */
static int write_here(int dirfd, const char *name, const void *data, size_t n,
		      bool sync)
{
	_cleanup_close_ int fd = -1;
	char temp[64];
	int r;

	fd = open_temp(dirfd, temp, sizeof temp);
	if (fd < 0)
		return fd;
	r = fill_temp(fd, data, n, sync);
	/* Some file systems tell of a failed write only here. */
	if (close(TAKE_FD(fd)) < 0 && r == 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dirfd, temp, 0);
		return r;
	}
	return sync ? io_sync_dir(dirfd) : 0;
}

int io_truncate(int fd, uint64_t size)
{
	int r;

	do {
		r = ftruncate(fd, (off_t)size);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int io_allocate(int fd, int mode, uint64_t offset, uint64_t n)
{
	int r;

	do {
		r = fallocate(fd, mode, (off_t)offset, (off_t)n);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int io_sync_data(int fd)
{
	int r;

	do {
		r = fdatasync(fd);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int io_sync(int fd)
{
	int r;

	do {
		r = fsync(fd);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int io_lock(int fd, int op)
{
	int r;

	do {
		r = flock(fd, op);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

/* The temporary file must be in the directory of the name, which then is the
 * one to sync. */
int io_write_file(int dirfd, const char *name, const void *data, size_t n,
		  bool sync)
{
	const char *slash = strrchr(name, '/');
	_cleanup_free_ char *parent = NULL;
	_cleanup_close_ int fd = -1;

	if (!slash && dirfd != AT_FDCWD)
		return write_here(dirfd, name, data, n, sync);
	if (slash)
		parent = strndup(name, (size_t)(slash - name) + 1);
	else
		parent = strdup(".");
	if (!parent)
		return -ENOMEM;
	fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write_here(fd, slash ? slash + 1 : name, data, n, sync);
}

int io_sync_dir(int dirfd)
{
	return io_sync(dirfd);
}

int io_open_dir(int dirfd, const char *name, mode_t create_mode)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int fd = openat(dirfd, name, flags);

	if (fd >= 0 || errno != ENOENT)
		return fd >= 0 ? fd : -errno;
	/* Somebody else may make it at the same moment: just as well. */
	if (mkdirat(dirfd, name, create_mode) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dirfd, name, flags);
	return fd >= 0 ? fd : -errno;
}

int io_open_names(int dirfd, const char *name, int flags, DIR **ret_dir)
{
	_cleanup_close_ int fd = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

	*ret_dir = fd < 0 ? NULL : fdopendir(fd);
	if (!*ret_dir)
		return -errno;
	(void)TAKE_FD(fd);
	return 0;
}

int io_temp_dir(const char *name, char *ret_path, size_t size)
{
	const char *top = getenv("TMPDIR");
	int n = snprintf(ret_path, size, "%s/cowfs-%s-XXXXXX",
			 top && *top ? top : "/tmp", name);
	int r = n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;

	if (r == 0 && !mkdtemp(ret_path))
		r = -errno;
	if (r < 0)
		ret_path[0] = '\0';
	return r;
}
