/* SPDX-License-Identifier: MIT */
/*
 * How: content by inode number; there are no handles, for opens send no
 * message. A READ is built in the session's buffer, a WRITE is taken from the
 * receive buffer, so neither allocates.
 *
 * Whether a write clears setuid and setgid is the kernel's to say (it knows
 * the caller's capabilities) and arrives in a flag that libfuse does not hand
 * on; the receive loop has read it from the raw request.
 */
#include "fuse/ops_int.h"

#include <errno.h>

void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode,
		struct fuse_file_info *fi)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct session *s = op_begin(req);
	struct env_cred cred = {
		.uid = ctx->uid,
		.gid = ctx->gid,
		.umask = ctx->umask,
	};
	struct env_attr attr;
	int err;

	err = env_tmpfile(s->env, parent, mode, &cred, &attr);
	/* The kernel gave up waiting: it will never forget this one. */
	if (!reply_create(req, err, &attr, fi) &&
	    env_is_orphan(s->env, attr.ino))
		env_reap(s->env, attr.ino);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
	     struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);

	session_tick(&s->count.reads);
	reply_data(req, s->out,
		   env_read(s->env, ino, s->out, MIN(size, SESSION_MAX_IO),
			    (uint64_t)off));
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t off, struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	int err;

	session_tick(&s->count.writes);
	err = env_write(s->env, ino, data, size, (uint64_t)off,
			s->raw.kill_suidgid);
	reply_written(req, err < 0 ? err : (ssize_t)size);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
		  off_t len, struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	int err;

	err = op_strip_for_stranger(req, ino);
	if (err == 0)
		err = env_fallocate(s->env, ino, mode, (uint64_t)off,
				    (uint64_t)len);
	reply_status(req, err);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
	      struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	uint64_t found = 0;
	int err;

	err = env_seek(s->env, ino, (uint64_t)off, whence, &found);
	reply_offset(req, err, found);
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are libfuse's */
void op_copy_file_range(fuse_req_t req, fuse_ino_t in, off_t in_off,
			struct fuse_file_info *in_fi, fuse_ino_t out,
			off_t out_off, struct fuse_file_info *out_fi,
			size_t len, int flags)
{
	struct session *s = op_begin(req);
	ssize_t n;

	n = flags ? -EINVAL : op_strip_for_stranger(req, out);
	if (n == 0)
		n = env_copy_range(s->env, in, (uint64_t)in_off, out,
				   (uint64_t)out_off, len);
	reply_written(req, n);
}

/* There are none; libfuse's ENOSYS would reach isatty() and its like, which
 * expect ENOTTY of a file.
 * NOLINTNEXTLINE(readability-function-size): the parameters are libfuse's */
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
	      struct fuse_file_info *fi, unsigned flags, const void *in,
	      size_t in_size, size_t out_size)
{
	(void)op_begin(req);
	reply_status(req, -ENOTTY);
}
