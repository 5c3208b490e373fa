/* SPDX-License-Identifier: MIT */
/*
 * How: each operation checks, composes one transaction of results and commits
 * it. Attributes of directories come before the names in them, so that a
 * directory is in the table when its dent is linked to it.
 */
#include "env/env_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/name.h"

#include <string.h>
#include <sys/stat.h>

static const char acl_access[] = "system.posix_acl_access";
static const char acl_default[] = "system.posix_acl_default";

int dir_check(struct env *e, uint64_t parent, const char *name,
	      struct iattr *ret_parent)
{
	size_t len = strlen(name);
	int r;

	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (!name_is_component(name, len))
		return -EINVAL;
	r = inode_get(e, parent, ret_parent);
	if (r < 0)
		return r;
	if (!S_ISDIR(ret_parent->mode))
		return -ENOTDIR;
	return ret_parent->nlink ? 0 : -ENOENT;
}

int env_lookup(struct env *e, uint64_t parent, const char *name,
	       struct env_attr *ret_attr)
{
	size_t len = strlen(name);
	int r;

	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	mutex_lock(&e->lock);
	r = dir_find_attr(e, parent, name, len, ret_attr);
	mutex_unlock(&e->lock);
	return r;
}

/* --- making --------------------------------------------------------------- */

/* What a new inode stores of its parent's default ACL, at most. */
static uint64_t acl_bytes(uint32_t mode, size_t len)
{
	return sizeof acl_access - 1 + len +
	       (S_ISDIR(mode) ? sizeof acl_default - 1 + len : 0);
}

/* Applies the parent's default ACL or the umask; adds the inode and its
 * ACLs. */
static int add_with_acl(struct env *e, const struct iattr *parent,
			uint32_t umask, struct iattr *a)
{
	_cleanup_buf_ struct buf acl = {0}, own = {0};
	int r = -ENODATA;

	if (!S_ISLNK(a->mode)) {
		r = xattr_value(e, parent->ino, acl_default, &acl);
		if (r == -ENODATA)
			a->mode &= ~(umask & 0777);
	}
	if (r == -ENODATA) {
		tx_inode(e, a);
		return 0;
	}
	buf_put(&own, acl.data, acl.len);
	if (r >= 0)
		r = buf_error(&own);
	if (r >= 0)
		r = grow_take(e, acl_bytes(a->mode, acl.len), 0);
	if (r >= 0)
		r = acl_create(own.data, own.len, &a->mode);
	if (r < 0)
		return r;
	tx_inode(e, a);
	if (S_ISDIR(a->mode))
		tx_xattr(e, a->ino, acl_default, acl.data, acl.len);
	if (r == 0)
		tx_xattr(e, a->ino, acl_access, own.data, own.len);
	return 0;
}

int dir_new_inode(struct env *e, const struct iattr *parent,
		  const struct env_cred *cred, struct iattr *a)
{
	struct timespec now = clock_now();
	int r;

	if (e->next_ino > FORMAT_MAX_INODE)
		return -ENOSPC;
	r = grow_take(e, 0, 1);
	if (r < 0)
		return r;
	a->ino = e->next_ino;
	a->uid = cred->uid;
	a->gid = cred->gid;
	a->atime = a->mtime = a->ctime = a->btime = now;
	if (parent->mode & S_ISGID) {
		a->gid = parent->gid;
		if (S_ISDIR(a->mode))
			a->mode |= S_ISGID;
	}
	if (S_ISDIR(a->mode))
		a->parent = parent->ino;
	return add_with_acl(e, parent, cred->umask, a);
}

/* Where a new inode goes: a name in parent. */
struct place {
	uint64_t parent;
	const char *name;
	const char *target; /* of a symlink */
};

static int make_locked(struct env *e, const struct place *p, struct iattr *a,
		       const struct env_cred *cred, struct env_attr *ret_attr)
{
	size_t len = strlen(p->name);
	struct iattr parent;
	struct found f;
	uint64_t cookie;
	int r = dir_check(e, p->parent, p->name, &parent);

	if (r < 0)
		return r;
	r = dir_find(e, p->parent, p->name, len, &f);
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	r = dir_next_cookie(e, p->parent, &cookie);
	if (r < 0)
		return r;
	tx_begin(e);
	r = dir_new_inode(e, &parent, cred, a);
	if (r >= 0 && p->target)
		r = grow_take(e, strlen(p->target), 0);
	if (r < 0)
		return r;
	if (p->target)
		tx_target(e, a->ino, p->target);
	tx_dent(e, p->parent, p->name, len, a->ino, cookie);
	if (S_ISDIR(a->mode))
		parent.nlink++;
	meta_touch_dir(e, &parent, a->mtime);
	r = tx_commit(e);
	if (r >= 0)
		inode_stat(e, a, ret_attr);
	return r;
}

