/* SPDX-License-Identifier: MIT */
/*
 * ops_int.h - the operations: unpack, call fs/env, reply.
 *
 * Doors translate and never decide: what an operation means is fs/env's.
 *
 * Contract
 *   Threads     the one of the session that reads; session_sync any
 */
#ifndef COWFS_FUSE_OPS_INT_H
#define COWFS_FUSE_OPS_INT_H

#include "fuse/reply_int.h"
#include "fuse/session_int.h"

/* STATX as the protocol numbers it; older kernel headers lack the name. */
enum { OP_STATX = 52 };

extern const struct fuse_lowlevel_ops ops_table;

/* Sends an attribute-only invalidation and says whether the kernel answered
 * that it does not know the inode. */
bool notify_finds_nothing(struct session *s, uint64_t ino);

/* fsync.c */
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *fi);
/* Commits for those that wait, and answers them, until nobody waits. */
void session_sync(struct session *s);

/* ops_dir.c */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t rdev);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned flags);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi);

/* ops_file.c */
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode,
		struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
	     struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t off, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
		  off_t len, struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
	      struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t in, off_t in_off,
			struct fuse_file_info *in_fi, fuse_ino_t out,
			off_t out_off, struct fuse_file_info *out_fi,
			size_t len, int flags);
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
	      struct fuse_file_info *fi, unsigned flags, const void *in,
	      size_t in_size, size_t out_size);

/* ops_meta.c */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi);
void op_statfs(fuse_req_t req, fuse_ino_t ino);
/* Clears setuid and setgid before a change by one who is neither the file's
 * owner nor root; for requests that do not say so themselves. */
_must_check_ int op_strip_for_stranger(fuse_req_t req, fuse_ino_t ino);
/* Not libfuse's: called by the receive loop for the request in s->head. */
void op_statx(struct session *s);

/* ops_xattr.c */
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
