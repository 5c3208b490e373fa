/* SPDX-License-Identifier: MIT */
/*
 * record.c - the record of a command: what is known at its start and its end.
 *
 * How: lines of a word and a text, appended; what could break a line is escaped
 * (docs/format.md). What the command's standard output and error are decides
 * how they are kept (record.h); handing on is handon.c's.
 */
#include "box/handon_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

enum { FD_OF_STREAM = STDOUT_FILENO, STALL_MS = 1000, CATCH_UP_MS = 100 };

static const char *const words[] = {"stdout", "stderr"};
static const char *const suffixes[] = {".out", ".err"};

const char *const record_kinds[RECORD_KINDS] = {
	[RECORD_PIPE] = "pipe",		[RECORD_FILE] = "file",
	[RECORD_TERMINAL] = "terminal", [RECORD_DEVICE] = "device",
	[RECORD_TWO_WAY] = "two-way",	[RECORD_JOINED] = "joined",
};

/* --- lines --------------------------------------------------------------- */

static void put_line(struct buf *b, const char *word, const char *text)
{
	buf_printf(b, "%s ", word);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c < ' ' || c == 0x7f || c == '%')
			buf_printf(b, "%%%02X", c);
		else
			buf_put_u8(b, c);
	}
	buf_put_u8(b, '\n');
}

static void put_number(struct buf *b, const char *word, uint64_t n)
{
	buf_printf(b, "%s %" PRIu64 "\n", word, n);
}

static uint64_t now_ns(void)
{
	const struct timespec t = clock_now();

	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void put_arguments(const struct record_what *what, struct buf *b)
{
	const size_t from = b->len;

	for (size_t i = 0; what->argv[i]; i++) {
		_cleanup_buf_ struct buf arg = {0};

		mask_argument(what->mask, i ? what->argv[i - 1] : NULL,
			      what->argv[i], &arg);
		if (!buf_str(&arg) || b->len - from + arg.len > RECORD_ARGS) {
			buf_printf(b, "argv-cut\n");
			return;
		}
		put_line(b, "arg", buf_str(&arg));
	}
}

static void put_begin(const struct record *r, const struct record_what *what,
		      struct buf *b)
{
	_cleanup_buf_ struct buf dir = {0};

	buf_printf(b, "cowfs run 1\n");
	mask_argument(what->mask, NULL, what->dir, &dir);
	if (buf_str(&dir))
		put_line(b, "dir", buf_str(&dir));
	put_arguments(what, b);
	put_number(b, "start", now_ns());
	if (what->detached)
		buf_printf(b, "detached\n");
	for (int i = 0; i < 2; i++)
		put_line(b, words[i], record_kinds[r->streams[i].kind]);
}

static void put_stream(const struct record *r, int i, struct buf *b)
{
	const struct stream *s = &r->streams[i];
	const struct keep *k = &s->keep;
	char word[32];

	if (s->kind != RECORD_PIPE && s->kind != RECORD_FILE)
		return;
	(void)snprintf(word, sizeof word, "%s-bytes", words[i]);
	put_number(b, word, k->at + k->window.len);
	if (k->lost) {
		(void)snprintf(word, sizeof word, "%s-lost", words[i]);
		buf_printf(b, "%s %" PRIu64 " %s\n", word, k->lost,
			   err_text(k->why_lost));
	}
}

static void put_end(const struct record *r, const struct record_end *e,
		    struct buf *b)
{
	const struct rusage *u = &e->usage;

	put_number(b, "end", now_ns());
	if (e->code < 0)
		put_number(b, "signal", (uint64_t)-e->code);
	else
		put_number(b, "exit", (uint64_t)e->code);
	if (e->timed_out)
		buf_printf(b, "timed-out\n");
	if (e->has_usage) {
		put_number(b, "cpu",
			   (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) *
					   1000000 +
				   (uint64_t)(u->ru_utime.tv_usec +
					      u->ru_stime.tv_usec));
		put_number(b, "memory", (uint64_t)u->ru_maxrss * 1024);
	}
	put_stream(r, 0, b);
	put_stream(r, 1, b);
}

static int append(const struct record *r, struct buf *b)
{
	const int err = buf_error(b);

	return err ? err : io_write(r->file, b->data, b->len);
}

/* --- what the streams are ------------------------------------------------ */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static enum record_kind kind_of(int fd, const struct stat *st, bool detached)
{
	struct stat in;

	if (S_ISREG(st->st_mode))
		return RECORD_FILE;
	if (detached)
		return RECORD_PIPE;
	if (S_ISCHR(st->st_mode))
		return isatty(fd) ? RECORD_TERMINAL : RECORD_DEVICE;
	if (S_ISSOCK(st->st_mode) && fstat(STDIN_FILENO, &in) == 0 &&
	    is_same(st, &in))
		return RECORD_TWO_WAY;
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) ? RECORD_PIPE
							      : RECORD_DEVICE;
}

