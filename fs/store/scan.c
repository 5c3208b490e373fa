/* SPDX-License-Identifier: MIT */
/*
 * Files in STORE/scans, and the epoch that says how long they hold.
 *
 * A scan only saves time, so nothing here is synced, and the one who reads it
 * checks it. The folder is made by the first one: stores that were made before
 * there were scans have none. A source that is imported no more leaves its
 * scan behind, so each one that is written looks for such: reading a scan
 * renews its mtime, at most once a day.
 *
 * Scans are read, not mapped: a file that fails or shrinks would be SIGBUS.
 *
 * The epoch is there because the hash only finds. An object that gc removed
 * may be followed by another one, forged, with its name: whoever remembers the
 * name would get other bytes. So removing objects ends the epoch, in the same
 * transaction, and what was remembered in another epoch counts for nothing. It
 * is a random number, because a count would begin again with a new index.
 */
#include "store/store_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

enum {
	DAY_SEC = 24 * 60 * 60,
	KEPT_SEC = 31 * DAY_SEC,
};

static int open_folder(struct store *s, bool make)
{
	int fd;

	/* Whatever is wrong, opening it tells. */
	if (make)
		(void)!mkdirat(s->fd, "scans", 0700);
	fd = openat(s->fd, "scans",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static bool is_older(const struct stat *st, time_t seconds)
{
	return clock_now().tv_sec - st->st_mtim.tv_sec > seconds;
}

int store_scan_read(struct store *s, const char *name, size_t max,
		    struct buf *out)
{
	_cleanup_close_ int folder = open_folder(s, false);
	struct stat st;
	int r;

	if (folder < 0)
		return folder;
	r = io_read_file(folder, name, max, out);
	if (r == 0 && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    is_older(&st, DAY_SEC))
		(void)utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW);
	return r;
}

/* Removes what was not read for long; temporary files of killed writers are
 * among it. What fails is tried again next time. */
static void forget_old(int folder)
{
	const struct dirent *e;
	struct stat st;
	DIR *d;

	if (io_open_names(folder, ".", 0, &d) < 0)
		return;
	while ((e = readdir(d))) {
		const bool temp = strncmp(e->d_name, ".tmp-", 5) == 0;

		if (fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) &&
		    is_older(&st, temp ? DAY_SEC : KEPT_SEC))
			(void)unlinkat(folder, e->d_name, 0);
	}
	(void)closedir(d);
}

int store_scan_replace(struct store *s, const char *name, const void *data,
		       size_t len)
{
	_cleanup_close_ int folder = open_folder(s, true);
	int r;

	if (folder < 0)
		return folder;
	r = io_write_file(folder, name, data, len, false);
	if (r < 0)
		return r;
	forget_old(folder);
	return 0;
}

/* --- epoch -------------------------------------------------------------- */

static int get_epoch(struct store *s, bool write, struct index_txn *t,
		     uint64_t *ret_epoch)
{
	int r = index_txn_begin(s->index, write, t);

	if (r == 0)
		r = index_get_epoch(t, ret_epoch);
	/* A damaged one is as good as none: the next is another one. */
	return r == -EFSBADCRC || r == -EFSCORRUPTED ? -ENOENT : r;
}

static int make_epoch(struct store *s, uint64_t *ret_epoch)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	int r = get_epoch(s, true, &t, ret_epoch); /* another was faster */

	if (r != -ENOENT)
		return r;
	if (getrandom(ret_epoch, sizeof *ret_epoch, 0) < 0)
		return -errno;
	r = index_put_epoch(&t, *ret_epoch);
	return r < 0 ? r : index_txn_commit(&t);
}

int store_epoch(struct store *s, uint64_t *ret_epoch)
{
	uint64_t epoch = 0;
	int r;

	{
		_cleanup_index_txn_ struct index_txn t = {0};

		r = get_epoch(s, false, &t, &epoch);
	}
	if (r == -ENOENT)
		r = make_epoch(s, &epoch);
	if (r == 0)
		*ret_epoch = epoch;
	return r;
}
