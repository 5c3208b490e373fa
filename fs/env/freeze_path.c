/* SPDX-License-Identifier: MIT */
/*
 * How: the path of what is looked at grows and shrinks with the walk. Paths to
 * leave out are sorted once and looked up by that text; what the base has there
 * is found by its names, wherever the directories above are now.
 */
#include "env/freeze_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- paths --------------------------------------------------------------- */

size_t freeze_path_push(struct freeze *f, const char *name, size_t len)
{
	size_t old = f->path.len;

	if (old)
		buf_put_u8(&f->path, '/');
	buf_put(&f->path, name, len);
	return old;
}

void freeze_path_pop(struct freeze *f, size_t len)
{
	f->path.len = len;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool freeze_is_left(struct freeze *f)
{
	const char *key;

	if (!f->left_count)
		return false;
	key = buf_str(&f->path);
	return key && bsearch(&key, f->left, f->left_count, sizeof *f->left,
			      compare_paths);
}

int freeze_left_init(struct freeze *f, const struct buf *left)
{
	size_t n = 0;

	for (size_t i = 0; i < left->len; i++)
		n += !left->data[i];
	if (!n)
		return 0;
	f->left = calloc(n, sizeof *f->left);
	if (!f->left)
		return -ENOMEM;
	for (size_t i = 0; f->left_count < n;) {
		const char *path = (const char *)left->data + i;

		f->left[f->left_count++] = path;
		i += strlen(path) + 1;
	}
	qsort(f->left, n, sizeof *f->left, compare_paths);
	return 0;
}

/* --- what the base has --------------------------------------------------- */

static int base_at_path(struct freeze *f, struct base_node *ret)
{
	const char *path = buf_str(&f->path);
	int r = path ? base_find(&f->e->base, ENV_ROOT, ret) : -ENOMEM;

	while (r >= 0 && *path) {
		size_t len = strcspn(path, "/");

		if (!S_ISDIR(ret->mode))
			return -ENOENT;
		r = base_lookup(&f->e->base, ret->ino, path, len, ret, NULL);
		path += len + (path[len] == '/');
	}
	return r;
}

/* Sets what an entry says of the directory that an old tree is of. */
int freeze_old_tree(struct freeze *f, const struct oid *tree,
		    struct tree_entry *t)
{
	struct object *o;
	int r = base_object(&f->e->base, tree, &o);

	if (r < 0)
		return r;
	t->content = *tree;
	t->size = o->tree.subdirs;
	t->below = o->tree.total;
	base_unpin(&f->e->base, o);
	return 0;
}

void freeze_set_target(struct freeze *f, struct tree_entry *t)
{
	t->target = (const char *)f->target.data;
	t->target_len = (uint16_t)f->target.len;
	t->size = f->target.len;
}

int freeze_base_entry(struct freeze *f, struct tree_entry *ret_entry,
		      uint64_t *ret_ino)
{
	struct base_node n;
	struct tree_entry t;
	int r = base_at_path(f, &n);

	if (r < 0)
		return r;
	t = (struct tree_entry){
		.mode = n.mode,
		.uid = n.uid,
		.gid = n.gid,
		.rdev = n.rdev,
		.mtime_sec = n.mtime.tv_sec,
		.mtime_nsec = (uint32_t)n.mtime.tv_nsec,
		.size = n.size,
		.content = n.content,
		.xattrs = n.xattrs,
	};
	if (S_ISDIR(n.mode)) {
		r = freeze_old_tree(f, &n.content, &t);
	} else if (S_ISLNK(n.mode)) {
		buf_clear(&f->target);
		r = base_target(&f->e->base, n.ino, &f->target);
		freeze_set_target(f, &t);
	}
	if (r < 0)
		return r;
	*ret_entry = t;
	*ret_ino = n.ino;
	return 0;
}
