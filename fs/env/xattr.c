/* SPDX-License-Identifier: MIT */
/*
 * How: an inode's xattrs are the base's set until the first change; then all
 * of them are the inode's own, in a list (files have few). ACLs decide about
 * the mode bits: setting an access ACL sets them, and one that says no more
 * than the bits is not stored.
 */
#include "env/env_int.h"

#include "base/err.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

/* Takes an attribute out of its list. */
static void xattr_drop(struct env *e, struct xattr **at)
{
	struct xattr *x = *at;

	*at = x->next;
	use_add(&e->use.bytes, -(uint64_t)(strlen(x->name) + x->len));
	free(x->name);
	free(x->value);
	free(x);
}

void xattr_free_all(struct env *e, struct inode *in)
{
	while (in->xattrs)
		xattr_drop(e, &in->xattrs);
}

static int xattr_add(struct env *e, struct inode *in,
		     const struct xset_pair *p)
{
	struct xattr *x = calloc(1, sizeof *x);

	if (x) {
		x->name = strndup(p->name, p->name_len);
		x->value = malloc(p->value_len + 1);
	}
	if (!x || !x->name || !x->value) {
		if (x) {
			free(x->name);
			free(x->value);
		}
		free(x);
		return -ENOMEM;
	}
	if (p->value_len)
		memcpy(x->value, p->value, p->value_len);
	x->len = p->value_len;
	x->next = in->xattrs;
	in->xattrs = x;
	use_add(&e->use.bytes, strlen(x->name) + x->len);
	return 0;
}

/* Makes the base's xattrs the inode's own. */
static int xattrs_own(struct env *e, struct inode *in)
{
	struct xset_pair p;
	struct object *o;
	struct xset set;
	int r;

	if (in->xattrs_own)
		return 0;
	if (!oid_is_null(&in->xset)) {
		r = base_object(&e->base, &in->xset, &o);
		if (r < 0)
			return r;
		r = xset_open(o->bytes.data, o->bytes.len, &set);
		while (r >= 0 && xset_next(&set, &p))
			r = xattr_add(e, in, &p);
		base_unpin(&e->base, o);
		if (r < 0) {
			xattr_free_all(e, in);
			return r;
		}
	}
	in->xattrs_own = true;
	return 0;
}

int xattr_gone_base(struct env *e, const struct inode *in)
{
	_cleanup_buf_ struct buf name = {0};
	struct xset_pair p;
	struct object *o;
	struct xset set;
	int r;

	if (oid_is_null(&in->xset))
		return 0;
	r = base_object(&e->base, &in->xset, &o);
	if (r < 0)
		return r;
	r = xset_open(o->bytes.data, o->bytes.len, &set);
	while (r >= 0 && xset_next(&set, &p)) {
		buf_clear(&name);
		buf_put(&name, p.name, p.name_len);
		if (!buf_str(&name))
			r = -ENOMEM;
		else
			tx_xgone(e, in->a.ino, buf_str(&name));
	}
	base_unpin(&e->base, o);
	return r;
}

int xattr_unset(struct env *e, struct inode *in, const char *name)
{
	struct xattr **p;
	int r = xattrs_own(e, in);

	if (r < 0)
		return r;
	for (p = &in->xattrs; *p; p = &(*p)->next)
		if (!strcmp((*p)->name, name)) {
			xattr_drop(e, p);
			break;
		}
	return 0;
}

int xattr_set(struct env *e, struct inode *in, const char *name,
	      const void *value, size_t len)
{
	const struct xset_pair p = {name, strlen(name), value, len};
	int r = xattr_unset(e, in, name);

	if (r < 0)
		return r;
	in->flags |= IFLAG_CAPS;
	return xattr_add(e, in, &p);
}

/* Calls back for each pair of an inode; a non-zero result ends the walk. */
typedef int (*pair_fn)(void *ctx, const struct xset_pair *p);

static int pairs_own(const struct inode *in, pair_fn fn, void *ctx)
{
	int r = 0;

	for (const struct xattr *x = in->xattrs; x && !r; x = x->next) {
		struct xset_pair p = {x->name, strlen(x->name), x->value,
				      x->len};

		r = fn(ctx, &p);
	}
	return r;
}

