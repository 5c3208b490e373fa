/* SPDX-License-Identifier: MIT */
/*
 * diff_print.c - the list of changed paths, as text, as fields or as JSON.
 */
#include "cli/diff_int.h"

#include <inttypes.h>
#include <string.h>

#include "base/quote.h"

/* A path as it is shown: the root is ".", directories end in '/'. */
static void show_path(struct buf *out, const char *path, size_t len,
		      bool is_dir)
{
	if (len)
		buf_put(out, path, len);
	else
		buf_put_u8(out, '.');
	if (is_dir)
		buf_put_u8(out, '/');
}

static void put_name(struct out *out, enum diff_fields fields,
		     const struct buf *name, char end)
{
	_cleanup_buf_ struct buf text = {0};

	if (fields == DIFF_LINES)
		quote_git(&text, (const char *)name->data, name->len);
	else
		buf_put(&text, name->data, name->len);
	buf_put_u8(&text, fields == DIFF_LINES ? (uint8_t)end : 0);
	out_raw(out, text.data, text.len);
}

/* As cmd_diff.c has the columns. */
static void put_json(struct out *out, const struct diff_row *row,
		     const struct buf *path, const struct buf *old)
{
	out_row(out, (struct out_cell[]){
			     out_str(row->status),
			     out_bytes(path->data, path->len),
			     out_bytes(old->data, old->len),
			     out_num(row->is_dir),
			     out_num(row->content),
			     out_num(row->old_size),
			     out_num(row->new_size),
			     out_num(row->old_mode),
			     out_num(row->new_mode),
		     });
}

int diff_put_row(struct out *out, enum diff_fields fields,
		 const struct diff_row *row)
{
	_cleanup_buf_ struct buf path = {0}, old = {0};

	show_path(&path, row->path, row->path_len, row->is_dir);
	if (row->old_path)
		show_path(&old, row->old_path, row->old_path_len, row->is_dir);
	if (buf_error(&path) < 0 || buf_error(&old) < 0)
		return -ENOMEM;
	if (out->json) {
		put_json(out, row, &path, &old);
		return 0;
	}
	if (fields == DIFF_SIZES)
		out_printf(out, "%" PRIu64 "%c%" PRIu64 "%c", row->old_size, 0,
			   row->new_size, 0);
	else
		out_printf(out, "%s%c", row->status,
			   fields == DIFF_NUL ? 0 : '\t');
	if (old.len)
		put_name(out, fields, &old, '\t');
	put_name(out, fields, &path, '\n');
	return 0;
}
