/* SPDX-License-Identifier: MIT */
/*
 * How much room there is. On a disk without any nothing could be deleted, which
 * takes a record first: so a part of it is kept that environments do not grow
 * into. An import that fills the disk would take it from environments, whose
 * writers cannot be told to wait: so as much again is kept from imports. Their
 * check also keeps the store below the limit that its owner has set.
 *
 * The disk is asked once for each megabyte written, the store counted (a stat
 * of each of its files, of which it has few) once for each 64, and only where
 * there is a limit. Between two questions others write too: the least reserve
 * is larger than what some of them can go too far.
 *
 * Directories of environments are counted as they are found; one that goes
 * away meanwhile counts nothing.
 */
#include "store/space_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/io.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/store_int.h"

enum {
	ASK_BYTES = 1 << 20,
	COUNT_BYTES = 64 << 20,
	RESERVE_MIN = 4 << 20,
	RESERVE_MAX = 256 << 20,
	RESERVE_PARTS = 50, /* one of them: 2 % */
	STAT_BLOCK = 512,
};

/* --- the disk ------------------------------------------------------------ */

int space_read(struct store *s, struct space *ret_space)
{
	struct statvfs st;
	struct space out;

	if (fstatvfs(s->fd, &st) < 0)
		return -errno;
	out.total = (uint64_t)st.f_blocks * st.f_frsize;
	out.free = (uint64_t)st.f_bavail * st.f_frsize;
	out.reserve = MIN(MAX(out.total / RESERVE_PARTS, (uint64_t)RESERVE_MIN),
			  (uint64_t)RESERVE_MAX);
	out.for_envs = 2 * out.reserve;
	*ret_space = out;
	return 0;
}

int space_take(struct store *s, uint64_t n)
{
	uint_fast64_t room = atomic_load(&s->room);
	struct space disk = {0};
	int r;

	while (room >= n)
		if (atomic_compare_exchange_weak(&s->room, &room, room - n))
			return 0;
	r = space_read(s, &disk);
	if (r < 0)
		return r;
	if (disk.free < disk.reserve + n)
		return -ENOSPC;
	room = disk.free - disk.reserve - n;
	atomic_store(&s->room, MIN(room, (uint_fast64_t)ASK_BYTES));
	return 0;
}

/* --- the store ----------------------------------------------------------- */

/* Counts what the files of a directory have on disk; with deep, those of its
 * directories too. What cannot be looked at is not counted. */
static uint64_t count_dir(int parent, const char *name, bool deep)
{
	const struct dirent *e;
	uint64_t sum = 0;
	struct stat st;
	DIR *d;
	int fd;

	if (io_open_names(parent, name, O_NOFOLLOW, &d) < 0)
		return 0;
	fd = dirfd(d);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_blocks * STAT_BLOCK;
		else if (S_ISDIR(st.st_mode) && deep)
			sum += count_dir(fd, e->d_name, false);
	}
	(void)closedir(d);
	return sum;
}

void space_count(struct store *s, struct space_use *ret_use)
{
	ret_use->segments = count_dir(s->fd, "segments", false);
	ret_use->index = count_dir(s->fd, "index", false);
	ret_use->envs = count_dir(s->fd, "envs", true);
	ret_use->trash = count_dir(s->fd, "trash", true);
}

/* --- a writer ------------------------------------------------------------ */

static int check_limit(struct store *s, struct room *room, uint64_t n)
{
	struct settings settings = {0};
	struct space_use use;
	int r;

	if (!room->known) {
		r = settings_read(s, NULL, &settings);
		if (r < 0)
			return r;
		room->limit = settings.max_store;
	}
	if (room->limit && (!room->known || room->since >= COUNT_BYTES)) {
		space_count(s, &use);
		room->used = use.segments + use.index + use.envs + use.trash;
		room->since = 0;
	}
	room->known = true;
	if (room->limit && room->used + room->since + n > room->limit)
		return -EDQUOT;
	return 0;
}

int space_check_int(struct store *s, struct room *room, uint64_t n)
{
	struct space disk = {0};
	int r;

	if (n > room->bytes) {
		r = space_read(s, &disk);
		if (r < 0)
			return r;
		if (disk.free <
		    (room->urgent ? disk.reserve : disk.for_envs) + n)
			return -ENOSPC;
		r = room->urgent ? 0 : check_limit(s, room, n);
		if (r < 0)
			return r;
		room->bytes = n + ASK_BYTES;
	}
	room->bytes -= n;
	room->since += n;
	return 0;
}