static int pairs_walk(struct env *e, uint64_t ino, pair_fn fn, void *ctx)
{
	const struct inode *in = itable_find(e, ino);
	struct base_node n;
	struct xset_pair p;
	struct object *o;
	struct xset set;
	struct oid id;
	int r;

	if (in && in->xattrs_own)
		return pairs_own(in, fn, ctx);
	if (in) {
		id = in->xset;
	} else {
		r = base_find(&e->base, ino, &n);
		if (r < 0)
			return r;
		id = n.xattrs;
	}
	if (oid_is_null(&id))
		return 0;
	r = base_object(&e->base, &id, &o);
	if (r < 0)
		return r;
	r = xset_open(o->bytes.data, o->bytes.len, &set);
	while (!r && xset_next(&set, &p))
		r = fn(ctx, &p);
	base_unpin(&e->base, o);
	return r;
}

struct value_ctx {
	const char *name;
	struct buf *out;
};

static int value_pair(void *ctx, const struct xset_pair *p)
{
	struct value_ctx *v = ctx;
	int r;

	if (strlen(v->name) != p->name_len ||
	    memcmp(v->name, p->name, p->name_len) != 0)
		return 0;
	buf_put(v->out, p->value, p->value_len);
	r = buf_error(v->out);
	return r < 0 ? r : 1;
}

int xattr_value(struct env *e, uint64_t ino, const char *name, struct buf *out)
{
	struct value_ctx v = {name, out};
	int r;

	buf_clear(out);
	r = pairs_walk(e, ino, value_pair, &v);
	return r < 0 ? r : r > 0 ? 0 : -ENODATA;
}

static int encode_pair(void *ctx, const struct xset_pair *p)
{
	struct buf *pairs = ctx;

	buf_put(pairs, p, sizeof *p);
	return buf_error(pairs);
}

int xattr_encode(struct env *e, uint64_t ino, struct buf *out)
{
	_cleanup_buf_ struct buf pairs = {0};
	struct object *pin = NULL;
	const struct inode *in = itable_find(e, ino);
	struct base_node n;
	int r;

	buf_clear(out);
	if (!in || !in->xattrs_own) {
		struct oid id;

		r = in ? 0 : base_find(&e->base, ino, &n);
		if (r < 0)
			return r;
		id = in ? in->xset : n.xattrs;
		if (oid_is_null(&id))
			return 0;
		r = base_object(&e->base, &id, &pin);
		if (r < 0)
			return r;
		buf_put(out, pin->bytes.data, pin->bytes.len);
		base_unpin(&e->base, pin);
		return buf_error(out);
	}
	r = pairs_own(in, encode_pair, &pairs);
	if (r < 0 || !pairs.len)
		return r;
	return xset_encode((struct xset_pair *)(void *)pairs.data,
			   (uint32_t)(pairs.len / sizeof(struct xset_pair)),
			   out);
}

/* --- operations ----------------------------------------------------------- */

static int check_flags(struct env *e, uint64_t ino, const char *name, int flags)
{
	_cleanup_buf_ struct buf old = {0};
	int r;

	if (!flags)
		return 0;
	r = xattr_value(e, ino, name, &old);
	if (r == -ENODATA)
		return flags & XATTR_REPLACE ? -ENODATA : 0;
	if (r < 0)
		return r;
	return flags & XATTR_CREATE ? -EEXIST : 0;
}

/* Refuses a set that the encoded form could not hold any more. */
static int check_room(struct env *e, uint64_t ino, size_t more)
{
	_cleanup_buf_ struct buf all = {0};
	int r = xattr_encode(e, ino, &all);

	if (r < 0)
		return r;
	return all.len + more + 64 > FORMAT_MAX_XATTRS_BYTES ? -ENOSPC : 0;
}

struct cost {
	const char *name;
	uint64_t all, named; /* bytes of all attributes, of the one of that name */
};

static int cost_pair(void *ctx, const struct xset_pair *p)
{
	struct cost *c = ctx;

	c->all += p->name_len + p->value_len;
	if (strlen(c->name) == p->name_len &&
	    !memcmp(c->name, p->name, p->name_len))
		c->named = p->name_len + p->value_len;
	return 0;
}

struct setting {
	const char *name;
	const void *value;
	size_t len;
	int flags;
	bool kill_sgid;
};

/* Adds an attribute to the transaction. The first change of an inode makes all
 * that it has its own. */
