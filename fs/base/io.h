/* SPDX-License-Identifier: MIT */
/*
 * io.h - reading and writing whole extents of files, and durable names.
 *
 * Contract
 *   Ownership   descriptors stay the caller's
 *   Durability  only where a function says so
 *   Threads     any
 *   Errors      negative errno of the system call
 */
#ifndef COWFS_BASE_IO_H
#define COWFS_BASE_IO_H

#include "base/buf.h"

#include <dirent.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads until n bytes or end of file; returns the count. Retries EINTR. */
_must_check_ ssize_t io_read(int fd, void *data, size_t n);
_must_check_ ssize_t io_pread(int fd, void *data, size_t n, uint64_t offset);
/* Writes all n bytes or fails. */
_must_check_ int io_write(int fd, const void *data, size_t n);
_must_check_ int io_pwrite(int fd, const void *data, size_t n, uint64_t offset);

/* Opens a regular file, created with mode 0600 where flags say so; follows no
 * link in its last part. -EFSCORRUPTED: something else has that name. */
_must_check_ int io_open_file(int dirfd, const char *name, int flags);
/* Opens a path below a directory; no part of it may be a link (-ELOOP) or lead
 * out (-EXDEV), whoever changes names meanwhile. */
_must_check_ int io_open_beneath(int dirfd, const char *path, int flags);
/* Reads a whole small file, or what a link leads to. -EFSCORRUPTED: it is none;
 * -EFBIG: more than max bytes. */
_must_check_ int io_read_file(int dirfd, const char *name, size_t max,
			      struct buf *out);
/* Writes a file under a temporary name and renames it into place, mode 0600.
 * Durable when sync (file and directory are fsynced), else only atomic. */
_must_check_ int io_write_file(int dirfd, const char *name, const void *data,
			       size_t n, bool sync);
/* ftruncate, fallocate, fdatasync, fsync; they go on when a signal comes. */
_must_check_ int io_truncate(int fd, uint64_t size);
_must_check_ int io_allocate(int fd, int mode, uint64_t offset, uint64_t n);
_must_check_ int io_sync_data(int fd);
_must_check_ int io_sync(int fd);
/* flock; goes on when a signal comes. -EBUSY: op has LOCK_NB, and another has
 * the lock. */
_must_check_ int io_lock(int fd, int op);
/* Syncs a directory. */
_must_check_ int io_sync_dir(int dirfd);
/* Opens a directory (O_PATH not set), creating it with mode when missing. */
_must_check_ int io_open_dir(int dirfd, const char *name, mode_t create_mode);
/* Opens a directory to read its names, to be closed with closedir. flags: 0, or
 * O_NOFOLLOW. */
_must_check_ int io_open_names(int dirfd, const char *name, int flags,
			       DIR **ret_dir);
/* Makes a folder "cowfs-NAME-......" in $TMPDIR, or /tmp, for the caller to
 * remove. ret_path is "" on an error. */
_must_check_ int io_temp_dir(const char *name, char *ret_path, size_t size);
/* Removes a tree below dirfd/name without following links or crossing into
 * another file system. A name that does not exist is no error. */
_must_check_ int io_remove_tree(int dirfd, const char *name);

#endif
