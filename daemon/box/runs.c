/* SPDX-License-Identifier: MIT */
/*
 * runs.c - the folder of an environment's records.
 *
 * How: a record is a file whose name is the run's number; who writes it holds
 * its flock, so a record that is not locked is one that nobody writes any more.
 * Who only goes on for what is in the background has a shared one on the
 * folder. Numbers only grow while a record is left. Every few runs the folder
 * is looked through and the oldest ones that have ended are removed.
 */
#include "box/box.h"
#include "box/record_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/io.h"

enum {
	PRUNE_EVERY = 8,
	TRIES = 1000,
	BLOCK = 512,
	SETTLE_NS = 300000000,
	POLL_MS = 2,
};

static const char *const suffixes[] = {"", ".out", ".err"};

void runs_name(char name[RUNS_NAME], uint64_t number, const char *suffix)
{
	(void)snprintf(name, RUNS_NAME, "%" PRIu64 "%s", number, suffix);
}

int record_open(const char *store, const char *env)
{
	return box_env_open(store, env, "/log");
}

int runs_folder(const char *store, const char *env)
{
	_cleanup_close_ int top = -1;
	int fd = record_open(store, env);

	if (fd != -ENOENT)
		return fd;
	top = box_env_open(store, env, "");
	if (top < 0)
		return top;
	if (mkdirat(top, "log", 0700) < 0 && errno != EEXIST)
		return -errno;
	return record_open(store, env);
}

static int compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

int record_list(int folder, struct buf *numbers)
{
	const struct dirent *e;
	DIR *dir;
	int r = io_open_names(folder, ".", 0, &dir);

	if (r < 0)
		return r;
	while ((e = readdir(dir))) {
		char *end;
		const uint64_t n = strtoull(e->d_name, &end, 10);

		if (n && !*end && e->d_name[0] != '0')
			buf_put(numbers, &n, sizeof n);
	}
	(void)closedir(dir);
	r = buf_error(numbers);
	if (!r && numbers->len)
		qsort(numbers->data, numbers->len / sizeof(uint64_t),
		      sizeof(uint64_t), compare);
	return r;
}

int runs_make(int folder, uint64_t *ret_number)
{
	_cleanup_buf_ struct buf all = {0};
	char name[RUNS_NAME];
	size_t count;
	uint64_t n;
	int fd, r = record_list(folder, &all);

	if (r)
		return r;
	count = all.len / sizeof n;
	n = count ? record_number(&all, count - 1) : 0;
	for (int i = 0; i < TRIES; i++) {
		runs_name(name, ++n, "");
		fd = openat(folder, name,
			    O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC,
			    0600);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return -errno;
	/* Who reads it already lets go at once. */
	r = io_lock(fd, LOCK_EX);
	if (r) {
		(void)close(fd);
		return r;
	}
	*ret_number = n;
	return fd;
}

void runs_settle(int box)
{
	const uint64_t end = clock_mono_ns() + SETTLE_NS;
	_cleanup_close_ int fd = openat(
		box, "../log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	while (fd >= 0 && io_lock(fd, LOCK_EX | LOCK_NB) == -EBUSY &&
	       clock_mono_ns() < end)
		(void)poll(NULL, 0, POLL_MS);
}

/* --- bounds -------------------------------------------------------------- */

static uint64_t bytes_of(int folder, uint64_t number)
{
	uint64_t bytes = 0;
	char name[RUNS_NAME];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		runs_name(name, number, suffixes[i]);
		if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			bytes += (uint64_t)st.st_blocks * BLOCK;
	}
	return bytes;
}

/* Leaves one alone that is being written. */
static void drop(int folder, uint64_t number)
{
	_cleanup_close_ int fd = -1;
	char name[RUNS_NAME];

	runs_name(name, number, "");
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || io_lock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	/* The record last: without it nobody finds the others. */
	for (size_t i = ARRAY_SIZE(suffixes); i-- > 0;) {
		runs_name(name, number, suffixes[i]);
		(void)unlinkat(folder, name, 0);
	}
}

void runs_prune(int folder)
{
	_cleanup_buf_ struct buf all = {0};
	uint64_t bytes = 0;

	if (record_list(folder, &all) < 0)
		return;
	/* From the newest on; what does not fit any more goes. */
	for (size_t i = all.len / sizeof(uint64_t), kept = 0; i-- > 0; kept++) {
		const uint64_t n = record_number(&all, i);

		if (!kept && n % PRUNE_EVERY != 0)
			return;
		bytes += bytes_of(folder, n);
		if (kept >= RECORD_RUNS || bytes > RECORD_BYTES)
			drop(folder, n);
	}
}
