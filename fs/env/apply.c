/* SPDX-License-Identifier: MIT */
/*
 * How: the only place where an environment's state changes. It takes the items
 * of one transaction, live just after their append or at replay. Items carry
 * results ("the attributes are now these"), not operations, so that applying
 * needs no decision and cannot come out differently a second time.
 *
 * Bytes come from a file: everything is checked; what makes no sense is
 * -EFSCORRUPTED.
 */
#include "env/env_int.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "base/name.h"

#include <string.h>
#include <sys/stat.h>

static struct timespec take_time(struct bytes *r)
{
	struct timespec t;

	t.tv_sec = (time_t)bytes_u64(r);
	t.tv_nsec = (long)bytes_u32(r);
	if (t.tv_nsec >= 1000000000)
		r->bad = true;
	return t;
}

static uint64_t take_ino(struct bytes *r)
{
	uint64_t ino = bytes_u64(r);

	if (!ino || ino > FORMAT_MAX_INODE)
		r->bad = true;
	return ino;
}

static const char *take_name(struct bytes *r, size_t *ret_len)
{
	const uint8_t *p = bytes_block(r, NAME_MAX_BYTES, ret_len);

	if (!p || !name_is_component(p, *ret_len))
		r->bad = true;
	return (const char *)p;
}

/* Takes a block as a string of its own. */
static char *take_string(struct bytes *r, size_t max)
{
	size_t len;
	const uint8_t *p = bytes_block(r, max, &len);
	char *s;

	if (!p || !len || memchr(p, 0, len)) {
		r->bad = true;
		return NULL;
	}
	s = malloc(len + 1);
	if (!s)
		return NULL;
	memcpy(s, p, len);
	s[len] = '\0';
	return s;
}

static bool kind_known(uint32_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) ||
	       S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ||
	       S_ISSOCK(mode);
}

static void take_attr(struct bytes *r, struct iattr *ret)
{
	struct iattr a = {.ino = take_ino(r)};

	a.parent = bytes_u64(r);
	a.rdev = bytes_u64(r);
	a.size = bytes_u64(r);
	a.mode = bytes_u32(r);
	a.uid = bytes_u32(r);
	a.gid = bytes_u32(r);
	a.nlink = bytes_u32(r);
	a.atime = take_time(r);
	a.mtime = take_time(r);
	a.ctime = take_time(r);
	a.btime = take_time(r);
	if (!kind_known(a.mode) || a.size > FORMAT_MAX_FILE ||
	    (S_ISDIR(a.mode) && (!a.parent || a.parent > FORMAT_MAX_INODE)))
		r->bad = true;
	*ret = a;
}

/* A removed directory has no names, and nothing of the base shows. */
static int dir_removed(struct env *e, struct inode *in)
{
	int r = names_need(e, in);

	if (r < 0)
		return r;
	if (in->names->live)
		return -EFSCORRUPTED;
	names_free(e, in);
	r = names_need(e, in);
	if (r < 0)
		return r;
	in->names->opaque = true;
	in->names->live = 0;
	return 0;
}

static int apply_inode(struct env *e, struct bytes *r)
{
	struct iattr a;
	struct inode *in;
	int ret;

	take_attr(r, &a);
	if (r->bad)
		return -EFSCORRUPTED;
	ret = itable_make(e, a.ino, &in);
	if (ret < 0)
		return ret;
	if (in->a.mode && (in->a.mode & S_IFMT) != (a.mode & S_IFMT))
		return -EFSCORRUPTED; /* no file becomes of another kind */
	in->a = a;
	if (a.ino >= e->next_ino)
		e->next_ino = a.ino + 1;
	return S_ISDIR(a.mode) && !a.nlink ? dir_removed(e, in) : 0;
}

static int need_file(struct env *e, uint64_t ino, struct inode **ret_inode)
{
	int r = itable_need(e, ino, ret_inode);

	if (r >= 0 && !S_ISREG((*ret_inode)->a.mode))
		return -EFSCORRUPTED;
	return r;
}

static int apply_times(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r), size = bytes_u64(r);
	struct timespec t = take_time(r);
	struct inode *in;
	int ret;

	if (r->bad || size > FORMAT_MAX_FILE)
		return -EFSCORRUPTED;
	ret = need_file(e, ino, &in);
	if (ret < 0)
		return ret;
	in->a.size = size;
	in->a.mtime = in->a.ctime = t;
	return 0;
}

