/* SPDX-License-Identifier: MIT */
/*
 * reply_int.h - the answers, and the proof that each request gets one.
 *
 * An operation starts with op_begin and ends with exactly one reply_*. Each
 * takes the result of the call into fs/env, so an operation needs no branch
 * for its failure: a negative result is answered as an error, whatever else
 * was handed over.
 *
 * Contract
 *   Ownership   data is copied to the kernel before the call returns
 *   Threads     the session's
 */
#ifndef COWFS_FUSE_REPLY_INT_H
#define COWFS_FUSE_REPLY_INT_H

#include "env/env.h"
#include "fuse/session_int.h"

#include <sys/statvfs.h>

/* Returns the session; from here a reply is owed. */
struct session *op_begin(fuse_req_t req);

void reply_status(fuse_req_t req, int err);
/* Answers a FORGET, which has no answer. */
/* The operation will be answered by reply_synced, by whatever thread. */
void reply_later(fuse_req_t req);
void reply_synced(fuse_req_t req, int err);
void reply_none(fuse_req_t req);
/* -ENOENT becomes a negative entry, which the kernel may cache. */
void reply_lookup(fuse_req_t req, int err, const struct env_attr *attr);
void reply_entry(fuse_req_t req, int err, const struct env_attr *attr);
/* As reply_entry, with an open file. Returns false if the kernel did not take
 * it, so that nobody will ever forget the inode. */
bool reply_create(fuse_req_t req, int err, const struct env_attr *attr,
		  struct fuse_file_info *fi);
void reply_attr(fuse_req_t req, int err, const struct env_attr *attr);
void reply_data(fuse_req_t req, const void *data, ssize_t n);
void reply_link_target(fuse_req_t req, int err, const char *target);
void reply_written(fuse_req_t req, ssize_t n);
void reply_xattr_size(fuse_req_t req, ssize_t n);
void reply_offset(fuse_req_t req, int err, uint64_t offset);
void reply_statfs(fuse_req_t req, int err, const struct statvfs *st);
/* Answers the request in s->head, which libfuse does not know. */
void reply_statx(struct session *s, int err, const struct env_attr *attr);

/* Says whether the mode has bits that a write takes away. */
bool reply_mode_may_go(uint32_t mode);
/* Fills what the kernel keeps of an inode. */
void entry_from_attr(const struct env_attr *attr, struct fuse_entry_param *ret);

#endif
