/* SPDX-License-Identifier: MIT */
/*
 * logs_copy.c - records are taken out of an environment, as `logs` shows them:
 * runs.json is what `logs --json` prints, N.out and N.err what `logs ENV N`
 * does, and db.log what the database server has said.
 */
#include "cli/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

enum { DB_LOG_MAX = 64 << 20, NAME_BYTES = 32 };

struct copying {
	int from, to;
	uint64_t number;
	int out; /* the file that is written */
};

static int create(int dir, const char *name)
{
	int fd = openat(dir, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0666);

	return fd < 0 ? -errno : fd;
}

static int write_new(int dir, const char *name, const void *data, size_t n)
{
	_cleanup_close_ int fd = create(dir, name);

	return fd < 0 ? fd : io_write(fd, data, n);
}

static int put_piece(void *ctx, int stream, const void *data, size_t n,
		     uint64_t cut)
{
	const struct copying *c = ctx;
	_cleanup_buf_ struct buf note = {0};

	(void)stream;
	if (!cut)
		return io_write(c->out, data, n);
	logs_cut_note(&note, cut);
	return io_write(c->out, note.data, note.len);
}

static int copy_stream(struct copying *c, int stream)
{
	_cleanup_close_ int in = record_open_stream(c->from, c->number, stream);
	char name[NAME_BYTES];
	uint64_t at = 0;
	int r;

	if (in < 0)
		return in == -ENOENT ? 0 : in;
	(void)snprintf(name, sizeof name, "%llu.%s",
		       (unsigned long long)c->number, stream ? "err" : "out");
	c->out = create(c->to, name);
	if (c->out < 0)
		return c->out;
	r = logs_read(in, stream, &at, put_piece, c);
	if (close(c->out) < 0 && r >= 0)
		r = -errno;
	return MIN(r, 0);
}

static int copy_runs(struct copying *c, const char *env,
		     const struct buf *numbers)
{
	_cleanup_out_ struct out o;
	int r = 0;

	out_init(&o, true, OUT_LINES, logs_columns, LOGS_COLUMNS);
	for (size_t i = 0; i < numbers->len / sizeof c->number && !r; i++) {
		_cleanup_(record_info_fini) struct record_info info = {0};

		c->number = record_number(numbers, i);
		/* It may be torn by a power cut. */
		if (record_read(c->from, c->number, &info) < 0)
			continue;
		logs_row(&o, env, &info, NULL);
		r = copy_stream(c, 0);
		if (!r)
			r = copy_stream(c, 1);
	}
	if (!r)
		r = buf_error(&o.text);
	return r ? r : write_new(c->to, "runs.json", o.text.data, o.text.len);
}

static int copy_db(const struct call *c, const char *env, int to)
{
	_cleanup_buf_ struct buf path = {0}, text = {0};
	int r;

	buf_printf(&path, "%s/envs/%s/box/db.log", c->store, env);
	if (!buf_str(&path))
		return -ENOMEM;
	r = io_read_file(AT_FDCWD, buf_str(&path), DB_LOG_MAX, &text);
	if (r)
		return r == -ENOENT ? 0 : r;
	return write_new(to, "db.log", text.data, text.len);
}

int logs_copy(const struct call *c, const char *env, int dir, const char *name)
{
	_cleanup_buf_ struct buf numbers = {0};
	_cleanup_close_ int from = record_open(c->store, env), to = -1;
	struct copying copy = {.from = from};
	int r;

	if (from < 0)
		return from == -ENOENT ? 0 : from;
	r = record_list(from, &numbers);
	if (r || !numbers.len)
		return r;
	if (mkdirat(dir, name, 0777) < 0)
		return -errno;
	to = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return -errno;
	copy.to = to;
	r = copy_runs(&copy, env, &numbers);
	if (!r)
		r = copy_db(c, env, to);
	return r ? r : (int)(numbers.len / sizeof copy.number);
}
