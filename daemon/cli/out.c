/* SPDX-License-Identifier: MIT */
/*
 * out.c - rows are rendered when they are added, tables when all are known.
 *
 * JSON objects are built by json-c, which escapes; names that are not UTF-8
 * are mended before (quote.c) and their bytes given once more in hex. Cells of
 * a table are kept as strings until the widths are known.
 */
#include "cli/out.h"

#include <assert.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/quote.h"

enum { ID_SHORT = 12, MAX_COLS = 40 };

void out_init(struct out *o, bool json, enum out_form form,
	      const struct out_col *cols, size_t col_count)
{
	assert(col_count <= MAX_COLS);
	*o = (struct out){.json = json,
			  .form = form,
			  .cols = cols,
			  .col_count = col_count};
}

void out_fini(struct out *o)
{
	buf_fini(&o->text);
	buf_fini(&o->cells);
}

void out_size(struct buf *b, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		buf_printf(b, "%" PRIu64 " B", bytes);
		return;
	}
	for (value /= 1024; value >= 1024 && units[unit + 1]; unit++)
		value /= 1024;
	buf_printf(b, "%.1f %ciB", value, units[unit]);
}

void out_span(struct buf *b, uint64_t s)
{
	if (s >= 86400)
		buf_printf(b, "%" PRIu64 "d ", s / 86400);
	if (s >= 3600)
		buf_printf(b, "%" PRIu64 "h ", s / 3600 % 24);
	if (s >= 60)
		buf_printf(b, "%" PRIu64 "m ", s / 60 % 60);
	buf_printf(b, "%" PRIu64 "s", s % 60);
}

static void text_time(struct buf *b, uint64_t seconds)
{
	time_t t = (time_t)seconds;
	struct tm tm;
	char s[40];

	if (localtime_r(&t, &tm) && strftime(s, sizeof s, "%F %T", &tm))
		buf_printf(b, "%s", s);
	else
		buf_printf(b, "%" PRIu64, seconds);
}

static void text_list(struct buf *b, const struct out_cell *c)
{
	for (size_t i = 0; i < c->n; i += strlen(c->s + i) + 1) {
		if (i)
			buf_put_u8(b, ',');
		quote_line(b, c->s + i, strlen(c->s + i));
	}
}

/* Appends a cell as text; an empty one shows as "-". */
static void text_cell(const struct out *o, struct buf *b, enum out_type type,
		      const struct out_cell *c)
{
	size_t before = b->len;

	switch (type) {
	case OUT_STR:
		quote_line(b, c->s, c->n);
		break;
	case OUT_ID:
		buf_put(b, c->s,
			o->form == OUT_TABLE ? MIN(c->n, (size_t)ID_SHORT)
					     : c->n);
		break;
	case OUT_COUNT:
		buf_printf(b, "%" PRIu64, c->u);
		break;
	case OUT_SIZE:
		out_size(b, c->u);
		break;
	case OUT_TIME:
		text_time(b, c->u);
		break;
	case OUT_SPAN:
		out_span(b, c->u);
		break;
	case OUT_BOOL:
		buf_printf(b, "%s", c->u ? "yes" : "no");
		break;
	case OUT_MODE:
		buf_printf(b, "%06" PRIo64, c->u);
		break;
	case OUT_LIST:
	case OUT_PROCESSES:
		text_list(b, c);
		break;
	}
	if (b->len == before)
		buf_put_u8(b, '-');
}

/* --- JSON -------------------------------------------------------------- */

static struct json_object *json_text(const char *s, size_t n, bool *ret_good)
{
	_cleanup_buf_ struct buf b = {0};

	*ret_good = quote_utf8(&b, s, n);
	return json_object_new_string_len(b.data ? (const char *)b.data : "",
					  (int)b.len);
}

static void json_add_str(struct json_object *row, const char *key,
			 const struct out_cell *c)
{
	_cleanup_buf_ struct buf name = {0}, hex = {0};
	const char *hex_key, *hex_text;
	bool good;

	(void)json_object_object_add(row, key, json_text(c->s, c->n, &good));
	if (good)
		return;
	buf_printf(&name, "%s_hex", key);
	quote_hex(&hex, c->s, c->n);
	hex_key = buf_str(&name);
	hex_text = buf_str(&hex);
	if (hex_key && hex_text)
		(void)json_object_object_add(row, hex_key,
					     json_object_new_string(hex_text));
}

static struct json_object *json_list(const struct out_cell *c)
{
	struct json_object *list = json_object_new_array();
	bool good;

	for (size_t i = 0; i < c->n; i += strlen(c->s + i) + 1)
		(void)json_object_array_add(
			list, json_text(c->s + i, strlen(c->s + i), &good));
	return list;
}

/* Returns the string behind s. */
static const char *next_string(const char *s)
{
	return s + strlen(s) + 1;
}

