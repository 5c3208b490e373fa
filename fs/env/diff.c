/* SPDX-License-Identifier: MIT */
/*
 * How: collect the paths that may differ (diff_paths.c), compare both sides of
 * each by attributes and bytes, pair deletions with additions of the same
 * inode, sort, call back. What was changed back is equal and so does not show.
 *
 * A rename is told only when it is pure: one name before, one now, the old path
 * free, content and attributes the same.
 */
#include "env/delta.h"
#include "env/diff_int.h"

#include "base/err.h"
#include "base/grow.h"

#include <string.h>
#include <sys/stat.h>

struct diff_row {
	struct delta_row row;
	struct buf key; /* the path as it is shown and sorted */
	struct buf old_key;
};

struct diff {
	struct env *e;
	unsigned flags;
	struct diff_set set;
	struct diff_row *rows;
	size_t count, cap;
};

/* --- comparing -------------------------------------------------------------- */

static int same_xattrs(struct env *e, const struct base_node *old,
		       const struct iattr *now)
{
	_cleanup_buf_ struct buf mine = {0};
	struct object *o;
	int r = xattr_encode(e, now->ino, &mine);

	if (r < 0)
		return r;
	if (oid_is_null(&old->xattrs))
		return mine.len == 0;
	r = base_object(&e->base, &old->xattrs, &o);
	if (r < 0)
		return r;
	r = o->bytes.len == mine.len &&
	    !memcmp(o->bytes.data, mine.data, mine.len);
	base_unpin(&e->base, o);
	return r;
}

static int same_attrs(struct env *e, const struct base_node *old,
		      const struct iattr *now)
{
	if (old->mode != now->mode || old->uid != now->uid ||
	    old->gid != now->gid || old->rdev != now->rdev)
		return 0;
	return same_xattrs(e, old, now);
}

static int same_target(struct env *e, const struct base_node *old,
		       const struct iattr *now)
{
	_cleanup_buf_ struct buf a = {0}, b = {0};
	int r = base_target(&e->base, old->ino, &a);

	if (r >= 0)
		r = file_target_locked(e, now->ino, &b);
	if (r < 0)
		return r;
	return a.len == b.len && !memcmp(a.data, b.data, a.len);
}

/* How many bytes from offset on are known to be the base's own. */
static uint64_t untouched(const struct inode *in, const struct base_node *old,
			  uint64_t offset)
{
	struct run run;
	uint64_t end;

	if (!in || !oid_equal(&in->content, &old->content) ||
	    offset % ENV_BLOCK)
		return 0;
	run = map_run(in, offset >> ENV_BLOCK_SHIFT,
		      (old->size >> ENV_BLOCK_SHIFT) + 1);
	end = offset + (run.count << ENV_BLOCK_SHIFT);
	if (run.kind != RUN_BASE)
		return 0;
	end = MIN(end, in->base_size);
	return end > offset ? end - offset : 0;
}

static int same_bytes(struct env *e, const struct base_node *old,
		      const struct iattr *now)
{
	enum { STEP = FORMAT_CHUNK_BYTES };
	const struct inode *in = itable_find(e, now->ino);
	_cleanup_free_ uint8_t *a = NULL, *b = NULL;
	struct base_node n;
	uint64_t offset = 0;
	int r;

	if (old->size != now->size)
		return 0;
	if (!in) {
		r = base_find(&e->base, now->ino, &n);
		return r < 0 ? r : oid_equal(&n.content, &old->content);
	}
	a = malloc(STEP);
	b = malloc(STEP);
	if (!a || !b)
		return -ENOMEM;
	while (offset < old->size) {
		uint64_t skip = untouched(in, old, offset);
		size_t part = MIN((uint64_t)STEP, old->size - offset);
		ssize_t got;

		if (skip) {
			offset += skip;
			continue;
		}
		/* up to the next block where skipping may start again */
		if (oid_equal(&in->content, &old->content))
			part = MIN(part, (size_t)map_run(in,
							 offset >>
								 ENV_BLOCK_SHIFT,
							 STEP / ENV_BLOCK)
							  .count
						 << ENV_BLOCK_SHIFT);
		r = base_read(&e->base, &old->content, old->size, a, part,
			      offset);
		if (r < 0)
			return r;
		got = file_read_locked(e, now->ino, b, part, offset);
		if (got < 0)
			return (int)got;
		if ((size_t)got != part || memcmp(a, b, part) != 0)
			return 0;
		offset += part;
	}
	return 1;
}

static int same_content(struct env *e, const struct base_node *old,
			const struct iattr *now)
{
	if (S_ISREG(old->mode))
		return same_bytes(e, old, now);
	if (S_ISLNK(old->mode))
		return same_target(e, old, now);
	return 1;
}

/* --- rows ------------------------------------------------------------------- */

static void put_key(struct buf *key, const char *path, size_t len, bool is_dir)
{
	if (len)
		buf_put(key, path, len);
	else
		buf_put_u8(key, '.');
	if (is_dir)
		buf_put_u8(key, '/');
}

static int row_add(struct diff *d, const struct delta_row *row,
		   const struct diff_path *p, const struct diff_path *from)
{
	struct diff_row *r;

	if (GROW(d->rows, d->count, d->cap, 64) < 0)
		return -ENOMEM;
	r = &d->rows[d->count++];
	memset(r, 0, sizeof *r);
	r->row = *row;
	put_key(&r->key, p->path, p->len, row->is_dir);
	if (from)
		put_key(&r->old_key, from->path, from->len, row->is_dir);
	return r->key.failed || r->old_key.failed ? -ENOMEM : 0;
}

