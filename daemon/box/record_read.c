/* SPDX-License-Identifier: MIT */
/*
 * record_read.c - records are read, also while they are written.
 *
 * How: the last line of a word counts; words that are not known are skipped.
 * What a stream is without is a hole in its file. While something is read, it
 * may become one: then it was zeros, and is read again from behind the hole.
 */
#include "box/record.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/err.h"
#include "base/io.h"
#include "box/record_int.h"

enum { TEXT_MAX = 1 << 20, BLOCK = 4096 };

void record_info_fini(struct record_info *i)
{
	buf_fini(&i->argv);
	buf_fini(&i->dir);
	for (int s = 0; s < 2; s++)
		buf_fini(&i->streams[s].why_lost);
	*i = (struct record_info){0};
}

/* --- lines --------------------------------------------------------------- */

static unsigned digit(char c)
{
	return isdigit((unsigned char)c)
		       ? (unsigned)(c - '0')
		       : (unsigned)(toupper((unsigned char)c) - 'A' + 10);
}

static void put_text(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '%' && isxdigit((unsigned char)s[1]) &&
		    isxdigit((unsigned char)s[2])) {
			buf_put_u8(b,
				   (uint8_t)(digit(s[1]) << 4 | digit(s[2])));
			s += 2;
		} else {
			buf_put_u8(b, (uint8_t)*s);
		}
	}
}

/* "stdout KIND", "stdout-bytes N", "stdout-lost N TEXT". */
static void take_stream(struct record_stream_info *s, const char *word,
			const char *text)
{
	char *end;

	if (!*word) {
		for (int k = 0; k < RECORD_KINDS; k++)
			if (!strcmp(text, record_kinds[k]))
				s->kind = (enum record_kind)k;
	} else if (!strcmp(word, "-bytes")) {
		s->has_total = true;
		s->total = strtoull(text, NULL, 10);
	} else if (!strcmp(word, "-lost")) {
		s->lost = strtoull(text, &end, 10);
		buf_clear(&s->why_lost);
		put_text(&s->why_lost, *end ? end + 1 : end);
	}
}

static void take_line(struct record_info *i, const char *word, const char *text)
{
	const uint64_t n = strtoull(text, NULL, 10);

	if (!strcmp(word, "arg")) {
		put_text(&i->argv, text);
		buf_put_u8(&i->argv, 0);
	} else if (!strcmp(word, "argv-cut")) {
		i->argv_cut = true;
	} else if (!strcmp(word, "dir")) {
		put_text(&i->dir, text);
	} else if (!strcmp(word, "start")) {
		i->start_ns = n;
	} else if (!strcmp(word, "end")) {
		i->end_ns = n;
		i->ended = true;
	} else if (!strcmp(word, "exit")) {
		i->code = (int)n;
	} else if (!strcmp(word, "signal")) {
		i->code = -(int)n;
	} else if (!strcmp(word, "timed-out")) {
		i->timed_out = true;
	} else if (!strcmp(word, "detached")) {
		i->detached = true;
	} else if (!strcmp(word, "cpu")) {
		i->cpu_us = n;
	} else if (!strcmp(word, "memory")) {
		i->memory = n;
	} else if (!strncmp(word, "stdout", 6)) {
		take_stream(&i->streams[0], word + 6, text);
	} else if (!strncmp(word, "stderr", 6)) {
		take_stream(&i->streams[1], word + 6, text);
	}
}

static int take_text(struct record_info *i, char *text)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save);

	if (!line || strncmp(line, "cowfs run ", 10) != 0)
		return -EFSCORRUPTED;
	while ((line = strtok_r(NULL, "\n", &save))) {
		char *value = strchr(line, ' ');

		if (value)
			*value++ = 0;
		take_line(i, line, value ? value : "");
	}
	return buf_error(&i->argv) || buf_error(&i->dir) ? -ENOMEM : 0;
}

int record_read(int folder, uint64_t number, struct record_info *ret)
{
	_cleanup_(record_info_fini) struct record_info i = {.number = number};
	_cleanup_buf_ struct buf text = {0};
	_cleanup_close_ int fd = -1;
	char name[RUNS_NAME];
	int r;

	runs_name(name, number, "");
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Asked before it is read: what has ended is complete. */
	r = io_lock(fd, LOCK_SH | LOCK_NB);
	i.runs = r == -EBUSY;
	if (r && r != -EBUSY)
		return r;
	(void)flock(fd, LOCK_UN);
	r = io_read_file(folder, name, TEXT_MAX, &text);
	if (!r)
		r = buf_str(&text) ? take_text(&i, (char *)text.data) : -ENOMEM;
	if (r)
		return r;
	*ret = i;
	i = (struct record_info){0};
	return 0;
}

/* --- streams ------------------------------------------------------------- */

int record_open_stream(int folder, uint64_t number, int stream)
{
	char name[RUNS_NAME];

	runs_name(name, number, stream ? ".err" : ".out");
	return io_open_file(folder, name, O_RDONLY);
}

/* Where something is kept, at `at` or behind; -1: nowhere. */
static off_t next_kept(int fd, uint64_t at)
{
	return lseek(fd, (off_t)at, SEEK_DATA);
}

ssize_t record_read_stream(int fd, uint64_t *at, void *data, size_t n,
			   uint64_t *ret_cut)
{
	uint8_t *p = data;
	off_t from;
	ssize_t len;
	size_t skip = 0;

	*ret_cut = 0;
	do {
		from = next_kept(fd, *at);
		if (from < 0)
			return 0;
		len = io_pread(fd, data, n, (uint64_t)from);
		if (len <= 0)
			return len;
	} while (next_kept(fd, (uint64_t)from) != from);
	/* A hole ends at a block, but what is left out within one. */
	while ((uint64_t)from > *at && skip < (size_t)len && skip < BLOCK &&
	       !p[skip])
		skip++;
	memmove(p, p + skip, (size_t)len - skip);
	*ret_cut = (uint64_t)from + skip - *at;
	*at = (uint64_t)from + (uint64_t)len;
	return len - (ssize_t)skip;
}