static struct json_object *json_processes(const struct out_cell *c)
{
	struct json_object *list = json_object_new_array();
	const char *s = c->s, *end = s + c->n;
	bool good;

	while (s && s < end) {
		struct json_object *one = json_object_new_object();
		const char *kind = next_string(s);
		const char *command = next_string(kind);

		(void)json_object_object_add(
			one, "pid",
			json_object_new_uint64(strtoull(s, NULL, 10)));
		(void)json_object_object_add(one, "kind",
					     json_object_new_string(kind));
		(void)json_object_object_add(
			one, "command",
			json_text(command, strlen(command), &good));
		(void)json_object_array_add(list, one);
		s = next_string(command);
	}
	return list;
}

static struct json_object *json_value(enum out_type type,
				      const struct out_cell *c)
{
	char mode[32];

	switch (type) {
	case OUT_BOOL:
		return json_object_new_boolean(c->u != 0);
	case OUT_MODE:
		(void)snprintf(mode, sizeof mode, "%06" PRIo64, c->u);
		return json_object_new_string(mode);
	case OUT_LIST:
		return json_list(c);
	case OUT_PROCESSES:
		return json_processes(c);
	default:
		return json_object_new_uint64(c->u);
	}
}

static void json_row(struct out *o, const struct out_cell *cells)
{
	struct json_object *row = json_object_new_object();
	const char *text;

	(void)json_object_object_add(row, "v", json_object_new_int(1));
	for (size_t i = 0; i < o->col_count; i++) {
		const struct out_col *col = &o->cols[i];
		bool is_text = col->type == OUT_STR || col->type == OUT_ID;

		if (!col->key || cells[i].none || (is_text && !cells[i].s) ||
		    (col->type == OUT_MODE && !cells[i].u))
			continue;
		if (is_text)
			json_add_str(row, col->key, &cells[i]);
		else
			(void)json_object_object_add(
				row, col->key,
				json_value(col->type, &cells[i]));
	}
	text = json_object_to_json_string_ext(
		row, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (text)
		buf_printf(&o->text, "%s\n", text);
	else
		o->text.failed = true;
	(void)json_object_put(row);
}

/* --- text -------------------------------------------------------------- */

void out_row(struct out *o, const struct out_cell *cells)
{
	struct buf *b = o->form == OUT_TABLE ? &o->cells : &o->text;

	if (o->json) {
		json_row(o, cells);
		return;
	}
	if (o->form == OUT_LINES)
		return;
	for (size_t i = 0; i < o->col_count; i++) {
		if (!o->cols[i].title)
			continue;
		if (o->form == OUT_FIELDS)
			buf_printf(b, "%s: ", o->cols[i].title);
		text_cell(o, b, o->cols[i].type, &cells[i]);
		buf_put_u8(b, o->form == OUT_FIELDS ? '\n' : 0);
	}
}

void out_raw(struct out *o, const void *data, size_t n)
{
	if (!o->json)
		buf_put(&o->text, data, n);
}

void out_printf(struct out *o, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	if (o->json)
		return;
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0) {
		o->text.failed = true;
		return;
	}
	buf_put(&o->text, s, (size_t)n);
	free(s);
}

/* Columns as people see them: characters, not bytes. */
static size_t display_width(const char *s)
{
	size_t width = 0;

	for (; *s; s++)
		width += ((unsigned char)*s & 0xc0) != 0x80;
	return width;
}

static void put_padded(struct buf *b, const char *s, size_t width, bool last)
{
	size_t have = display_width(s);

	buf_printf(b, "%s", s);
	if (last)
		buf_put_u8(b, '\n');
	else
		buf_printf(b, "%*s", (int)(width > have ? width - have : 0) + 2,
			   "");
}

static void render_table(struct out *o)
{
	const char *titles[MAX_COLS];
	size_t width[MAX_COLS], n = 0, at = 0;
	const char *s = (const char *)o->cells.data, *end;

	if (!s)
		return;
	end = s + o->cells.len;
	for (size_t i = 0; i < o->col_count; i++)
		if (o->cols[i].title) {
			titles[n] = o->cols[i].title;
			width[n++] = display_width(o->cols[i].title);
		}
	if (!n)
		return;
	for (const char *c = s; c < end; c += strlen(c) + 1, at++)
		width[at % n] = MAX(width[at % n], display_width(c));
	for (at = 0; at < n; at++)
		put_padded(&o->text, titles[at], width[at], at + 1 == n);
	at = 0;
	for (const char *c = s; c < end; c += strlen(c) + 1, at++)
		put_padded(&o->text, c, width[at % n], at % n + 1 == n);
}

int out_finish(struct out *o)
{
	int r = buf_error(&o->cells);

	if (!r && !o->json && o->form == OUT_TABLE)
		render_table(o);
	if (!r)
		r = buf_error(&o->text);
	if (!r && o->text.len)
		r = io_write(STDOUT_FILENO, o->text.data, o->text.len);
	return r;
}
