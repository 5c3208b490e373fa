/* SPDX-License-Identifier: MIT */
/*
 * cutdisk.c - a disk that remembers: cutdisk SIZE IMAGE LOG MOUNTPOINT
 *
 * A FUSE server with a single file `disk`, for a loop device. Each write, each
 * discard and each flush is appended to LOG before it is answered, data
 * included; replay.py makes of the log what a disk may hold when its power
 * goes. So the length of LOG is a clock: whoever reads it after an fsync has
 * returned knows that the flush stands before that length.
 *
 * One thread and direct I/O: the order in the log is the order in which the
 * disk took the requests, and no page cache stands between the loop device and
 * us. A flush covers what was answered before it; what the loop device has
 * under way at that time stands behind it in the log, as it should.
 *
 * The file system on the disk must be unmounted and the loop device gone
 * before this server ends: it lives until it is unmounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

enum { DISK_INO = 2, READ_MAX = 1 << 20 };

#define DISK_NAME "disk"
#define FOREVER	  1e9

/* One record of the log; of a write, len bytes follow. */
struct record {
	char kind[4]; /* "WRIT", "ZERO", "FLSH" */
	uint32_t len;
	uint64_t offset;
};

static int image = -1, log_fd = -1;
static uint64_t disk_size;

static int put(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t got = write(fd, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

static int note(const char *kind, uint64_t offset, size_t len, const void *data)
{
	struct record rec = {.len = (uint32_t)len, .offset = offset};
	int r;

	memcpy(rec.kind, kind, sizeof rec.kind);
	r = put(log_fd, &rec, sizeof rec);
	return r < 0 || !data ? r : put(log_fd, data, len);
}

static bool in_disk(off_t offset, size_t len)
{
	return offset >= 0 && (uint64_t)offset <= disk_size &&
	       len <= disk_size - (uint64_t)offset;
}

static void fill(fuse_ino_t ino, struct stat *st)
{
	*st = (struct stat){.st_ino = ino, .st_nlink = 1};
	if (ino == FUSE_ROOT_ID) {
		st->st_mode = S_IFDIR | 0755;
	} else {
		st->st_mode = S_IFREG | 0600;
		st->st_size = (off_t)disk_size;
	}
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {
		.ino = DISK_INO,
		.attr_timeout = FOREVER,
		.entry_timeout = FOREVER,
	};

	if (parent != FUSE_ROOT_ID || strcmp(name, DISK_NAME) != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill(DISK_INO, &e.attr);
	fuse_reply_entry(req, &e);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct stat st;

	fill(ino, &st);
	fuse_reply_attr(req, &st, FOREVER);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (ino != DISK_INO) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	static char data[READ_MAX];
	ssize_t n;

	if (size > sizeof data)
		size = sizeof data;
	if (!in_disk(offset, size))
		size = in_disk(offset, 0) ? disk_size - (uint64_t)offset : 0;
	n = pread(image, data, size, offset);
	if (n < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, data, (size_t)n);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data,
		     size_t size, off_t offset, struct fuse_file_info *fi)
{
	int r;

	if (!in_disk(offset, size)) {
		fuse_reply_err(req, ENOSPC);
		return;
	}
	r = note("WRIT", (uint64_t)offset, size, data);
	if (r >= 0 && pwrite(image, data, size, offset) != (ssize_t)size)
		r = -EIO;
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_write(req, size);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	fuse_reply_err(req, -note("FLSH", 0, 0, NULL));
}

/* The loop device discards and writes zeros by punching holes. */
static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
			 off_t length, struct fuse_file_info *fi)
{
	int zero = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	int r = 0;

	if (mode != zero || length > UINT32_MAX ||
	    !in_disk(offset, (size_t)length)) {
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	r = note("ZERO", (uint64_t)offset, (size_t)length, NULL);
	if (r >= 0 && fallocate(image, mode, offset, length) < 0)
		r = -errno;
	fuse_reply_err(req, -r);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = op_lookup,
	.getattr = op_getattr,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
};

static int serve(const char *program, const char *point)
{
	char *argv[] = {(char *)program, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *se =
		fuse_session_new(&args, &ops, sizeof ops, NULL);
	int r = 1;

	if (se && fuse_session_mount(se, point) == 0) {
		(void)printf("ready\n");
		(void)fflush(stdout);
		r = fuse_session_loop(se) < 0;
		fuse_session_unmount(se);
	}
	if (se)
		fuse_session_destroy(se);
	fuse_opt_free_args(&args);
	return r;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		(void)fprintf(stderr, "usage: cutdisk SIZE IMAGE LOG DIR\n");
		return 2;
	}
	disk_size = strtoull(argv[1], NULL, 10);
	image = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	log_fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (image < 0 || log_fd < 0 || ftruncate(image, (off_t)disk_size) < 0) {
		perror("cutdisk");
		return 1;
	}
	return serve(argv[0], argv[4]);
}