/* Finds a directory in the table, with its names. */
static int need_dir(struct env *e, uint64_t ino, struct inode **ret_dir)
{
	int r = itable_need(e, ino, ret_dir);

	if (r < 0)
		return r;
	if (!S_ISDIR((*ret_dir)->a.mode))
		return -EFSCORRUPTED;
	return names_need(e, *ret_dir);
}

static int apply_dent(struct env *e, struct bytes *r)
{
	uint64_t parent = take_ino(r), ino = take_ino(r), cookie = bytes_u64(r);
	struct inode *dir, *child;
	size_t len;
	const char *name = take_name(r, &len);
	int ret;

	if (r->bad || !cookie)
		return -EFSCORRUPTED;
	child = itable_find(e, ino);
	if (!child || (S_ISDIR(child->a.mode) && child->a.parent != parent))
		return -EFSCORRUPTED; /* attributes come first */
	ret = need_dir(e, parent, &dir);
	if (ret >= 0 && !dir->a.nlink)
		return -EFSCORRUPTED;
	/* Whoever walks down would never come to an end. */
	if (ret >= 0 && S_ISDIR(child->a.mode))
		ret = dir_check_loop(e, ino, parent);
	if (ret == -EINVAL || ret == -ENOENT)
		return -EFSCORRUPTED;
	return ret < 0 ? ret : names_set(e, dir, name, len, ino, cookie);
}

static int apply_gone(struct env *e, struct bytes *r)
{
	uint64_t parent = take_ino(r);
	struct inode *dir;
	size_t len;
	const char *name = take_name(r, &len);
	int ret;

	if (r->bad)
		return -EFSCORRUPTED;
	ret = need_dir(e, parent, &dir);
	return ret < 0 ? ret : names_remove(e, dir, name, len);
}

static int apply_map(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r), fblock = bytes_u64(r);
	uint64_t count = bytes_u64(r), block = bytes_u64(r);
	struct inode *in;
	int ret;

	if (r->bad || count > TX_MAP_MOST || !block ||
	    block >= DATA_MAX_BLOCK ||
	    fblock + count > FORMAT_MAX_FILE >> ENV_BLOCK_SHIFT ||
	    fblock + count < fblock)
		return -EFSCORRUPTED;
	ret = need_file(e, ino, &in);
	if (ret < 0)
		return ret;
	if (block >= BLOCK_FIRST && block + count > e->data.next_block)
		e->data.next_block = block + count;
	return map_set(e, in, fblock, count, block);
}

static int apply_cut(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r), size = bytes_u64(r);
	struct inode *in;
	int ret;

	if (r->bad || size > FORMAT_MAX_FILE)
		return -EFSCORRUPTED;
	ret = need_file(e, ino, &in);
	if (ret < 0)
		return ret;
	map_cut(e, in, ALIGN_UP(size, ENV_BLOCK) >> ENV_BLOCK_SHIFT);
	in->base_size = MIN(in->base_size, size);
	if (!in->base_size)
		memset(&in->content, 0, sizeof in->content);
	return 0;
}

static int apply_xattr(struct env *e, struct bytes *r, bool set)
{
	uint64_t ino = take_ino(r);
	_cleanup_free_ char *name = take_string(r, FORMAT_MAX_XATTR_NAME);
	const uint8_t *value = NULL;
	struct inode *in;
	size_t len = 0;
	int ret;

	if (set)
		value = bytes_block(r, FORMAT_MAX_XATTR_VALUE, &len);
	if (r->bad)
		return -EFSCORRUPTED;
	if (!name)
		return -ENOMEM;
	ret = itable_need(e, ino, &in);
	if (ret < 0)
		return ret;
	return set ? xattr_set(e, in, name, value, len)
		   : xattr_unset(e, in, name);
}

static int apply_target(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r);
	_cleanup_free_ char *target = take_string(r, FORMAT_MAX_TARGET);
	struct inode *in;
	int ret;

	if (r->bad)
		return -EFSCORRUPTED;
	if (!target)
		return -ENOMEM;
	ret = itable_need(e, ino, &in);
	if (ret >= 0 && !S_ISLNK(in->a.mode))
		return -EFSCORRUPTED;
	if (ret < 0)
		return ret;
	if (in->target)
		use_add(&e->use.bytes, -(uint64_t)strlen(in->target));
	use_add(&e->use.bytes, strlen(target));
	free(in->target);
	in->target = TAKE_PTR(target);
	return 0;
}

