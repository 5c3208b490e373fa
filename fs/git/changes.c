/* SPDX-License-Identifier: MIT */
/*
 * changes.c - rows with offsets into one text, so that a list of many thousand
 * is two blocks of memory. The set of their names is made at the first
 * question, and forgotten when a row is added.
 */
#include "git/changes.h"

#include "base/grow.h"

#include <errno.h>
#include <string.h>

struct gitchange_name {
	struct hnode node;
	const char *path;
	size_t len;
};

static void names_forget(struct gitchanges *c)
{
	free(TAKE_PTR(c->names));
	hmap_fini(&c->map);
}

void gitchanges_fini(struct gitchanges *c)
{
	names_forget(c);
	free(TAKE_PTR(c->rows));
	buf_fini(&c->text);
	c->count = c->cap = 0;
}

static size_t put_path(struct gitchanges *c, const char *path, size_t len)
{
	const size_t at = c->text.len;

	buf_put(&c->text, path, len);
	buf_put_u8(&c->text, 0);
	return at;
}

int gitchanges_add(struct gitchanges *c, const struct delta_row *row)
{
	struct gitchange *made;

	names_forget(c);
	if (GROW(c->rows, c->count, c->cap, 64) < 0)
		return -ENOMEM;
	made = &c->rows[c->count];
	*made = (struct gitchange){
		.kind = row->kind,
		.is_dir = row->is_dir,
		.path = put_path(c, row->path, row->path_len),
		.path_len = row->path_len,
		.old_path = put_path(c, row->old_path ? row->old_path : "",
				     row->old_path_len),
		.old_path_len = row->old_path_len,
		.old_mode = row->old_mode,
		.new_mode = row->new_mode,
		.new_size = row->new_size,
	};
	c->count += !c->text.failed;
	return buf_error(&c->text);
}

static int name_add(struct gitchanges *c, struct gitchange_name *n, size_t at,
		    size_t len)
{
	n->path = (const char *)c->text.data + at;
	n->len = len;
	return hmap_insert(&c->map, &n->node, hmap_hash_bytes(n->path, len, 0));
}

static int names_make(struct gitchanges *c)
{
	int r = 0;

	c->names = calloc(c->count, 2 * sizeof *c->names);
	if (!c->names)
		return -ENOMEM;
	for (size_t i = 0; i < c->count && r == 0; i++) {
		const struct gitchange *row = &c->rows[i];

		r = name_add(c, &c->names[2 * i], row->path, row->path_len);
		if (r == 0 && row->old_path_len)
			r = name_add(c, &c->names[2 * i + 1], row->old_path,
				     row->old_path_len);
	}
	return r;
}

int gitchanges_has(struct gitchanges *c, const char *path, size_t len)
{
	const uint64_t hash = hmap_hash_bytes(path, len, 0);

	if (!c->count)
		return 0;
	if (!c->names) {
		int r = names_make(c);

		if (r < 0) {
			names_forget(c);
			return r;
		}
	}
	for (struct hnode *h = hmap_first(&c->map, hash); h; h = hmap_next(h)) {
		const struct gitchange_name *n =
			container_of(h, struct gitchange_name, node);

		if (n->len == len && !memcmp(n->path, path, len))
			return 1;
	}
	return 0;
}
