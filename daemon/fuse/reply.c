/* SPDX-License-Identifier: MIT */
/*
 * How: op_begin counts a reply as owed, every reply_* pays one, and the
 * receive loop checks after each request that nothing is owed: a request
 * without an answer would hang its caller for ever, one with two would answer
 * a stranger's. An fsync is answered later (fsync.c): joining the list pays.
 *
 * The kernel may keep attributes and names, also names that do not exist, for
 * ever: nothing changes behind its back. But for setuid and setgid, which go
 * with a write without its knowing (ops_meta.c): those files it asks about each
 * time. Inode numbers are never used twice, so the generation is 0.
 *
 * An answer that the kernel does not take (it has given the request up, or the
 * connection has ended) is nobody's error.
 */
#include "fuse/reply_int.h"

#include "base/err.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

/* Seconds: thirty years, far from where jiffies overflow. */
#define FOR_EVER 1e9

struct session *op_begin(fuse_req_t req)
{
	struct session *s = fuse_req_userdata(req);

	s->owed++;
	return s;
}

static struct session *pay(struct session *s)
{
	assert(s->owed == 1);
	s->owed--;
	return s;
}

/* Returns the positive number to answer with. Damage is logged, once for each
 * inode in a row: a reader that tries again must not fill the log. */
static int errno_for_kernel(struct session *s, int err)
{
	bool damage = err == -EFSCORRUPTED || err == -EFSBADCRC;
	char hex[OID_HEX + 1] = "";
	struct oid id;

	if (!damage && err != -EIO)
		return -err;
	if (s->last_bad_ino != s->head->nodeid || s->last_bad_err != err) {
		if (env_take_bad(s->env, &id))
			oid_to_hex(&id, hex);
		log_error("inode %" PRIu64 ": request %" PRIu32 ": %s%s%s",
			  (uint64_t)s->head->nodeid, s->head->opcode,
			  err_text(err), hex[0] ? ": object " : "", hex);
		s->last_bad_ino = s->head->nodeid;
		s->last_bad_err = err;
	}
	return EIO;
}

void reply_status(fuse_req_t req, int err)
{
	struct session *s = pay(fuse_req_userdata(req));

	if (err == -EDQUOT && s->patient) {
		s->refused = true;
		fuse_reply_none(req);
		return;
	}
	(void)fuse_reply_err(req, err < 0 ? errno_for_kernel(s, err) : 0);
}

void reply_later(fuse_req_t req)
{
	(void)pay(fuse_req_userdata(req));
}

void reply_synced(fuse_req_t req, int err)
{
	if (err < 0)
		log_error("fsync: %s", err_text(err));
	(void)fuse_reply_err(req, err < 0 ? EIO : 0);
}

void reply_none(fuse_req_t req)
{
	(void)pay(fuse_req_userdata(req));
	fuse_reply_none(req);
}

bool reply_mode_may_go(uint32_t mode)
{
	return !S_ISDIR(mode) && (mode & (S_ISUID | S_ISGID));
}

static double attr_timeout(const struct env_attr *attr)
{
	return reply_mode_may_go(attr->mode) ? 0 : FOR_EVER;
}

static void stat_from_attr(const struct env_attr *attr, struct stat *ret_st)
{
	*ret_st = (struct stat){
		.st_ino = attr->ino,
		.st_mode = attr->mode,
		.st_nlink = attr->nlink,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_rdev = attr->rdev,
		.st_size = (off_t)attr->size,
		.st_blocks = (blkcnt_t)attr->blocks,
		.st_blksize = 4096,
		.st_atim = attr->atime,
		.st_mtim = attr->mtime,
		.st_ctim = attr->ctime,
	};
}

void entry_from_attr(const struct env_attr *attr, struct fuse_entry_param *ret)
{
	ret->ino = attr->ino;
	ret->generation = 0;
	ret->attr_timeout = attr_timeout(attr);
	ret->entry_timeout = FOR_EVER;
	stat_from_attr(attr, &ret->attr);
}