static int apply_free(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r);
	struct inode *in;

	if (r->bad)
		return -EFSCORRUPTED;
	in = itable_find(e, ino);
	if (in && in->a.nlink)
		return -EFSCORRUPTED;
	if (in)
		itable_drop(e, in);
	return 0;
}

static int apply_counters(struct env *e, struct bytes *r)
{
	uint64_t ino = bytes_u64(r), block = bytes_u64(r);

	if (r->bad || ino > FORMAT_MAX_INODE || block > DATA_MAX_BLOCK)
		return -EFSCORRUPTED;
	e->next_ino = MAX(e->next_ino, ino);
	e->data.next_block = MAX(e->data.next_block, block);
	return 0;
}

static int apply_opaque(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r);
	struct inode *dir;
	int ret;

	if (r->bad)
		return -EFSCORRUPTED;
	ret = need_dir(e, ino, &dir);
	if (ret < 0)
		return ret;
	dir->names->live = 0;
	return dir_removed(e, dir);
}

static int apply_cookie(struct env *e, struct bytes *r)
{
	uint64_t ino = take_ino(r), next = bytes_u64(r);
	struct inode *dir;
	int ret;

	if (r->bad)
		return -EFSCORRUPTED;
	ret = need_dir(e, ino, &dir);
	if (ret >= 0)
		dir->names->next_cookie = MAX(dir->names->next_cookie, next);
	return ret;
}

/* What replay.c makes of it has nothing to do with the state. */
static int apply_commit(struct bytes *r)
{
	(void)bytes_u64(r);
	(void)bytes_u64(r);
	return bytes_u8(r) & ~COMMIT_FULL || r->bad ? -EFSCORRUPTED : 0;
}

static int apply_boot(struct bytes *r)
{
	return bytes_take(r, BOOT_ID_BYTES) ? 0 : -EFSCORRUPTED;
}

/* There are no checkpoints yet, so everything is of the first epoch. */
static int apply_epoch(struct bytes *r)
{
	return bytes_u64(r) || r->bad ? -EFSCORRUPTED : 0;
}

static int apply_data(struct env *e, struct bytes *r)
{
	uint64_t block = bytes_u64(r);
	const uint8_t *p = bytes_take(r, ENV_BLOCK);
	int ret;

	if (!p || block < BLOCK_FIRST || block >= DATA_MAX_BLOCK)
		return -EFSCORRUPTED;
	if (!e->writes_data)
		return 0;
	ret = data_need(e);
	if (ret >= 0)
		ret = io_pwrite(e->data.fd, p, ENV_BLOCK,
				block << ENV_BLOCK_SHIFT);
	return ret;
}

/* Items that are about the journal itself. */
static int apply_special(struct env *e, uint8_t type, struct bytes *r)
{
	switch (type) {
	case ITEM_COUNTERS:
		return apply_counters(e, r);
	case ITEM_COOKIE:
		return apply_cookie(e, r);
	case ITEM_OPAQUE:
		return apply_opaque(e, r);
	case ITEM_COMMIT:
		return apply_commit(r);
	case ITEM_BOOT:
		return apply_boot(r);
	case ITEM_EPOCH:
		return apply_epoch(r);
	case ITEM_DATA:
		return apply_data(e, r);
	default:
		return -EFSCORRUPTED;
	}
}

static int apply_item(struct env *e, uint8_t type, struct bytes *r)
{
	switch (type) {
	case ITEM_INODE:
		return apply_inode(e, r);
	case ITEM_TIMES:
		return apply_times(e, r);
	case ITEM_DENT:
		return apply_dent(e, r);
	case ITEM_GONE:
		return apply_gone(e, r);
	case ITEM_MAP:
		return apply_map(e, r);
	case ITEM_CUT:
		return apply_cut(e, r);
	case ITEM_XATTR:
		return apply_xattr(e, r, true);
	case ITEM_XGONE:
		return apply_xattr(e, r, false);
	case ITEM_TARGET:
		return apply_target(e, r);
	case ITEM_FREE:
		return apply_free(e, r);
	default:
		return apply_special(e, type, r);
	}
}

int apply_items(struct env *e, const uint8_t *items, size_t len)
{
	struct bytes r = bytes_of(items, len);

	while (r.left && !r.bad) {
		int ret = apply_item(e, bytes_u8(&r), &r);

		if (ret == -ENOENT) /* an inode that is not there */
			return -EFSCORRUPTED;
		if (ret < 0)
			return ret;
	}
	return r.bad ? -EFSCORRUPTED : 0;
}