int env_mknod(struct env *e, uint64_t parent, const char *name, uint32_t mode,
	      uint64_t rdev, const struct env_cred *cred,
	      struct env_attr *ret_attr)
{
	struct place p = {parent, name, NULL};
	struct iattr a = {.mode = mode, .nlink = 1};

	if (!(mode & S_IFMT))
		a.mode |= S_IFREG;
	if (S_ISCHR(mode) || S_ISBLK(mode))
		a.rdev = rdev;
	return WITH_ROOM(e, make_locked(e, &p, &a, cred, ret_attr));
}

int env_mkdir(struct env *e, uint64_t parent, const char *name, uint32_t mode,
	      const struct env_cred *cred, struct env_attr *ret_attr)
{
	struct place p = {parent, name, NULL};
	struct iattr a = {.mode = S_IFDIR | (mode & 07777), .nlink = 2};

	return WITH_ROOM(e, make_locked(e, &p, &a, cred, ret_attr));
}

int env_symlink(struct env *e, uint64_t parent, const char *name,
		const char *target, const struct env_cred *cred,
		struct env_attr *ret_attr)
{
	struct place p = {parent, name, target};
	struct iattr a = {.mode = S_IFLNK | 0777, .nlink = 1};

	a.size = strlen(target);
	if (!a.size)
		return -ENOENT;
	if (a.size > FORMAT_MAX_TARGET)
		return -ENAMETOOLONG;
	return WITH_ROOM(e, make_locked(e, &p, &a, cred, ret_attr));
}

static int tmpfile_locked(struct env *e, uint64_t dir, struct iattr *a,
			  const struct env_cred *cred,
			  struct env_attr *ret_attr)
{
	struct iattr parent;
	int r = dir_check(e, dir, "tmpfile", &parent);

	if (r < 0)
		return r;
	tx_begin(e);
	r = dir_new_inode(e, &parent, cred, a);
	if (r >= 0)
		r = tx_commit(e);
	if (r >= 0)
		inode_stat(e, a, ret_attr);
	return r;
}

int env_tmpfile(struct env *e, uint64_t parent, uint32_t mode,
		const struct env_cred *cred, struct env_attr *ret_attr)
{
	struct iattr a = {.mode = S_IFREG | (mode & 07777)};

	return WITH_ROOM(e, tmpfile_locked(e, parent, &a, cred, ret_attr));
}

static int link_locked(struct env *e, uint64_t ino, uint64_t parent_ino,
		       const char *name, struct env_attr *ret_attr)
{
	struct timespec now = clock_now();
	size_t len = strlen(name);
	struct iattr parent, a;
	struct found f;
	uint64_t cookie;
	int r = dir_check(e, parent_ino, name, &parent);

	if (r < 0)
		return r;
	r = dir_find(e, parent_ino, name, len, &f);
	if (r != -ENOENT)
		return r < 0 ? r : -EEXIST;
	r = inode_get(e, ino, &a);
	if (r < 0)
		return r;
	if (S_ISDIR(a.mode))
		return -EPERM;
	if (a.nlink == UINT32_MAX)
		return -EMLINK;
	r = dir_next_cookie(e, parent_ino, &cookie);
	if (r < 0)
		return r;
	a.nlink++;
	a.ctime = now;
	tx_begin(e);
	r = grow_take(e, 0, 0);
	if (r < 0)
		return r;
	tx_inode(e, &a);
	tx_dent(e, parent_ino, name, len, ino, cookie);
	meta_touch_dir(e, &parent, now);
	r = tx_commit(e);
	if (r >= 0)
		inode_stat(e, &a, ret_attr);
	return r;
}

int env_link(struct env *e, uint64_t ino, uint64_t new_parent,
	     const char *new_name, struct env_attr *ret_attr)
{
	return WITH_ROOM(e,
			 link_locked(e, ino, new_parent, new_name, ret_attr));
}

/* --- removing ------------------------------------------------------------- */

int dir_drop_link(struct env *e, uint64_t ino, struct timespec now)
{
	struct iattr a;
	int r = inode_get(e, ino, &a);

	if (r < 0)
		return r;
	if (!a.nlink)
		return -EFSCORRUPTED;
	a.nlink = S_ISDIR(a.mode) ? 0 : a.nlink - 1;
	a.ctime = now;
	tx_inode(e, &a);
	return 0;
}