void reply_lookup(fuse_req_t req, int err, const struct env_attr *attr)
{
	static const struct fuse_entry_param none = {
		.entry_timeout = FOR_EVER,
	};

	if (err != -ENOENT) {
		reply_entry(req, err, attr);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_entry(req, &none);
}

void reply_entry(fuse_req_t req, int err, const struct env_attr *attr)
{
	struct fuse_entry_param e;

	if (err < 0) {
		reply_status(req, err);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	entry_from_attr(attr, &e);
	(void)fuse_reply_entry(req, &e);
}

bool reply_create(fuse_req_t req, int err, const struct env_attr *attr,
		  struct fuse_file_info *fi)
{
	struct fuse_entry_param e;

	if (err < 0) {
		reply_status(req, err);
		return true;
	}
	(void)pay(fuse_req_userdata(req));
	entry_from_attr(attr, &e);
	fi->keep_cache = 1;
	return fuse_reply_create(req, &e, fi) == 0;
}

void reply_attr(fuse_req_t req, int err, const struct env_attr *attr)
{
	struct stat st;

	if (err < 0) {
		reply_status(req, err);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	stat_from_attr(attr, &st);
	(void)fuse_reply_attr(req, &st, attr_timeout(attr));
}

void reply_data(fuse_req_t req, const void *data, ssize_t n)
{
	if (n < 0) {
		reply_status(req, (int)n);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_buf(req, data, (size_t)n);
}

void reply_link_target(fuse_req_t req, int err, const char *target)
{
	if (err < 0) {
		reply_status(req, err);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_readlink(req, target);
}

void reply_written(fuse_req_t req, ssize_t n)
{
	if (n < 0) {
		reply_status(req, (int)n);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_write(req, (size_t)n);
}

void reply_xattr_size(fuse_req_t req, ssize_t n)
{
	if (n < 0) {
		reply_status(req, (int)n);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_xattr(req, (size_t)n);
}

void reply_offset(fuse_req_t req, int err, uint64_t offset)
{
	if (err < 0) {
		reply_status(req, err);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_lseek(req, (off_t)offset);
}

void reply_statfs(fuse_req_t req, int err, const struct statvfs *st)
{
	if (err < 0) {
		reply_status(req, err);
		return;
	}
	(void)pay(fuse_req_userdata(req));
	(void)fuse_reply_statfs(req, st);
}

/* The protocol's answer to STATX; its last part is laid out as the system
 * call's struct statx. */
struct statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t flags;
	uint64_t spare[2];
	struct statx stat;
};

static struct statx_timestamp statx_time(struct timespec t)
{
	return (struct statx_timestamp){
		.tv_sec = t.tv_sec,
		.tv_nsec = (uint32_t)t.tv_nsec,
	};
}

static void statx_from_attr(const struct env_attr *attr, struct statx *ret_st)
{
	*ret_st = (struct statx){
		.stx_mask = STATX_BASIC_STATS | STATX_BTIME,
		.stx_blksize = 4096,
		.stx_nlink = attr->nlink,
		.stx_uid = attr->uid,
		.stx_gid = attr->gid,
		.stx_mode = (uint16_t)attr->mode,
		.stx_ino = attr->ino,
		.stx_size = attr->size,
		.stx_blocks = attr->blocks,
		.stx_atime = statx_time(attr->atime),
		.stx_btime = statx_time(attr->btime),
		.stx_ctime = statx_time(attr->ctime),
		.stx_mtime = statx_time(attr->mtime),
		.stx_rdev_major = major(attr->rdev),
		.stx_rdev_minor = minor(attr->rdev),
	};
}

void reply_statx(struct session *s, int err, const struct env_attr *attr)
{
	struct statx_out body = {0};
	struct fuse_out_header head = {.unique = s->head->unique};
	struct iovec iov[2] = {
		{.iov_base = &head, .iov_len = sizeof head},
		{.iov_base = &body, .iov_len = sizeof body},
	};

	_Static_assert(sizeof(struct statx_out) == 288, "the kernel's layout");
	(void)pay(s);
	head.len = sizeof head;
	if (err < 0) {
		head.error = -errno_for_kernel(s, err);
	} else {
		body.attr_valid = (uint64_t)attr_timeout(attr);
		statx_from_attr(attr, &body.stat);
		head.len += sizeof body;
	}
	if (writev(fuse_session_fd(s->se), iov, err < 0 ? 1 : 2) < 0)
		log_debug("statx was not taken: %s", err_text(errno));
}