static int put_xattr(struct env *e, uint64_t ino, const struct setting *s)
{
	const struct inode *in = itable_find(e, ino);
	struct cost c = {.name = s->name};
	uint64_t before, after;
	int r = pairs_walk(e, ino, cost_pair, &c);

	if (r < 0)
		return r;
	before = in && in->xattrs_own ? c.all : 0;
	after = c.all - c.named + strlen(s->name) + s->len;
	r = after > before ? grow_take(e, after - before, 0) : 0;
	if (r >= 0)
		tx_xattr(e, ino, s->name, s->value, s->len);
	return r;
}

/* The mode and the ACL to store that follow from an access ACL. */
static int set_access_acl(struct env *e, struct iattr *a,
			  const struct setting *s)
{
	uint32_t mode = a->mode;
	int r = acl_to_mode(s->value, s->len, &mode);

	if (r < 0)
		return r;
	if (s->kill_sgid)
		mode &= ~(uint32_t)S_ISGID;
	a->mode = mode;
	if (!r)
		return put_xattr(e, a->ino, s);
	tx_xgone(e, a->ino, ACL_ACCESS);
	return 0;
}

static int setxattr_locked(struct env *e, uint64_t ino, const struct setting *s)
{
	struct iattr a;
	uint32_t mode = 0;
	int r = inode_get(e, ino, &a);

	if (r >= 0)
		r = check_flags(e, ino, s->name, s->flags);
	if (r >= 0)
		r = check_room(e, ino, strlen(s->name) + s->len);
	if (r < 0)
		return r;
	tx_begin(e);
	a.ctime = clock_now();
	if (!strcmp(s->name, ACL_ACCESS)) {
		r = set_access_acl(e, &a, s);
	} else {
		if (!strcmp(s->name, ACL_DEFAULT))
			r = S_ISDIR(a.mode)
				    ? acl_to_mode(s->value, s->len, &mode)
				    : -EACCES;
		if (r >= 0)
			r = put_xattr(e, ino, s);
	}
	tx_inode(e, &a);
	return r < 0 ? r : tx_commit(e);
}

int env_setxattr(struct env *e, uint64_t ino, const char *name,
		 const void *value, size_t len, int flags, bool kill_sgid)
{
	struct setting s = {name, value, len, flags, kill_sgid};
	size_t name_len = strlen(name);

	if (!name_len || name_len > FORMAT_MAX_XATTR_NAME)
		return -ERANGE;
	if (len > FORMAT_MAX_XATTR_VALUE)
		return -E2BIG;
	return WITH_ROOM(e, setxattr_locked(e, ino, &s));
}

/* Answers as getxattr(2) does: the length; the bytes when size is not 0. */
static ssize_t give(const struct buf *b, void *to, size_t size)
{
	if (size && b->len > size)
		return -ERANGE;
	if (size && b->len)
		memcpy(to, b->data, b->len);
	return (ssize_t)b->len;
}

ssize_t env_getxattr(struct env *e, uint64_t ino, const char *name, void *value,
		     size_t size)
{
	_cleanup_buf_ struct buf b = {0};
	int r;

	mutex_lock(&e->lock);
	r = xattr_value(e, ino, name, &b);
	mutex_unlock(&e->lock);
	return r < 0 ? r : give(&b, value, size);
}

static int list_pair(void *ctx, const struct xset_pair *p)
{
	struct buf *names = ctx;

	buf_put(names, p->name, p->name_len);
	buf_put_u8(names, 0);
	return buf_error(names);
}

ssize_t env_listxattr(struct env *e, uint64_t ino, char *list, size_t size)
{
	_cleanup_buf_ struct buf b = {0};
	int r;

	mutex_lock(&e->lock);
	r = pairs_walk(e, ino, list_pair, &b);
	mutex_unlock(&e->lock);
	return r < 0 ? r : give(&b, list, size);
}

static int removexattr_locked(struct env *e, uint64_t ino, const char *name)
{
	_cleanup_buf_ struct buf old = {0};
	struct iattr a;
	int r = inode_get(e, ino, &a);

	if (r >= 0)
		r = xattr_value(e, ino, name, &old);
	if (r < 0)
		return r;
	a.ctime = clock_now();
	tx_begin(e);
	tx_xgone(e, ino, name);
	tx_inode(e, &a);
	return tx_commit(e);
}

int env_removexattr(struct env *e, uint64_t ino, const char *name)
{
	return WITH_ROOM(e, removexattr_locked(e, ino, name));
}
