/* SPDX-License-Identifier: MIT */
/*
 * gitdiff_text.c - the lines of a patch before its content, as git writes them:
 *
 *     diff --git a/OLD b/NEW
 *     old mode, new mode | new file mode | deleted file mode
 *     similarity index, rename from, rename to
 *     index OLD..NEW[ MODE]        when the content differs; whole ids, which
 *                                  binary patches need
 *     --- a/OLD, +++ b/NEW         of text
 *
 * A name with a control byte, a quote, a backslash or a byte above 126 is
 * quoted whole, with its "a/"; in the last two lines one with a space ends in
 * a tab, so that its end is known.
 */
#include "git/diff_int.h"

#include <string.h>

#include "base/quote.h"

static void put_name(struct buf *out, const char *prefix, const char *name)
{
	_cleanup_buf_ struct buf whole = {0};

	buf_printf(&whole, "%s%s", prefix, name);
	if (buf_error(&whole) < 0)
		out->failed = true;
	else
		quote_git(out, (const char *)whole.data, whole.len);
}

static void put_rename(struct buf *out, const struct gitdiff_row *row)
{
	buf_printf(out, "similarity index %u%%\nrename from ", row->similarity);
	put_name(out, "", row->old_path);
	buf_printf(out, "\nrename to ");
	put_name(out, "", row->path);
	buf_put_u8(out, '\n');
}

static void put_modes(struct buf *out, const struct gitdiff_row *row)
{
	const uint32_t old = row->old_file.mode, now = row->new_file.mode;

	if (!old)
		buf_printf(out, "new file mode %06o\n", now);
	else if (!now)
		buf_printf(out, "deleted file mode %06o\n", old);
	else if (old != now)
		buf_printf(out, "old mode %06o\nnew mode %06o\n", old, now);
}

static void put_index(struct buf *out, const struct gitdiff_text *t)
{
	char old[GIT_OID_HEXSZ + 1], now[GIT_OID_HEXSZ + 1];
	const struct gitdiff_row *row = t->row;

	(void)git_oid_tostr(old, sizeof old, t->id[0]);
	(void)git_oid_tostr(now, sizeof now, t->id[1]);
	buf_printf(out, "index %s..%s", old, now);
	if (row->old_file.mode == row->new_file.mode)
		buf_printf(out, " %06o", row->new_file.mode);
	buf_put_u8(out, '\n');
}

void gitdiff_put_header(struct buf *out, const struct gitdiff_text *t)
{
	const struct gitdiff_row *row = t->row;

	buf_printf(out, "diff --git ");
	put_name(out, "a/", row->old_path);
	buf_put_u8(out, ' ');
	put_name(out, "b/", row->path);
	buf_put_u8(out, '\n');
	put_modes(out, row);
	if (row->status == 'R')
		put_rename(out, row);
	if (!git_oid_equal(t->id[0], t->id[1]))
		put_index(out, t);
}

static void put_side(struct buf *out, const struct gitdiff_text *t, bool is_new)
{
	const struct gitdiff_row *row = t->row;

	if (!(is_new ? row->new_file.mode : row->old_file.mode))
		buf_printf(out, "/dev/null");
	else
		put_name(out, is_new ? "b/" : "a/",
			 is_new ? row->path : row->old_path);
}

static void put_name_line(struct buf *out, const struct gitdiff_text *t,
			  bool is_new)
{
	const struct gitdiff_row *row = t->row;
	const char *name = is_new ? row->path : row->old_path;
	const bool there = is_new ? row->new_file.mode : row->old_file.mode;

	buf_printf(out, "%s ", is_new ? "+++" : "---");
	put_side(out, t, is_new);
	if (there && strchr(name, ' '))
		buf_put_u8(out, '\t');
	buf_put_u8(out, '\n');
}

void gitdiff_put_names(struct buf *out, const struct gitdiff_text *t)
{
	put_name_line(out, t, false);
	put_name_line(out, t, true);
}

void gitdiff_put_differ(struct buf *out, const struct gitdiff_text *t)
{
	buf_printf(out, "Binary files ");
	put_side(out, t, false);
	buf_printf(out, " and ");
	put_side(out, t, true);
	buf_printf(out, " differ\n");
}

struct content {
	struct buf *out;
	const struct gitdiff_text *t;
	bool has_names;
};

static int put_line(const git_diff_delta *delta, const git_diff_hunk *hunk,
		    const git_diff_line *line, void *ctx)
{
	struct content *c = ctx;

	switch (line->origin) {
	case GIT_DIFF_LINE_FILE_HDR:
		return 0; /* ours is there already */
	case GIT_DIFF_LINE_HUNK_HDR:
		if (!c->has_names)
			gitdiff_put_names(c->out, c->t);
		c->has_names = true;
		break;
	case GIT_DIFF_LINE_CONTEXT:
	case GIT_DIFF_LINE_ADDITION:
	case GIT_DIFF_LINE_DELETION:
		buf_put_u8(c->out, (uint8_t)line->origin);
		break;
	default:
		break;
	}
	buf_put(c->out, line->content, line->content_len);
	return buf_error(c->out) < 0 ? GIT_ERROR : 0;
}

int gitdiff_put_content(struct buf *out, const struct gitdiff_text *t,
			git_patch *patch)
{
	struct content c = {.out = out, .t = t};

	return git_patch_print(patch, put_line, &c);
}
