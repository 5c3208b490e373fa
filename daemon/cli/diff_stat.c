/* SPDX-License-Identifier: MIT */
/*
 * diff_stat.c - the table of `git diff --stat`, for a line of 80 columns.
 *
 *      dir/name            |  12 +++++-----
 *      {old => new}/name   |   0
 *      image               | Bin 120 -> 4096 bytes
 *      3 files changed, 7 insertions(+), 5 deletions(-)
 *
 * Names get what the graph leaves, and the graph at least three eighths of the
 * line when both do not fit; a name that is too long loses its beginning.
 */
#include "cli/diff.h"

#include <inttypes.h>
#include <string.h>

#include "base/quote.h"
#include "git/diff.h"

enum {
	LINE = 80,
	LEAST_NAME = 16,
	LEAST_GRAPH = 6,
	AROUND = 6, /* " ", " | " and what is between number and graph */
};

struct stat_row {
	size_t name; /* offset into names */
	bool is_binary;
	uint64_t added, deleted; /* lines, or bytes after and before */
};

struct widths {
	size_t name, number, graph;
	uint64_t most; /* lines of one file */
};

void diff_stat_fini(struct diff_stat *s)
{
	buf_fini(&s->rows);
	buf_fini(&s->names);
}

/* The length of what both begin with, up to a '/'. */
static size_t common_start(const char *a, const char *b)
{
	size_t found = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			found = i + 1;
	return found;
}

/* The length of what both end with, from a '/' on; that may be the one at
 * which the common start ends. */
static size_t common_end(const char *a, const char *b, size_t start)
{
	const size_t la = strlen(a), lb = strlen(b);
	const size_t least = start ? start - 1 : 0;
	size_t found = 0;

	for (size_t n = 1; n + least <= la && n + least <= lb; n++) {
		if (a[la - n] != b[lb - n])
			break;
		if (a[la - n] == '/')
			found = n;
	}
	return found;
}

static void put_rename(struct buf *out, const char *old, const char *now)
{
	const size_t start = common_start(old, now);
	const size_t end = common_end(old, now, start);
	const size_t a = strlen(old), b = strlen(now);
	_cleanup_buf_ struct buf x = {0}, y = {0};

	quote_git(&x, old, a);
	quote_git(&y, now, b);
	if (x.len != a || y.len != b) {
		buf_put(out, x.data, x.len);
		buf_printf(out, " => ");
		buf_put(out, y.data, y.len);
		return;
	}
	buf_put(out, old, start);
	if (start + end)
		buf_put_u8(out, '{');
	buf_put(out, old + start, a > start + end ? a - start - end : 0);
	buf_printf(out, " => ");
	buf_put(out, now + start, b > start + end ? b - start - end : 0);
	if (start + end)
		buf_put_u8(out, '}');
	buf_put(out, old + a - end, end);
}

/* A change of kind comes as two rows, and is one line. */
static bool merge(struct diff_stat *s, const struct stat_row *made)
{
	struct stat_row last;
	const size_t at = s->rows.len - sizeof last;
	const char *names = (const char *)s->names.data;

	if (!s->rows.len)
		return false;
	memcpy(&last, s->rows.data + at, sizeof last);
	if (last.is_binary != made->is_binary ||
	    strcmp(names + last.name, names + made->name) != 0)
		return false;
	last.added += made->added;
	last.deleted += made->deleted;
	memcpy(s->rows.data + at, &last, sizeof last);
	return true;
}

int diff_stat_add(struct diff_stat *s, const struct gitdiff_row *row)
{
	struct stat_row made = {
		.name = s->names.len,
		.is_binary = row->is_binary,
		.added = row->insertions,
		.deleted = row->deletions,
	};
	int r;

	if (row->is_binary) {
		made.added = row->content_differs ? row->new_file.size : 0;
		made.deleted = row->content_differs ? row->old_file.size : 0;
	}
	if (row->status == 'R')
		put_rename(&s->names, row->old_path, row->path);
	else
		quote_git(&s->names, row->path, strlen(row->path));
	buf_put_u8(&s->names, 0);
	r = buf_error(&s->names);
	if (r == 0 && !merge(s, &made))
		buf_put(&s->rows, &made, sizeof made);
	return r < 0 ? r : buf_error(&s->rows);
}

static size_t digits(uint64_t n)
{
	size_t count = 1;

	for (; n >= 10; n /= 10)
		count++;
	return count;
}

static struct stat_row row_at(const struct diff_stat *s, size_t i)
{
	struct stat_row row;

