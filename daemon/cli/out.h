/* SPDX-License-Identifier: MIT */
/*
 * out.h - results: the same rows as text or as JSON, one object a line.
 *
 * A verb describes its columns once and adds rows; nothing reaches standard
 * output before out_finish, so that a command that fails has printed nothing.
 *
 * Contract
 *   Ownership   struct out owns what was added; columns are lent
 *   Threads     caller serialises
 *   Errors      out_finish: the error of writing, or -ENOMEM
 */
#ifndef COWFS_CLI_OUT_H
#define COWFS_CLI_OUT_H

#include "base/buf.h"

#include <string.h>

enum out_type {
	OUT_STR,   /* bytes; in JSON also KEY_hex when they are not UTF-8 */
	OUT_ID,	   /* an object's name; a table shows its start */
	OUT_COUNT, /* a number */
	OUT_SIZE,  /* bytes; text shows them with a unit */
	OUT_TIME,  /* seconds since 1970; text shows local time */
	OUT_SPAN,  /* seconds; text shows them with units */
	OUT_BOOL,
	OUT_MODE, /* octal text in both; 0 is no value */
	OUT_LIST, /* strings, each ending in NUL; a JSON array */
	/* Likewise of three strings each: pid, kind, command; JSON only. */
	OUT_PROCESSES,
};

struct out_col {
	const char *key;   /* JSON; NULL: text only */
	const char *title; /* text; NULL: JSON only */
	enum out_type type;
};

/* One value: s and n, or u, by the column's type. A NULL s is no value, nor is
 * what says so: its key is left out. */
struct out_cell {
	const char *s;
	size_t n;
	uint64_t u;
	bool none;
};

enum out_form {
	OUT_TABLE,  /* a heading and aligned columns */
	OUT_FIELDS, /* "title: value" lines */
	OUT_LINES,  /* what out_raw and out_printf say */
};

struct out {
	bool json;
	enum out_form form;
	const struct out_col *cols;
	size_t col_count;
	struct buf text;
	struct buf cells; /* of a table, each ending in NUL */
};

#define _cleanup_out_ _cleanup_(out_fini)

static inline struct out_cell out_str(const char *s)
{
	return (struct out_cell){.s = s, .n = s ? strlen(s) : 0};
}

static inline struct out_cell out_bytes(const void *s, size_t n)
{
	return (struct out_cell){.s = s, .n = n};
}

static inline struct out_cell out_num(uint64_t u)
{
	return (struct out_cell){.u = u};
}

/* A number that may be missing. */
static inline struct out_cell out_num_if(bool there, uint64_t u)
{
	return (struct out_cell){.u = u, .none = !there};
}

void out_init(struct out *o, bool json, enum out_form form,
	      const struct out_col *cols, size_t col_count);
void out_fini(struct out *o);
/* Adds one row: a cell for each column. With OUT_LINES only in JSON. */
void out_row(struct out *o, const struct out_cell *cells);
/* Adds text as it is; ignored in JSON. */
void out_raw(struct out *o, const void *data, size_t n);
void out_printf(struct out *o, const char *fmt, ...) _printf_(2, 3);
/* Writes everything to standard output. */
_must_check_ int out_finish(struct out *o);

/* Appends a size with a unit, a span of time. */
void out_size(struct buf *b, uint64_t bytes);
void out_span(struct buf *b, uint64_t seconds);

#endif
