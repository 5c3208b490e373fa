/* SPDX-License-Identifier: MIT */
/*
 * How: names of every name space go to fs/env, POSIX ACLs among them (the
 * kernel checks access by them and sends them as system.posix_acl_*). A size
 * of 0 asks for the length alone.
 */
#include "fuse/ops_int.h"

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags)
{
	struct session *s = op_begin(req);

	reply_status(req, env_setxattr(s->env, ino, name, value, size, flags,
				       s->raw.kill_sgid));
}

static void reply_value(fuse_req_t req, struct session *s, size_t asked,
			ssize_t n)
{
	if (asked == 0)
		reply_xattr_size(req, n);
	else
		reply_data(req, s->out, n);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct session *s = op_begin(req);

	reply_value(req, s, size,
		    env_getxattr(s->env, ino, name, s->out,
				 MIN(size, SESSION_MAX_IO)));
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct session *s = op_begin(req);

	reply_value(
		req, s, size,
		env_listxattr(s->env, ino, s->out, MIN(size, SESSION_MAX_IO)));
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct session *s = op_begin(req);

	reply_status(req, env_removexattr(s->env, ino, name));
}