static int row_both(struct diff *d, const struct diff_path *p)
{
	struct delta_row row = {
		.is_dir = S_ISDIR(p->now.mode),
		.ino = p->now.ino,
		.old_size = p->old.size,
		.new_size = S_ISDIR(p->now.mode) ? 0 : p->now.size,
		.old_mode = p->old.mode,
		.new_mode = p->now.mode,
	};
	bool times = p->old.mtime.tv_sec != p->now.mtime.tv_sec ||
		     p->old.mtime.tv_nsec != p->now.mtime.tv_nsec;
	int content, attrs;

	if ((p->old.mode & S_IFMT) != (p->now.mode & S_IFMT)) {
		row.kind = DELTA_TYPE;
		row.content_changed = true;
		return row_add(d, &row, p, NULL);
	}
	content = same_content(d->e, &p->old, &p->now);
	if (content < 0)
		return content;
	attrs = same_attrs(d->e, &p->old, &p->now);
	if (attrs < 0)
		return attrs;
	row.content_changed = !content;
	if (!content || !attrs)
		row.kind = DELTA_MODIFIED;
	else if (times && !row.is_dir && (d->flags & DELTA_WITH_TIMES))
		row.kind = DELTA_TIMES;
	else
		return 0;
	return row_add(d, &row, p, NULL);
}

/* Finds the deleted path of which p is the pure rename; NULL: none. */
static int rename_source(struct diff *d, const struct diff_path *p,
			 struct diff_path **ret_from)
{
	_cleanup_buf_ struct buf path = {0};
	struct diff_path *from;
	struct base_node old;
	int r;

	*ret_from = NULL;
	if (p->now.ino > d->e->base.last_ino)
		return 0;
	r = base_find(&d->e->base, p->now.ino, &old);
	if (r < 0)
		return r;
	if (!S_ISDIR(old.mode) && (old.nlink != 1 || p->now.nlink != 1))
		return 0;
	r = diff_base_path(d->e, p->now.ino, &path);
	if (r < 0)
		return r;
	from = diff_find(&d->set, (char *)path.data, path.len);
	if (!from || from->is_now)
		return 0;
	r = same_attrs(d->e, &old, &p->now);
	if (r > 0)
		r = same_content(d->e, &old, &p->now);
	if (r > 0)
		*ret_from = from;
	return r < 0 ? r : 0;
}

static int row_new(struct diff *d, const struct diff_path *p)
{
	struct delta_row row = {
		.kind = DELTA_ADDED,
		.is_dir = S_ISDIR(p->now.mode),
		.ino = p->now.ino,
		.new_size = S_ISDIR(p->now.mode) ? 0 : p->now.size,
		.new_mode = p->now.mode,
		.content_changed = true,
	};
	struct diff_path *from;
	bool empty;
	int r;

	if (row.is_dir) {
		r = dir_is_empty(d->e, p->now.ino, &empty);
		if (r < 0 || !empty)
			return r;
	}
	r = rename_source(d, p, &from);
	if (r < 0)
		return r;
	if (from) {
		from->renamed_away = true;
		row.kind = DELTA_RENAMED;
		row.old_size = row.new_size;
		row.old_mode = row.new_mode;
		row.content_changed = false;
	}
	return row_add(d, &row, p, from);
}

static int row_gone(struct diff *d, const struct diff_path *p)
{
	struct delta_row row = {
		.kind = DELTA_DELETED,
		.is_dir = S_ISDIR(p->old.mode),
		.old_size = p->old.size,
		.old_mode = p->old.mode,
		.content_changed = true,
	};

	return p->renamed_away ? 0 : row_add(d, &row, p, NULL);
}

static int rows_make(struct diff *d)
{
	int r = 0;

	for (size_t i = 0; i < d->set.count && r >= 0; i++) {
		const struct diff_path *p = d->set.paths[i];

		if (p->in_base && p->is_now)
			r = row_both(d, p);
		else if (p->is_now)
			r = row_new(d, p);
	}
	/* last: now it is known which deletions are renames */
	for (size_t i = 0; i < d->set.count && r >= 0; i++) {
		const struct diff_path *p = d->set.paths[i];

		if (p->in_base && !p->is_now)
			r = row_gone(d, p);
	}
	return r;
}

static int row_compare(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	size_t n = MIN(x->key.len, y->key.len);
	int c = memcmp(x->key.data, y->key.data, n);

	if (c)
		return c;
	return x->key.len < y->key.len ? -1 : x->key.len > y->key.len;
}

static int rows_send(struct diff *d, delta_fn fn, void *ctx)
{
	int r = 0;

	if (d->count)
		qsort(d->rows, d->count, sizeof *d->rows, row_compare);
	for (size_t i = 0; i < d->count && !r; i++) {
		struct diff_row *row = &d->rows[i];

		/* the key's slash is the door's to show */
		row->row.path = (char *)row->key.data;
		row->row.path_len = row->key.len - row->row.is_dir;
		if (row->old_key.len) {
			row->row.old_path = (char *)row->old_key.data;
			row->row.old_path_len =
				row->old_key.len - row->row.is_dir;
		}
		r = fn(ctx, &row->row);
	}
	return r;
}

int delta_walk(struct env *e, unsigned flags, delta_fn fn, void *ctx)
{
	struct diff d = {.e = e, .flags = flags};
	int r;

	mutex_lock(&e->lock);
	r = diff_collect(e, &d.set);
	if (r >= 0)
		r = rows_make(&d);
	if (r >= 0)
		r = rows_send(&d, fn, ctx);
	mutex_unlock(&e->lock);
	for (size_t i = 0; i < d.count; i++) {
		buf_fini(&d.rows[i].key);
		buf_fini(&d.rows[i].old_key);
	}
	free(d.rows);
	diff_free(&d.set);
	return r;
}
