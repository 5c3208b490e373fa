/* SPDX-License-Identifier: MIT */
/*
 * How: attributes. The kernel checks permissions (default_permissions) and
 * leaves to us what FUSE_HANDLE_KILLPRIV_V2 promises: chown clears setuid,
 * setgid and file capabilities; a write or truncation clears capabilities, and
 * setuid and setgid when the kernel says so.
 */
#include "env/env_int.h"

#include "base/clock.h"
#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

static const char caps_name[] = "security.capability";
static const char acl_name[] = "system.posix_acl_access";

void meta_kill_privs(struct env *e, struct iattr *a, bool suidgid)
{
	_cleanup_buf_ struct buf caps = {0};
	const struct inode *in = itable_find(e, a->ino);

	if (S_ISDIR(a->mode))
		return; /* there they mean something else; devices lose them */
	if (suidgid) {
		/* setgid without group execute means mandatory locking */
		if (a->mode & S_IXGRP)
			a->mode &= ~(uint32_t)S_ISGID;
		a->mode &= ~(uint32_t)S_ISUID;
	}
	if (in && !(in->flags & IFLAG_CAPS))
		return;
	if (xattr_value(e, a->ino, caps_name, &caps) >= 0)
		tx_xgone(e, a->ino, caps_name);
}

void meta_touch_dir(struct env *e, struct iattr *dir, struct timespec now)
{
	dir->mtime = dir->ctime = now;
	tx_inode(e, dir);
}

int env_getattr(struct env *e, uint64_t ino, struct env_attr *ret_attr)
{
	struct iattr a;
	int r;

	mutex_lock(&e->lock);
	r = inode_get(e, ino, &a);
	if (r >= 0)
		inode_stat(e, &a, ret_attr);
	mutex_unlock(&e->lock);
	return r;
}

/* chmod of a file with an access ACL changes the ACL too. */
static int set_mode(struct env *e, struct iattr *a, uint32_t mode)
{
	_cleanup_buf_ struct buf acl = {0};
	int r;

	a->mode = (a->mode & S_IFMT) | (mode & 07777);
	r = xattr_value(e, a->ino, acl_name, &acl);
	if (r == -ENODATA)
		return 0;
	if (r >= 0)
		r = acl_chmod(acl.data, acl.len, mode);
	if (r >= 0)
		tx_xattr(e, a->ino, acl_name, acl.data, acl.len);
	return r;
}

static void set_times(struct iattr *a, unsigned set,
		      const struct env_attr *values)
{
	if (set & ENV_SET_ATIME)
		a->atime = values->atime;
	if (set & ENV_SET_MTIME)
		a->mtime = values->mtime;
	if (set & ENV_SET_CTIME)
		a->ctime = values->ctime;
}

static int setattr_locked(struct env *e, uint64_t ino, unsigned set,
			  const struct env_attr *values,
			  struct env_attr *ret_attr)
{
	struct timespec now = clock_now();
	struct iattr a;
	int r = inode_get(e, ino, &a);

	if (r < 0)
		return r;
	tx_begin(e);
	a.ctime = now;
	if (set & ENV_SET_MODE)
		r = set_mode(e, &a, values->mode);
	if (set & ENV_SET_UID)
		a.uid = values->uid;
	if (set & ENV_SET_GID)
		a.gid = values->gid;
	if (set & (ENV_SET_UID | ENV_SET_GID))
		meta_kill_privs(e, &a, !(set & ENV_SET_MODE));
	else if (set & (ENV_SET_SIZE | ENV_KILL_SUIDGID))
		meta_kill_privs(e, &a, set & ENV_KILL_SUIDGID);
	if (r >= 0 && (set & ENV_SET_SIZE)) {
		if (!S_ISREG(a.mode))
			return S_ISDIR(a.mode) ? -EISDIR : -EINVAL;
		a.mtime = now;
		r = file_resize(e, &a, values->size);
	}
	if (r < 0)
		return r;
	set_times(&a, set, values);
	tx_inode(e, &a);
	r = tx_commit(e);
	if (r >= 0)
		inode_stat(e, &a, ret_attr);
	return r;
}

int env_setattr(struct env *e, uint64_t ino, unsigned set,
		const struct env_attr *values, struct env_attr *ret_attr)
{
	return WITH_ROOM(e, setattr_locked(e, ino, set, values, ret_attr));
}
