/* SPDX-License-Identifier: MIT */
/*
 * How: attributes between the kernel's words and the environment's. Times are
 * signed 64-bit seconds on both sides of libfuse, so those before 1970 and
 * after 2106 pass unchanged.
 *
 * With HANDLE_KILLPRIV_V2 the kernel itself says when setuid and setgid go
 * (truncation without CAP_FSETID, every change of a file's owner): one flag.
 * Except before a write, fallocate or copy of a caller without CAP_FSETID, and
 * for chown(-1, -1): there it strips its flags and sends a SETATTR that sets
 * nothing, and does not check who asks. So the bits are cleared here and then
 * only for those who could chmod the file, else anyone could take them from
 * any file. Who is neither its owner nor root gets the old mode, which the
 * kernel does not keep (reply.c), and the bits go with what he writes.
 */
#include "fuse/ops_int.h"

#include "base/clock.h"

#include <errno.h>

static const struct {
	int from;
	unsigned to;
} set_flags[] = {
	{FUSE_SET_ATTR_MODE, ENV_SET_MODE},
	{FUSE_SET_ATTR_UID, ENV_SET_UID},
	{FUSE_SET_ATTR_GID, ENV_SET_GID},
	{FUSE_SET_ATTR_SIZE, ENV_SET_SIZE},
	{FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW, ENV_SET_ATIME},
	{FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW, ENV_SET_MTIME},
	{FUSE_SET_ATTR_CTIME, ENV_SET_CTIME},
	/* The first is FATTR_KILL_SUIDGID in the protocol. */
	{FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_KILL_SGID, ENV_KILL_SUIDGID},
};

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	struct env_attr attr;

	reply_attr(req, env_getattr(s->env, ino, &attr), &attr);
}

static bool is_stranger(fuse_req_t req, const struct env_attr *attr)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	return uid != 0 && uid != attr->uid;
}

int op_strip_for_stranger(fuse_req_t req, fuse_ino_t ino)
{
	struct session *s = fuse_req_userdata(req);
	struct env_attr attr;
	int err;

	err = env_getattr(s->env, ino, &attr);
	if (err < 0 || !reply_mode_may_go(attr.mode) ||
	    !is_stranger(req, &attr))
		return err;
	return env_setattr(s->env, ino, ENV_KILL_SUIDGID, &attr, &attr);
}

/* Says what the kernel wants set, see above for "nothing". */
static int set_from_kernel(fuse_req_t req, uint64_t ino, int to_set,
			   unsigned *ret_set)
{
	struct session *s = fuse_req_userdata(req);
	struct env_attr attr;
	unsigned set = 0;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(set_flags); i++)
		if (to_set & set_flags[i].from)
			set |= set_flags[i].to;
	if (set == 0) {
		err = env_getattr(s->env, ino, &attr);
		if (err < 0)
			return err;
		if (!S_ISDIR(attr.mode) && !is_stranger(req, &attr))
			set = ENV_KILL_SUIDGID;
	}
	*ret_set = set;
	return 0;
}

static struct env_attr values_from_kernel(const struct stat *st, int to_set)
{
	struct env_attr values = {
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.atime = st->st_atim,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
	};
	struct timespec now = clock_now();

	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		values.atime = now;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		values.mtime = now;
	return values;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	struct env_attr values = values_from_kernel(st, to_set);
	struct env_attr attr;
	unsigned set;
	int err;

	err = set_from_kernel(req, ino, to_set, &set);
	if (err == 0 && set == 0)
		err = env_getattr(s->env, ino, &attr);
	else if (err == 0)
		err = env_setattr(s->env, ino, set, &values, &attr);
	reply_attr(req, err, &attr);
}

/* The kernel asks once per inode, when a program wants the time of birth. */
void op_statx(struct session *s)
{
	struct env_attr attr;

	s->owed++;
	reply_statx(s, env_getattr(s->env, s->head->nodeid, &attr), &attr);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct session *s = op_begin(req);
	struct env_space space = {0};
	struct statvfs st;
	int err;

	err = env_statfs(s->env, &space);
	st = (struct statvfs){
		.f_bsize = space.block_size,
		.f_frsize = space.block_size,
		.f_blocks = space.blocks,
		.f_bfree = space.blocks_free,
		.f_bavail = space.blocks_avail,
		.f_files = space.inodes,
		.f_ffree = space.inodes_free,
		.f_favail = space.inodes_free,
		.f_namemax = 255,
	};
	reply_statfs(req, err, &st);
}
