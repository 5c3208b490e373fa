/* SPDX-License-Identifier: MIT */
/*
 * logs.c - a run, as it is shown.
 */
#include "cli/logs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { NS_PER_S = 1000000000, NS_PER_MS = 1000000, PIECE = 64 << 10 };

/* --- texts --------------------------------------------------------------- */

static const char *state_of(const struct record_info *i)
{
	return i->runs	  ? i->ended ? "writing" : "running"
	       : i->ended ? "ended"
			  : "lost";
}

static void put_result(const struct record_info *i, struct buf *b)
{
	const char *name = i->code < 0 ? sigabbrev_np(-i->code) : NULL;

	if (!i->ended)
		buf_printf(b, "%s", state_of(i));
	else if (i->timed_out)
		buf_printf(b, "timed out");
	else if (name)
		buf_printf(b, "SIG%s", name);
	else if (i->code < 0)
		buf_printf(b, "signal %d", -i->code);
	else
		buf_printf(b, "%d", i->code);
}

static void put_seconds(uint64_t ms, struct buf *b)
{
	if (ms < 60000)
		buf_printf(b, "%" PRIu64 ".%03" PRIu64 "s", ms / 1000,
			   ms % 1000);
	else
		out_span(b, ms / 1000);
}

/* Words with something else than letters in quotes: it may be copied. */
static void put_command(const struct record_info *i, struct buf *b)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz"
				    "0123456789_-./=:,@+%*";

	for (size_t at = 0; at < i->argv.len;) {
		const char *s = (const char *)i->argv.data + at;
		const size_t n = strlen(s);

		if (at)
			buf_put_u8(b, ' ');
		if (n && strspn(s, plain) == n)
			buf_put(b, s, n);
		else
			buf_printf(b, "'%s'", s);
		at += n + 1;
	}
	if (i->argv_cut)
		buf_printf(b, " ...");
}

/* --- a row --------------------------------------------------------------- */

static uint64_t span_ms(const struct record_info *i)
{
	const struct timespec t = clock_now();
	const uint64_t now =
		(uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
	const uint64_t end = i->ended ? i->end_ns : now;

	return end > i->start_ns ? (end - i->start_ns) / NS_PER_MS : 0;
}

/* The last five cells of a stream. */
static void stream_cells(const struct record_info *i, int n,
			 const struct logs_text *text, struct out_cell c[5])
{
	const struct record_stream_info *s = &i->streams[n];
	const struct buf *b = text ? text->streams[n] : NULL;

	c[0] = out_str(record_kinds[s->kind]);
	c[1] = out_num_if(s->has_total, s->total);
	c[2] = out_num_if(s->lost, s->lost);
	c[3] = out_num_if(b && text->cut[n], b ? text->cut[n] : 0);
	c[4] = b ? out_bytes(b->len ? (const char *)b->data : "", b->len)
		 : out_str(NULL);
}

void logs_row(struct out *o, const char *env, const struct record_info *i,
	      const struct logs_text *text)
{
	_cleanup_buf_ struct buf span = {0}, cpu = {0}, memory = {0},
				 result = {0}, command = {0};
	const bool known = i->ended && i->memory;
	const char *dir = i->dir.len ? (const char *)i->dir.data : "";
	struct out_cell c[LOGS_COLUMNS] = {
		out_str(env),
		out_num(i->number),
		out_num(i->start_ns / NS_PER_S),
		out_num(i->start_ns / NS_PER_MS),
		out_num_if(i->ended, i->end_ns / NS_PER_MS),
		{0},
		out_num_if(known, i->cpu_us / 1000),
		{0},
		out_num_if(known, i->memory),
		{0},
		out_str(state_of(i)),
		{0},
		out_num_if(i->ended && i->code >= 0, (uint64_t)i->code),
		out_num_if(i->ended && i->code < 0, (uint64_t)-i->code),
		out_num_if(i->timed_out, 1),
		out_num_if(i->detached, 1),
		out_bytes(dir, i->dir.len),
		out_bytes(i->argv.data, i->argv.len),
		out_num_if(i->argv_cut, 1),
	};

	put_seconds(span_ms(i), &span);
	if (known) {
		put_seconds(i->cpu_us / 1000, &cpu);
		out_size(&memory, i->memory);
	}
	put_result(i, &result);
	put_command(i, &command);
	c[5] = out_bytes(span.data, span.len);
	c[7] = out_bytes(cpu.data, cpu.len);
	c[9] = out_bytes(memory.data, memory.len);
	c[11] = out_bytes(result.data, result.len);
	c[19] = out_bytes(command.data, command.len);
	stream_cells(i, 0, text, c + 20);
	stream_cells(i, 1, text, c + 25);
	out_row(o, c);
}

/* --- streams ------------------------------------------------------------- */

int logs_read(int fd, int stream, uint64_t *at, logs_piece_fn fn, void *ctx)
{
	_cleanup_free_ uint8_t *data = malloc(PIECE);
	uint64_t cut;
	ssize_t n;
	int r = 0;

	if (!data)
		return -ENOMEM;
	while ((n = record_read_stream(fd, at, data, PIECE, &cut)) > 0 ||
	       (n == 0 && cut)) {
		if (cut)
			r = fn(ctx, stream, NULL, 0, cut);
		if (r >= 0 && n)
			r = fn(ctx, stream, data, (size_t)n, 0);
		if (r < 0)
			return r;
	}
	return (int)n;
}

void logs_cut_note(struct buf *b, uint64_t cut)
{
	buf_printf(b, "\n[cowfs: %" PRIu64 " bytes are left out]\n", cut);
}

const char *logs_missing(const struct record_info *i, int n, struct buf *text)
{
	static const char *const why[RECORD_KINDS] = {
		[RECORD_TERMINAL] = "went to a terminal, and is not kept",
		[RECORD_DEVICE] = "went to a device, and is not kept",
		[RECORD_TWO_WAY] = "is standard input, too, and is not kept",
	};
	static const char *const names[] = {"standard output",
					    "standard error"};
	const struct record_stream_info *s = &i->streams[n];

	if (why[s->kind])
		buf_printf(text, "%s %s", names[n], why[s->kind]);
	else if (s->lost)
		buf_printf(text, "%s: %" PRIu64 " bytes were not kept: %.*s",
			   names[n], s->lost, (int)s->why_lost.len,
			   (const char *)s->why_lost.data);
	else if (!i->ended && s->kind == RECORD_FILE)
		buf_printf(text,
			   "%s goes to a file, and is kept when the "
			   "command ends",
			   names[n]);
	return text->len ? buf_str(text) : NULL;
}