	memcpy(&row, s->rows.data + i * sizeof row, sizeof row);
	return row;
}

static const char *name_of(const struct diff_stat *s, const struct stat_row *r)
{
	return (const char *)s->names.data + r->name;
}

/* How the columns of a line are shared. */
static struct widths measure(const struct diff_stat *s, size_t count)
{
	struct widths w = {0};
	size_t binary = 0, line = LINE;

	for (size_t i = 0; i < count; i++) {
		const struct stat_row row = row_at(s, i);

		w.name = MAX(w.name, strlen(name_of(s, &row)));
		if (row.is_binary)
			/* "Bin X -> Y bytes" */
			binary = MAX(binary, 14 + digits(row.added) +
						     digits(row.deleted));
		else
			w.most = MAX(w.most, row.added + row.deleted);
	}
	w.number = MAX(digits(w.most), (size_t)(binary ? 3 : 0));
	line = MAX(line, LEAST_NAME + LEAST_GRAPH + w.number);
	w.graph = w.most + 4 > binary ? (size_t)w.most : binary - 4;
	if (w.name + w.number + AROUND + w.graph <= line)
		return w;
	if (w.graph > line * 3 / 8 - w.number - AROUND)
		w.graph = MAX(line * 3 / 8 - w.number - AROUND,
			      (size_t)LEAST_GRAPH);
	if (w.name > line - w.number - AROUND - w.graph)
		w.name = line - w.number - AROUND - w.graph;
	else
		w.graph = line - w.number - AROUND - w.name;
	return w;
}

static uint64_t scale(uint64_t n, const struct widths *w)
{
	return n ? 1 + n * (w->graph - 1) / w->most : 0;
}

static void put_name(struct out *out, const struct widths *w, const char *name)
{
	size_t len = strlen(name);
	const char *dots = "";

	if (len > w->name) {
		const char *slash;

		dots = "...";
		name += len - w->name + 3;
		slash = strchr(name, '/');
		if (slash)
			name = slash;
		len = strlen(name) + 3;
	}
	out_printf(out, " %s%s%*s |", dots, name,
		   (int)(w->name > len ? w->name - len : 0), "");
}

static void put_graph(struct out *out, const struct widths *w,
		      const struct stat_row *row)
{
	uint64_t added = row->added, deleted = row->deleted;

	if (w->graph <= w->most) {
		uint64_t total = scale(added + deleted, w);

		if (total < 2 && added && deleted)
			total = 2;
		if (added < deleted) {
			added = scale(added, w);
			deleted = total - added;
		} else {
			deleted = scale(deleted, w);
			added = total - deleted;
		}
	}
	for (uint64_t i = 0; i < added; i++)
		out_raw(out, "+", 1);
	for (uint64_t i = 0; i < deleted; i++)
		out_raw(out, "-", 1);
}

static void put_row(struct out *out, const struct widths *w, const char *name,
		    const struct stat_row *row)
{
	const uint64_t lines = row->added + row->deleted;

	put_name(out, w, name);
	if (row->is_binary) {
		out_printf(out, " %*s", (int)w->number, "Bin");
		if (lines)
			out_printf(out, " %" PRIu64 " -> %" PRIu64 " bytes",
				   row->deleted, row->added);
	} else {
		out_printf(out, " %*" PRIu64 "%s", (int)w->number, lines,
			   lines ? " " : "");
		put_graph(out, w, row);
	}
	out_printf(out, "\n");
}

static void put_sum(struct out *out, size_t files, uint64_t added,
		    uint64_t deleted)
{
	out_printf(out, " %zu file%s changed", files, files == 1 ? "" : "s");
	if (added || !deleted)
		out_printf(out, ", %" PRIu64 " insertion%s(+)", added,
			   added == 1 ? "" : "s");
	if (deleted || !added)
		out_printf(out, ", %" PRIu64 " deletion%s(-)", deleted,
			   deleted == 1 ? "" : "s");
	out_printf(out, "\n");
}

void diff_stat_print(const struct diff_stat *s, struct out *out)
{
	const size_t count = s->rows.len / sizeof(struct stat_row);
	const struct widths w = measure(s, count);
	uint64_t added = 0, deleted = 0;

	for (size_t i = 0; i < count; i++) {
		const struct stat_row row = row_at(s, i);

		put_row(out, &w, name_of(s, &row), &row);
		if (!row.is_binary) {
			added += row.added;
			deleted += row.deleted;
		}
	}
	if (count)
		put_sum(out, count, added, deleted);
}
