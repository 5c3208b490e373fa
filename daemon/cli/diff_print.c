/* SPDX-License-Identifier: MIT */
/*
 * diff_print.c - the list of changed paths, as text, as fields or as JSON.
 */
#include "cli/diff_int.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/grow.h"
#include "base/quote.h"

/* A path as it is shown: the root is ".", directories end in '/'. */
static char *show_path(const char *path, size_t len, bool is_dir,
		       size_t *ret_len)
{
	char *shown = malloc(len + 2);

	if (!shown)
		return NULL;
	if (len)
		memcpy(shown, path, len);
	else
		shown[len++] = '.';
	if (is_dir)
		shown[len++] = '/';
	*ret_len = len;
	return shown;
}

void diff_rows_fini(struct diff_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free((char *)(uintptr_t)rows->v[i].path);
		free((char *)(uintptr_t)rows->v[i].old_path);
	}
	free(rows->v);
}

int diff_rows_add(struct diff_rows *rows, const struct diff_row *row)
{
	struct diff_row *made;

	if (GROW(rows->v, rows->count, rows->cap, 64) < 0)
		return -ENOMEM;
	made = &rows->v[rows->count++];
	*made = *row;
	made->path = show_path(row->path, row->path_len, row->is_dir,
			       &made->path_len);
	if (row->old_path)
		made->old_path = show_path(row->old_path, row->old_path_len,
					   row->is_dir, &made->old_path_len);
	return made->path && (made->old_path || !row->old_path) ? 0 : -ENOMEM;
}

static int compare(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	const size_t n = MIN(x->path_len, y->path_len);
	const int c = memcmp(x->path, y->path, n);

	if (c)
		return c;
	return x->path_len < y->path_len ? -1 : x->path_len > y->path_len;
}

/* --- forms ---------------------------------------------------------------- */

static void put_name(struct out *out, enum diff_fields fields, const char *name,
		     size_t len, char end)
{
	_cleanup_buf_ struct buf text = {0};

	if (fields == DIFF_LINES)
		quote_git(&text, name, len);
	else
		buf_put(&text, name, len);
	buf_put_u8(&text, fields == DIFF_LINES ? (uint8_t)end : 0);
	out_raw(out, text.data, text.len);
}

/* As cmd_diff.c has the columns. */
static void put_json(struct out *out, const struct diff_row *row)
{
	out_row(out, (struct out_cell[]){
			     out_str(row->status),
			     out_bytes(row->path, row->path_len),
			     out_bytes(row->old_path, row->old_path_len),
			     out_num(row->is_dir),
			     out_num(row->content),
			     out_num(row->old_size),
			     out_num(row->new_size),
			     out_num(row->old_mode),
			     out_num(row->new_mode),
		     });
}

static void put_row(struct out *out, enum diff_fields fields,
		    const struct diff_row *row)
{
	if (fields == DIFF_SIZES)
		out_printf(out, "%" PRIu64 "%c%" PRIu64 "%c", row->old_size, 0,
			   row->new_size, 0);
	else
		out_printf(out, "%s%c", row->status,
			   fields == DIFF_NUL ? 0 : '\t');
	if (row->old_path)
		put_name(out, fields, row->old_path, row->old_path_len, '\t');
	put_name(out, fields, row->path, row->path_len, '\n');
}

void diff_rows_print(struct diff_rows *rows, enum diff_fields fields,
		     struct out *out)
{
	if (rows->count)
		qsort(rows->v, rows->count, sizeof *rows->v, compare);
	for (size_t i = 0; i < rows->count; i++) {
		if (out->json)
			put_json(out, &rows->v[i]);
		else
			put_row(out, fields, &rows->v[i]);
	}
}
