/* SPDX-License-Identifier: MIT */
/*
 * How: names by parent and component, straight to fs/env. Node ids are inode
 * numbers, so a LOOKUP leaves nothing behind here and a FORGET has nothing to
 * undo, but for one case: an inode whose last name is gone is kept while the
 * kernel may still use it. With opens that send no message the FORGET is the
 * only sign that the last descriptor is closed, so it is followed by the
 * question whether the kernel still knows the inode (notify.c).
 *
 * The question cannot race with an entry on its way: the kernel holds the
 * directory's lock from the request until it has the inode, and taking the
 * last name away needs the same lock.
 *
 * Listings: offsets are the environment's cookies shifted by two, for "." and
 * ".." come first: offset 0 is the start, 1 is behind ".", 2 behind ".." and
 * so the environment's start.
 */
#include "fuse/ops_int.h"

#include "base/name.h"

#include <errno.h>
#include <string.h>

static struct env_cred cred_of(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct env_cred){
		.uid = ctx->uid,
		.gid = ctx->gid,
		.umask = ctx->umask,
	};
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct session *s = op_begin(req);
	struct env_attr attr;

	session_tick(&s->count.lookups);
	reply_lookup(req, env_lookup(s->env, parent, name, &attr), &attr);
}

static void forget(struct session *s, uint64_t ino)
{
	if (env_is_orphan(s->env, ino) && notify_finds_nothing(s, ino))
		env_reap(s->env, ino);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	forget(op_begin(req), ino);
	reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets)
{
	struct session *s = op_begin(req);

	for (size_t i = 0; i < count; i++)
		forget(s, forgets[i].ino);
	reply_none(req);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t rdev)
{
	struct session *s = op_begin(req);
	struct env_cred cred = cred_of(req);
	struct env_attr attr;

	reply_entry(req,
		    env_mknod(s->env, parent, name, mode, rdev, &cred, &attr),
		    &attr);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct session *s = op_begin(req);
	struct env_cred cred = cred_of(req);
	struct env_attr attr;

	reply_entry(req, env_mkdir(s->env, parent, name, mode, &cred, &attr),
		    &attr);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name)
{
	struct session *s = op_begin(req);
	struct env_cred cred = cred_of(req);
	struct env_attr attr;

	reply_entry(req,
		    env_symlink(s->env, parent, name, target, &cred, &attr),
		    &attr);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name)
{
	struct session *s = op_begin(req);
	struct env_attr attr;

	reply_entry(req, env_link(s->env, ino, new_parent, new_name, &attr),
		    &attr);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct session *s = op_begin(req);

	reply_status(req, env_unlink(s->env, parent, name));
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct session *s = op_begin(req);

	reply_status(req, env_rmdir(s->env, parent, name));
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct session *s = op_begin(req);

	reply_status(req, env_rename(s->env, parent, name, new_parent, new_name,
				     flags));
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	_cleanup_buf_ struct buf target = {0};
	struct session *s = op_begin(req);
	const char *text = NULL;
	int err;

	err = env_readlink(s->env, ino, &target);
	if (err == 0) {
		text = buf_str(&target);
		if (!text)
			err = -ENOMEM;
	}
	reply_link_target(req, err, text);
}

struct listing {
	fuse_req_t req;
	char *data;
	size_t used;
	size_t size;
	bool plus;
};

/* Returns false, adding nothing, when there is no room. */
static bool listing_add(struct listing *l, const char *name,
			const struct fuse_entry_param *e, uint64_t next)
{
	size_t left = l->size - l->used;
	char *to = l->data + l->used;
	size_t n;

	if (l->plus)
		n = fuse_add_direntry_plus(l->req, to, left, name, e,
					   (off_t)next);
	else
		n = fuse_add_direntry(l->req, to, left, name, &e->attr,
				      (off_t)next);
	if (n > left)
		return false;
	l->used += n;
	return true;
}

/* Adds "." or "..": node id 0 says that this is no lookup. */
static bool listing_add_dots(struct listing *l, const char *name, uint64_t ino,
			     uint64_t next)
{
	struct fuse_entry_param e = {0};

	e.attr.st_ino = ino;
	e.attr.st_mode = S_IFDIR;
	return listing_add(l, name, &e, next);
}

static bool listing_take(void *ctx, const char *name, size_t name_len,
			 const struct env_attr *attr, uint64_t next)
{
	char text[NAME_MAX_BYTES + 1];
	struct fuse_entry_param e;

	if (name_len > NAME_MAX_BYTES)
		return true; /* cannot be shown to anybody */
	memcpy(text, name, name_len);
	text[name_len] = '\0';
	entry_from_attr(attr, &e);
	return listing_add(ctx, text, &e, next + 2);
}

static int list(struct session *s, uint64_t ino, uint64_t off,
		struct listing *l)
{
	uint64_t parent;
	int err;

	if (off == 0 && !listing_add_dots(l, ".", ino, 1))
		return 0;
	if (off <= 1) {
		err = env_parent(s->env, ino, &parent);
		if (err < 0)
			return err;
		if (!listing_add_dots(l, "..", parent, 2))
			return 0;
		off = 2;
	}
	return env_readdir(s->env, ino, off - 2, listing_take, l);
}

static void read_dir(fuse_req_t req, uint64_t ino, size_t size, off_t off,
		     bool plus)
{
	struct session *s = op_begin(req);
	struct listing l = {
		.req = req,
		.data = s->out,
		.size = MIN(size, SESSION_MAX_IO),
		.plus = plus,
	};
	int err;

	err = list(s, ino, (uint64_t)off, &l);
	/* What was listed before a failure is good; the next call meets the
	 * failure again at its start. */
	reply_data(req, l.data, l.used || err >= 0 ? (ssize_t)l.used : err);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, true);
}
