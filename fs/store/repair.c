/* SPDX-License-Identifier: MIT */
/*
 * How: from the bottom up, each step made of things that can be done again:
 *   missing folders, what is no file or folder and should be; `format`,
 *   a new index, when the old one is damaged (repair_index.c),
 *   a quiet check of what is there then,
 *   damaged segments, rows of lost objects, lost snapshots
 *     (repair_segments.c),
 *   a check that tells what is left.
 * A repair that was killed is simply started again: nothing is taken away
 * before what comes in its place is durable, and what is taken away is moved.
 *
 * All locks are taken without waiting: the server's, so that none runs or
 * starts, the writers', so that no import goes on, and the index's (guard.c),
 * so that no name is set or removed.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "store/guard_int.h"

enum {
	COPY_BYTES = 1 << 20,
	FLAT_BYTES = 256,
};

/* --- locks --------------------------------------------------------------- */

static int take_lock(struct fsck *f, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = io_open_file(f->fd, name, O_RDWR | O_CREAT);
	int r;

	/* What is no file nobody can have locked. */
	if (fd == -EFSCORRUPTED) {
		r = fsck_set_aside(f, name);
		fd = r < 0 ? r : io_open_file(f->fd, name, O_RDWR | O_CREAT);
	}
	if (fd < 0)
		return fd;
	r = io_lock(fd, LOCK_EX | LOCK_NB);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int repair_lock(struct fsck *f)
{
	int r = take_lock(f, "server.lock", &f->server_lock);

	if (r == 0)
		r = take_lock(f, "lock", &f->lock);
	if (r == 0)
		r = guard_alone(f->fd, "index", &f->guards[0]);
	/* Then nobody has it open to write either. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

void repair_unlock(struct fsck *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->guards); i++)
		if (f->guards[i] >= 0)
			(void)close(TAKE_FD(f->guards[i]));
	if (f->lock >= 0)
		(void)close(TAKE_FD(f->lock));
	if (f->server_lock >= 0)
		(void)close(TAKE_FD(f->server_lock));
}

/* --- the quarantine ------------------------------------------------------ */

static void name_quarantine(struct fsck *f)
{
	const time_t now = clock_now().tv_sec;
	struct tm tm;

	if (!gmtime_r(&now, &tm))
		memset(&tm, 0, sizeof tm);
	(void)snprintf(f->quarantine, sizeof f->quarantine,
		       "quarantine/%04u%02u%02uT%02u%02u%02u-%d",
		       (unsigned)(tm.tm_year + 1900) % 10000,
		       (unsigned)(tm.tm_mon + 1) % 100,
		       (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		       (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100,
		       (int)getpid());
}

int repair_open_quarantine(struct fsck *f)
{
	char aside[64];
	_cleanup_close_ int top = io_open_dir(f->fd, "quarantine", 0700);

	/* No folder, and so the one thing that cannot be moved into it. */
	if (top == -ENOTDIR || top == -EEXIST || top == -ENOENT) {
		(void)snprintf(aside, sizeof aside, "quarantine.%d",
			       (int)getpid());
		if (renameat2(f->fd, "quarantine", f->fd, aside,
			      RENAME_NOREPLACE) < 0)
			return -errno;
		top = io_open_dir(f->fd, "quarantine", 0700);
	}
	if (top < 0)
		return top;
	if (!f->quarantine[0])
		name_quarantine(f);
	return io_open_dir(f->fd, f->quarantine, 0700);
}

/* The quarantine has no folders of its own. */
static void flatten(const char *name, char ret[FLAT_BYTES])
{
	(void)snprintf(ret, FLAT_BYTES, "%s", name);
	for (char *p = ret; *p; p++)
		if (*p == '/')
			*p = '-';
}

int fsck_set_aside(struct fsck *f, const char *name)
{
	_cleanup_close_ int dir = repair_open_quarantine(f);
	char flat[FLAT_BYTES];

	if (dir < 0)
		return dir;
	flatten(name, flat);
	if (renameat2(f->fd, name, dir, flat, RENAME_NOREPLACE) < 0)
		return -errno;
	fsck_say(f, FSCK_DONE, name, "moved to %s/%s", f->quarantine, flat);
	return io_sync_dir(dir);
}

int repair_keep(struct fsck *f, int fd, uint64_t from, const char *name)
{
	_cleanup_close_ int dir = repair_open_quarantine(f);
	_cleanup_free_ uint8_t *part = malloc(COPY_BYTES);
	_cleanup_close_ int out = -1;
	ssize_t n = 1;
	int r = 0;

	if (dir < 0 || !part)
		return dir < 0 ? dir : -ENOMEM;
	out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	while (r == 0 && n > 0) {
		n = io_pread(fd, part, COPY_BYTES, from);
		r = n < 0 ? (int)n : io_write(out, part, (size_t)n);
		from += n > 0 ? (uint64_t)n : 0;
	}
	if (r == 0)
		r = io_sync(out);
	if (r == 0)
		fsck_say(f, FSCK_DONE, name, "a copy is in %s", f->quarantine);
	return r < 0 ? r : io_sync_dir(dir);
}

int fsck_keep_copy(struct fsck *f, const char *name)
{
	_cleanup_close_ int fd = io_open_file(f->fd, name, O_RDONLY);
	char flat[FLAT_BYTES];

	if (fd < 0)
		return fd;
	flatten(name, flat);
	return repair_keep(f, fd, 0, flat);
}

/* --- format ------------------------------------------------------------ */

/* The text of a version is fixed, so a damaged file is like it but for a few
 * bytes. Another version's differs in its checksum, too. */
static bool may_be_ours(const struct buf *have, const struct buf *want)
{
	enum { DIFFERENT_MAX = 4 };
	size_t n = 0;

	if (have->len < 8)
		return true;
	for (size_t i = 0; i < MIN(have->len, want->len); i++)
		n += have->data[i] != want->data[i];
	return n <= DIFFERENT_MAX;
}

static int repair_format(struct fsck *f)
{
	enum { MOST = 4096 };
	_cleanup_buf_ struct buf have = {0};
	_cleanup_buf_ struct buf want = {0};
	int r = io_read_file(f->fd, "format", MOST, &have);
	const bool missing = r == -ENOENT;

	store_format_int(&want);
	if (r == 0 && !buf_error(&want) && !may_be_ours(&have, &want)) {
		fsck_say(f, FSCK_NOTE, "format",
			 "too little of it is left to know its version");
		return -EFSBADCRC;
	}
	r = missing ? 0 : fsck_set_aside(f, "format");
	if (r == 0)
		r = io_write_file(f->fd, "format", want.data, want.len, true);
	if (r == 0)
		fsck_say(f, FSCK_DONE, "format", "written anew");
	return r;
}

/* --- all ----------------------------------------------------------------- */

/* Opens the store to be written. A damaged log of copies is put aside first:
 * opening makes a new one from the index. */
static int open_for_writing(struct fsck *f)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = f->copies_bad ? fsck_set_aside(f, "copies/log") : 0;

	if (r < 0 && r != -ENOENT)
		return r;
	store_close(TAKE_PTR(f->store));
	return store_open(f->path, STORE_REPAIR, &diag, &f->store);
}

static int repair_parts(struct fsck *f)
{
	int r = repair_kinds(f);

	if (r == 0 && f->format_bad)
		r = repair_format(f);
	if (r == 0 && f->index_bad)
		r = repair_index(f);
	if (r < 0)
		return r;
	f->quiet = true;
	r = fsck_check(f);
	f->quiet = false;
	if (r < 0 || !f->store)
		return r < 0 ? r : -EFSCORRUPTED;
	/* Without the file there are the defaults. */
	if (f->settings_bad)
		r = fsck_set_aside(f, "settings");
	if (r == 0)
		r = open_for_writing(f);
	return r < 0 ? r : repair_segments(f);
}

int fsck_repair(struct fsck *f)
{
	int r = repair_parts(f);

	return r < 0 ? r : fsck_check(f);
}
