/* SPDX-License-Identifier: MIT */
/*
 * How: a child checks the pages and then lets LMDB read every row twice, as a
 * list and by its key. What it finds comes back through a pipe; that it ends by
 * a signal, or not in time, is the finding. The checks of pages.c are there so
 * that it never does; but LMDB is not our code, and a disk may answer a mapped
 * read with SIGBUS.
 */
#include "store/fsck.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "store/index_int.h"
#include "store/mark_int.h"
#include "store/pages_int.h"

enum {
	NS_PER_MS = 1000000,
	TOLD_MAX = 64 << 10,
	CHILD_SOUND = 0,
	CHILD_DAMAGED = 1,
	CHILD_FAILED = 64, /* and the errno */
};

/* --- the child ----------------------------------------------------------- */

static void tell_pipe(void *ctx, const char *rule, const char *text)
{
	const int *fd = ctx;
	_cleanup_buf_ struct buf b = {0};

	buf_put(&b, rule, strlen(rule) + 1);
	buf_put(&b, text, strlen(text) + 1);
	/* The exit code says it, too. */
	if (!b.failed)
		(void)!io_write(*fd, b.data, b.len);
}

/* Reads the rows of a table in both ways. */
static int walk_table(struct index *x, enum index_table table)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_free_ uint8_t *value = malloc(INDEX_MAX_VALUE);
	_cleanup_buf_ struct buf rows = {0};
	struct bytes in;
	int r = value ? index_txn_begin(x, false, &t) : -ENOMEM;

	if (r == 0)
		r = index_list(&t, table, index_key_of(NULL, 0), &rows);
	in = bytes_of(rows.data, rows.len);
	while (r == 0 && in.left > 0) {
		size_t key_len, len;
		const uint8_t *key =
			bytes_block(&in, INDEX_MAX_VALUE, &key_len);
		const uint8_t *want = bytes_block(&in, INDEX_MAX_VALUE, &len);
		const int n = index_get(&t, table, index_key_of(key, key_len),
					value, INDEX_MAX_VALUE);

		if (n < 0 || (size_t)n != len || memcmp(value, want, len) != 0)
			r = -EFSCORRUPTED;
	}
	return r;
}

static int walk_rows(const char *dir)
{
	struct index *x = NULL;
	int r = index_open(dir, INDEX_LOOK, &x);

	for (int i = 0; r == 0 && i < INDEX_TABLES; i++)
		r = walk_table(x, i);
	index_close(x);
	return r;
}

static int child(const char *path, int out)
{
	_cleanup_buf_ struct buf dir = {0};
	_cleanup_close_ int fd = -1;
	int r;

	buf_printf(&dir, "%s/index", path);
	if (!buf_str(&dir))
		return CHILD_FAILED + ENOMEM;
	fd = open(buf_str(&dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : pages_check(fd, tell_pipe, &out);
	if (r > 0)
		return CHILD_DAMAGED;
	/* Written to all the time: then LMDB's own view has to do. */
	if (r == 0 || r == -EAGAIN)
		r = walk_rows(buf_str(&dir));
	if (r == 0)
		return CHILD_SOUND;
	if (r == -EACCES || r == -EPERM || r == -ENOMEM || r == -EBUSY ||
	    r == -EMFILE || r == -ENFILE) {
		tell_pipe(&out, "", err_text(r));
		return CHILD_FAILED - r;
	}
	tell_pipe(&out, r == -EFSBADCRC ? "S11" : "S25",
		  r == -ENOENT || r == -ENOTDIR ? "it is missing"
						: "its rows cannot be read");
	return CHILD_DAMAGED;
}

/* --- the parent ---------------------------------------------------------- */

/* Reads what the child says until its end. -ETIMEDOUT. */
static int listen(int fd, unsigned limit_s, struct buf *told)
{
	const uint64_t end =
		clock_mono_ns() + (uint64_t)limit_s * 1000 * NS_PER_MS;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const uint64_t now = clock_mono_ns();
		uint8_t part[4096];
		ssize_t n;

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / NS_PER_MS + 1)) <= 0)
			continue;
		n = read(fd, part, sizeof part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		if (told->len < TOLD_MAX)
			buf_put(told, part, (size_t)n);
	}
}

/* Returns how many lines there were. */
static size_t tell_lines(struct buf *told, fsck_line_fn fn, void *ctx)
{
	const char *s = buf_str(told);
	const char *end = s ? s + told->len : NULL;
	size_t n = 0;

	while (s && s < end) {
		const char *text = s + strlen(s) + 1;

		if (text > end)
			break;
		fn(ctx, s, text < end ? text : "");
		s = text < end ? text + strlen(text) + 1 : end;
		n++;
	}
	return n;
}

static int judge(int status, struct buf *told, fsck_line_fn fn, void *ctx)
{
	char text[64];
	size_t lines;

	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SOUND)
		return 0;
	lines = tell_lines(told, fn, ctx);
	if (WIFSIGNALED(status)) {
		(void)snprintf(text, sizeof text,
			       "reading it ends by signal %d",
			       WTERMSIG(status));
		fn(ctx, "S25", text);
		return 1;
	}
	/* A child, or we, without memory to say what. */
	if (WEXITSTATUS(status) == CHILD_DAMAGED && lines == 0)
		fn(ctx, "S25", "it is damaged");
	if (WEXITSTATUS(status) == CHILD_DAMAGED)
		return 1;
	return MIN(CHILD_FAILED - WEXITSTATUS(status), -1);
}

int fsck_walk_index(const char *path, unsigned limit_s, fsck_line_fn fn,
		    void *ctx)
{
	_cleanup_buf_ struct buf told = {0};
	_cleanup_close_ int in = -1;
	_cleanup_close_ int out = -1;
	int status = 0;
	int p[2];
	pid_t pid;
	int r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	in = p[0];
	out = p[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(child(path, out));
	(void)close(TAKE_FD(out));
	r = listen(in, limit_s, &told);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : judge(status, &told, fn, ctx);
}

/* --- a server's start ---------------------------------------------------- */

struct first {
	char text[256];
};

static void keep_first(void *ctx, const char *rule, const char *text)
{
	struct first *f = ctx;

	if (!f->text[0])
		(void)snprintf(f->text, sizeof f->text, "%s%s%s", rule,
			       *rule ? ": " : "", text);
}

int fsck_at_start(const char *path, unsigned limit_s, struct diag *diag)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct first first = {0};
	int r;

	/* What is no store at all, opening it says better. */
	if (fd < 0 || faccessat(fd, "format", F_OK, 0) < 0 || mark_fits(fd))
		return 0;
	r = fsck_walk_index(path, limit_s, keep_first, &first);
	if (r == 0)
		mark_write(fd);
	if (r == -ETIMEDOUT)
		return diag_fail(
			diag, r,
			"the index of %s was not read within %u s: run "
			"\"cowfs fsck\"",
			path, limit_s);
	if (r > 0)
		return diag_fail(diag, -EFSCORRUPTED,
				 "the index of %s is damaged (%s): run \"cowfs "
				 "fsck --repair\"",
				 path, first.text);
	/* That it may not be read, opening it says better, too. */
	return 0;
}