static int remove_locked(struct env *e, uint64_t dir, const char *name,
			 bool want_dir)
{
	struct timespec now = clock_now();
	size_t len = strlen(name);
	struct iattr parent, a;
	struct found f;
	bool empty;
	int r = dir_check(e, dir, name, &parent);

	if (r >= 0)
		r = dir_find(e, dir, name, len, &f);
	if (r >= 0)
		r = inode_get(e, f.ino, &a);
	if (r < 0)
		return r;
	if (S_ISDIR(a.mode) != want_dir)
		return want_dir ? -ENOTDIR : -EISDIR;
	if (want_dir) {
		r = dir_is_empty(e, f.ino, &empty);
		if (r < 0)
			return r;
		if (!empty)
			return -ENOTEMPTY;
		parent.nlink--;
	}
	tx_begin(e);
	tx_frees(e);
	tx_gone(e, dir, name, len);
	r = dir_drop_link(e, f.ino, now);
	if (r < 0)
		return r;
	meta_touch_dir(e, &parent, now);
	return tx_commit(e);
}

int env_unlink(struct env *e, uint64_t parent, const char *name)
{
	int r;

	mutex_lock(&e->lock);
	r = remove_locked(e, parent, name, false);
	mutex_unlock(&e->lock);
	return r;
}

int env_rmdir(struct env *e, uint64_t parent, const char *name)
{
	int r;

	mutex_lock(&e->lock);
	r = remove_locked(e, parent, name, true);
	mutex_unlock(&e->lock);
	return r;
}

/* --- reading -------------------------------------------------------------- */

int file_target_locked(struct env *e, uint64_t ino, struct buf *out)
{
	const struct inode *in = itable_find(e, ino);

	if (in && !S_ISLNK(in->a.mode))
		return -EINVAL;
	if (in && in->target) {
		buf_put(out, in->target, strlen(in->target));
		return buf_error(out);
	}
	return base_target(&e->base, ino, out);
}

int env_readlink(struct env *e, uint64_t ino, struct buf *out)
{
	int r;

	mutex_lock(&e->lock);
	r = file_target_locked(e, ino, out);
	mutex_unlock(&e->lock);
	return r;
}

/* Lists base slots from cookie on; false: the callback stopped. */
static int list_base(struct env *e, const struct inode *in, uint64_t dir,
		     uint64_t cookie, env_dirent_fn fn, void *ctx)
{
	struct tree_entry t;
	struct base_node n;
	struct env_attr st;
	struct object *o;
	int more = 1, r = base_dir(&e->base, dir, &o);

	if (r < 0)
		return r;
	for (uint32_t i = (uint32_t)MIN(cookie, o->tree.count);
	     i < o->tree.count && more > 0; i++) {
		struct dent *d;
		struct iattr a;

		tree_entry_at(&o->tree, i, &t);
		d = names_find(in ? in->names : NULL, t.name, t.name_len);
		if (d && (!d->ino || d->cookie != (uint64_t)i + 1))
			continue;
		if (d) {
			r = inode_get(e, d->ino, &a);
			if (r < 0)
				break;
			inode_stat(e, &a, &st);
		} else {
			base_entry_node(&e->base, dir, o, i, &n);
			inode_stat_node(e, &n, &st);
		}
		more = fn(ctx, t.name, t.name_len, &st, (uint64_t)i + 1);
	}
	base_unpin(&e->base, o);
	return r < 0 ? r : more;
}

static int list_new(struct env *e, const struct names *n, uint64_t cookie,
		    env_dirent_fn fn, void *ctx)
{
	for (size_t i = names_place(n, cookie + 1); i < n->order_len; i++) {
		const struct dent *d = n->order[i].dent;
		struct env_attr st;
		struct iattr a;
		int r;

		if (!d)
			continue;
		r = inode_get(e, d->ino, &a);
		if (r < 0)
			return r;
		inode_stat(e, &a, &st);
		if (!fn(ctx, d->name, d->len, &st, d->cookie))
			break;
	}
	return 0;
}

int dir_list_locked(struct env *e, uint64_t ino, uint64_t cookie,
		    env_dirent_fn fn, void *ctx)
{
	const struct inode *in = itable_find(e, ino);
	struct iattr a;
	int more = 1, r = inode_get(e, ino, &a);

	if (r < 0)
		return r;
	if (!S_ISDIR(a.mode))
		return -ENOTDIR;
	if (ino <= e->base.last_ino && !(in && in->names && in->names->opaque))
		more = list_base(e, in, ino, cookie, fn, ctx);
	if (more > 0 && in && in->names)
		more = list_new(e, in->names, cookie, fn, ctx);
	return more < 0 ? more : 0;
}

int env_readdir(struct env *e, uint64_t ino, uint64_t cookie, env_dirent_fn fn,
		void *ctx)
{
	int r;

	mutex_lock(&e->lock);
	r = dir_list_locked(e, ino, cookie, fn, ctx);
	mutex_unlock(&e->lock);
	return r;
}

int env_parent(struct env *e, uint64_t ino, uint64_t *ret_parent)
{
	struct iattr a;
	int r;

	mutex_lock(&e->lock);
	r = inode_get(e, ino, &a);
	mutex_unlock(&e->lock);
	if (r >= 0)
		*ret_parent = ino == ENV_ROOT ? ENV_ROOT : a.parent;
	return r;
}
