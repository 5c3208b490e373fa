/* SPDX-License-Identifier: MIT */
/*
 * How: a rename moves a name, whatever hangs below it: one transaction, for a
 * directory of the base too, because its children are found by number and not
 * by path. A name that is replaced keeps its cookie (dents.c says why).
 */
#include "env/env_int.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct side {
	uint64_t dir;
	const char *name;
	size_t len;
	struct iattr parent;
	bool exists;
	struct found found;
	struct iattr a; /* of what the name stands for */
};

static int side_load(struct env *e, struct side *s)
{
	int r = dir_check(e, s->dir, s->name, &s->parent);

	if (r < 0)
		return r;
	s->len = strlen(s->name);
	r = dir_find(e, s->dir, s->name, s->len, &s->found);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	s->exists = true;
	return inode_get(e, s->found.ino, &s->a);
}

int dir_check_loop(struct env *e, uint64_t moved, uint64_t into)
{
	struct iattr a;

	for (uint64_t depth = 0; into != ENV_ROOT; depth++) {
		int r;

		if (into == moved)
			return -EINVAL;
		if (depth > env_max_depth(e))
			return -EFSCORRUPTED;
		r = inode_get(e, into, &a);
		if (r < 0)
			return r;
		into = a.parent;
	}
	return moved == ENV_ROOT ? -EINVAL : 0;
}

static int check_replace(struct env *e, const struct side *from,
			 const struct side *to)
{
	bool empty;
	int r;

	if (S_ISDIR(from->a.mode) && !S_ISDIR(to->a.mode))
		return -ENOTDIR;
	if (!S_ISDIR(to->a.mode))
		return 0;
	if (!S_ISDIR(from->a.mode))
		return -EISDIR;
	r = dir_is_empty(e, to->found.ino, &empty);
	if (r < 0)
		return r;
	return empty ? 0 : -ENOTEMPTY;
}

/* Adds both parents with their times and link counts. */
static void touch_parents(struct env *e, struct side *from, struct side *to,
			  int from_links, int to_links, struct timespec now)
{
	from->parent.nlink += (uint32_t)from_links;
	if (from->dir == to->dir) {
		from->parent.nlink += (uint32_t)to_links;
	} else {
		to->parent.nlink += (uint32_t)to_links;
		meta_touch_dir(e, &to->parent, now);
	}
	meta_touch_dir(e, &from->parent, now);
}

static int exchange(struct env *e, struct side *from, struct side *to)
{
	struct timespec now = clock_now();
	bool from_dir = S_ISDIR(from->a.mode), to_dir = S_ISDIR(to->a.mode);
	int change = (int)to_dir - (int)from_dir;

	if (!to->exists)
		return -ENOENT;
	if (from->found.ino == to->found.ino)
		return 0;
	tx_begin(e);
	from->a.ctime = to->a.ctime = now;
	if (from_dir)
		from->a.parent = to->dir;
	if (to_dir)
		to->a.parent = from->dir;
	tx_inode(e, &from->a);
	tx_inode(e, &to->a);
	touch_parents(e, from, to, change, -change, now);
	tx_dent(e, from->dir, from->name, from->len, to->found.ino,
		from->found.cookie);
	tx_dent(e, to->dir, to->name, to->len, from->found.ino,
		to->found.cookie);
	return tx_commit(e);
}

/* Adds what stands at the old name from now on: nothing or a whiteout. */
static int leave_name(struct env *e, const struct side *from, unsigned flags)
{
	const struct env_cred root = {0};
	struct iattr w = {.mode = S_IFCHR, .nlink = 1};
	int r;

	if (!(flags & RENAME_WHITEOUT)) {
		tx_gone(e, from->dir, from->name, from->len);
		return 0;
	}
	r = dir_new_inode(e, &from->parent, &root, &w);
	if (r < 0)
		return r;
	w.gid = 0;
	w.mode = S_IFCHR;
	tx_inode(e, &w);
	tx_dent(e, from->dir, from->name, from->len, w.ino, from->found.cookie);
	return 0;
}

static int move(struct env *e, struct side *from, struct side *to,
		unsigned flags)
{
	struct timespec now = clock_now();
	bool is_dir = S_ISDIR(from->a.mode);
	uint64_t cookie = to->found.cookie;
	int r = 0;

	if (to->exists) {
		if (from->found.ino == to->found.ino)
			return 0; /* two names of one file: POSIX */
		r = check_replace(e, from, to);
	} else {
		r = dir_next_cookie(e, to->dir, &cookie);
	}
	if (r < 0)
		return r;
	tx_begin(e);
	from->a.ctime = now;
	if (is_dir)
		from->a.parent = to->dir;
	tx_inode(e, &from->a);
	r = leave_name(e, from, flags);
	if (r >= 0 && to->exists)
		r = dir_drop_link(e, to->found.ino, now);
	if (r < 0)
		return r;
	tx_dent(e, to->dir, to->name, to->len, from->found.ino, cookie);
	touch_parents(e, from, to, is_dir ? -1 : 0,
		      (is_dir ? 1 : 0) -
			      (to->exists && S_ISDIR(to->a.mode) ? 1 : 0),
		      now);
	return tx_commit(e);
}

static int rename_locked(struct env *e, struct side *from, struct side *to,
			 unsigned flags)
{
	int r = side_load(e, from);

	if (r >= 0)
		r = side_load(e, to);
	if (r < 0)
		return r;
	if (!from->exists)
		return -ENOENT;
	if (S_ISDIR(from->a.mode))
		r = dir_check_loop(e, from->found.ino, to->dir);
	if (r >= 0 && (flags & RENAME_EXCHANGE) && to->exists &&
	    S_ISDIR(to->a.mode))
		r = dir_check_loop(e, to->found.ino, from->dir);
	if (r < 0)
		return r;
	if (flags & RENAME_EXCHANGE)
		return exchange(e, from, to);
	if (to->exists && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	return move(e, from, to, flags);
}

int env_rename(struct env *e, uint64_t parent, const char *name,
	       uint64_t new_parent, const char *new_name, unsigned flags)
{
	struct side from = {.dir = parent, .name = name};
	struct side to = {.dir = new_parent, .name = new_name};

	if (flags &
	    ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & RENAME_EXCHANGE) &&
	    (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
		return -EINVAL;
	return WITH_ROOM(e, rename_locked(e, &from, &to, flags));
}