/* Where the command's first byte in a file will be. */
static uint64_t place_in_file(int fd)
{
	const int flags = fcntl(fd, F_GETFL);
	struct stat st;
	off_t at;

	if (flags >= 0 && flags & O_APPEND)
		return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
	at = lseek(fd, 0, SEEK_CUR);
	return at < 0 ? 0 : (uint64_t)at;
}

static void find_kinds(struct record *r, bool detached)
{
	struct stat st[2];

	for (int i = 0; i < 2; i++) {
		struct stream *s = &r->streams[i];
		const int fd = FD_OF_STREAM + i;

		s->kind = fstat(fd, &st[i]) < 0 ? RECORD_DEVICE
						: kind_of(fd, &st[i], detached);
		if (s->kind == RECORD_FILE)
			s->from = place_in_file(fd);
	}
	if (r->streams[0].kind == r->streams[1].kind &&
	    (r->streams[0].kind == RECORD_FILE ||
	     r->streams[0].kind == RECORD_PIPE) &&
	    (is_same(&st[0], &st[1]) ||
	     (detached && r->streams[0].kind == RECORD_PIPE)))
		r->streams[1].kind = RECORD_JOINED;
}

static int open_streams(struct record *r, const struct record_what *what)
{
	for (int i = 0; i < 2; i++) {
		struct stream *s = &r->streams[i];
		char name[RUNS_NAME];
		int err;

		if (s->kind != RECORD_PIPE && s->kind != RECORD_FILE)
			continue;
		runs_name(name, r->number, suffixes[i]);
		err = keep_init(&s->keep, r->folder, name, what->mask);
		if (!err && s->kind == RECORD_PIPE)
			err = handon_open(s, what->detached ? -1
							    : FD_OF_STREAM + i);
		if (err)
			return err;
		/* Who is another user may open /dev/stdout all the same. */
		if (s->kind == RECORD_PIPE && what->has_user)
			(void)!fchown(s->command, what->uid, what->gid);
	}
	return 0;
}

/* --- life ---------------------------------------------------------------- */

void record_fini(struct record *r)
{
	if (!r)
		return;
	for (int i = 0; i < 2; i++)
		handon_fini(&r->streams[i]);
	if (r->signals >= 0)
		(void)close(r->signals);
	if (r->file >= 0)
		(void)close(r->file);
	if (r->folder >= 0)
		(void)close(r->folder);
	free(r);
}

static int begin(struct record *r, const struct record_what *what)
{
	_cleanup_buf_ struct buf text = {0};
	int err;

	r->folder = runs_folder(what->store, what->env);
	if (r->folder < 0)
		return r->folder;
	r->file = runs_make(r->folder, &r->number);
	if (r->file < 0)
		return r->file;
	find_kinds(r, what->detached);
	err = open_streams(r, what);
	if (err)
		return err;
	put_begin(r, what, &text);
	err = append(r, &text);
	runs_prune(r->folder);
	return err;
}

int record_begin(const struct record_what *what, struct record **ret_record)
{
	struct record *r = calloc(1, sizeof *r);
	int err;

	if (!r)
		return -ENOMEM;
	r->folder = r->file = r->signals = -1;
	for (int i = 0; i < 2; i++)
		handon_init(&r->streams[i]);
	err = begin(r, what);
	if (err) {
		record_fini(r);
		return err;
	}
	*ret_record = r;
	return 0;
}

void record_fds(const struct record *r, int ret_fds[2])
{
	for (int i = 0; i < 2; i++)
		ret_fds[i] = r->streams[i].command;
	if (r->streams[1].kind == RECORD_JOINED)
		ret_fds[1] = ret_fds[0];
}

void record_started(struct record *r)
{
	for (int i = 0; i < 2; i++)
		if (r->streams[i].command >= 0)
			(void)close(TAKE_FD(r->streams[i].command));
}

/* --- the end ------------------------------------------------------------- */

/* Feeds what a command has put into a file: all, or beginning and end. */
static void read_back(struct stream *s, int fd)
{
	enum { TAIL = 2 * RECORD_TAIL };
	const uint64_t to = place_in_file(fd);
	_cleanup_close_ int in = -1;
	char path[32];
	ssize_t n = 1;

	if (to <= s->from)
		return;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	in = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (in >= 0 && n > 0 && s->from < to) {
		if (s->keep.at + s->keep.window.len >= RECORD_HEAD &&
		    to - s->from > TAIL + KEEP_CHUNK) {
			keep_skip(&s->keep, to - s->from - TAIL);
			s->from = to - TAIL;
		}
		n = io_pread(in, keep_room(&s->keep),
			     MIN(to - s->from, (uint64_t)KEEP_CHUNK), s->from);
		if (n > 0) {
			keep_add(&s->keep, (size_t)n);
			s->from += (uint64_t)n;
		}
	}
	/* It cannot be read, or was cut meanwhile. */
	if (s->from < to) {
		s->keep.lost += to - s->from;
		s->keep.why_lost = in < 0 ? -EACCES : -EIO;
		keep_skip(&s->keep, to - s->from);
	}
	keep_flush(&s->keep, true);
}

/* A signal that would have ended a command that still writes. */
static bool has_end_signal(const sigset_t *signals)
{
	static const struct timespec now = {0};
	int sig;

	while ((sig = sigtimedwait(signals, NULL, &now)) > 0)
		if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP ||
		    sig == SIGQUIT)
			return true;
	return false;
}

void record_catch_up(struct record *r)
{
	for (int i = 0; i < 2; i++)
		handon_limit(&r->streams[i]);
	if (handon_waits(&r->streams[0]) || handon_waits(&r->streams[1]))
		record_pump(r, NULL, CATCH_UP_MS);
	for (int i = 0; i < 2; i++)
		handon_unlimit(&r->streams[i]);
}

/* What is in the pipes now is the command's; what comes later is not waited
 * for. */
static void drain(struct record *r, const struct record_end *e,
		  const sigset_t *signals)
{
	const uint64_t end = clock_mono_ns() + STALL_MS * 1000000ULL;
	/* Who ended it does not wait for a reader. */
	const bool is_ended = e->timed_out || e->code < 0;

	for (int i = 0; i < 2; i++)
		handon_limit(&r->streams[i]);
	while (signals &&
	       (handon_waits(&r->streams[0]) || handon_waits(&r->streams[1])) &&
	       !has_end_signal(signals) && !(is_ended && clock_mono_ns() > end))
		record_pump(r, signals, is_ended ? STALL_MS : -1);
	for (int i = 0; i < 2; i++)
		handon_unlimit(&r->streams[i]);
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Whoever waits for the end of something of the caller's does not wait for
 * us. */
static void close_others(const struct record *r)
{
	int keep[9] = {2, r->folder, r->file};
	size_t n = 3;

	for (int i = 0; i < 2; i++) {
		keep[n++] = r->streams[i].in;
		keep[n++] = r->streams[i].out;
		keep[n++] = r->streams[i].keep.fd;
	}
	qsort(keep, n, sizeof *keep, compare_fds);
	for (size_t i = 0; i < n; i++) {
		const unsigned from = (unsigned)MAX(keep[i], 2) + 1;
		const unsigned to =
			i + 1 < n ? (unsigned)MAX(keep[i + 1], 2) : ~0U;

		if (from < to)
			(void)close_range(from, i + 1 < n ? to - 1 : to, 0);
	}
}

static _noreturn_ void go_on(struct record *r)
{
	_cleanup_buf_ struct buf text = {0};
	int null;
	sigset_t none;

	close_others(r);
	(void)setsid();
	(void)chdir("/"); /* it may be in the mount, and would hold it */
	(void)prctl(PR_SET_NAME, "cowfs-log");
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		(void)dup2(null, fd);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	while (handon_is_open(&r->streams[0]) || handon_is_open(&r->streams[1]))
		record_pump(r, NULL, -1);
	put_stream(r, 0, &text);
	put_stream(r, 1, &text);
	_exit(append(r, &text) < 0);
}

void record_finish(struct record *r, const struct record_end *e,
		   const sigset_t *signals)
{
	_cleanup_buf_ struct buf text = {0};

	record_started(r); /* or it was not, and nobody writes */
	drain(r, e, signals);
	for (int i = 0; i < 2; i++) {
		struct stream *s = &r->streams[i];

		if (s->kind == RECORD_FILE)
			read_back(s, FD_OF_STREAM + i);
		else if (s->kind == RECORD_PIPE && !s->pending)
			keep_flush(&s->keep, !handon_is_open(s));
	}
	put_end(r, e, &text);
	(void)!append(r, &text);
	if (!handon_is_open(&r->streams[0]) && !handon_is_open(&r->streams[1]))
		return;
	/* Of the folder: the end of a sandbox waits for it. */
	(void)!io_lock(r->folder, LOCK_SH | LOCK_NB);
	if (fork() == 0)
		go_on(r);
}
