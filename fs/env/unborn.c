/* SPDX-License-Identifier: MIT */
/*
 * How: a new environment is renamed into place without waiting for the disk.
 * When the machine dies before its first commit, the folder may be there and
 * the bytes of its file `env` not: file systems that allocate late leave the
 * file empty or full of zeros, btrfs may leave it out. Such a folder was never
 * promised to anybody, and nobody can say what snapshot it was of. Likewise a
 * journal: its first bytes may be missing.
 *
 * It must not be confused with damage. The first commit syncs `env` and the
 * journal before it writes its record: so where the journal has a commit record
 * (or any frame from before there were commits) both were whole once, and their
 * state is damage for fsck. While the machine runs
 * nobody sees an empty `env` in `envs/`; so this may be asked beside a server.
 */
#include "env/check.h"
#include "env/env_int.h"
#include "env/frames_int.h"

#include "base/bytes.h"
#include "base/io.h"
#include "base/name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static bool is_zeros(const uint8_t *p, size_t n)
{
	while (n && !p[n - 1])
		n--;
	return n == 0;
}

/* Says whether the file is missing or has no other bytes than zeros. */
static bool is_blank(int dirfd, const char *name)
{
	_cleanup_close_ int fd = io_open_file(dirfd, name, O_RDONLY);
	uint8_t block[512];
	uint64_t pos = 0;
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT;
	while ((n = io_pread(fd, block, sizeof block, pos)) > 0) {
		if (!is_zeros(block, (size_t)n))
			return false;
		pos += (uint64_t)n;
	}
	return n == 0;
}

/* Says whether anything looks like a commit record. Without the header there is
 * no checksum to go by. */
static bool may_have_commit(int fd)
{
	enum { STEP = 64 << 10 };
	_cleanup_free_ uint8_t *p = malloc(STEP);
	uint64_t pos = 0;
	ssize_t n = p ? io_pread(fd, p, STEP, 0) : -ENOMEM;

	while (n > JOURNAL_FRAME_BYTES) {
		for (ssize_t i = 0; i + JOURNAL_FRAME_BYTES < n; i++) {
			if (bytes_load_u32(p + i) == FORMAT_JOURNAL_MAGIC &&
			    p[i + JOURNAL_FRAME_BYTES] == ITEM_COMMIT)
				return true;
		}
		pos += (uint64_t)n - JOURNAL_FRAME_BYTES;
		n = io_pread(fd, p, STEP, pos);
	}
	return n < 0;
}

bool journal_is_unborn(int fd)
{
	uint8_t h[JOURNAL_HEADER_BYTES];
	ssize_t n = io_pread(fd, h, sizeof h, 0);

	if (n < (ssize_t)sizeof h)
		return n >= 0;
	return is_zeros(h, sizeof h) && !may_have_commit(fd);
}

/* Says whether a journal has frames that count: a commit, or frames by a
 * program that knew no commits. */
static bool has_commit(int fd)
{
	uint8_t h[JOURNAL_HEADER_BYTES];
	struct frames f;
	struct stat st;
	const uint8_t *items;
	size_t len;
	bool found = false, booted = false;
	int r = 0;

	if (journal_is_unborn(fd))
		return false;
	if (fstat(fd, &st) < 0 ||
	    io_pread(fd, h, sizeof h, 0) != (ssize_t)sizeof h)
		return true;
	frames_init(&f, fd, bytes_load_u64(h + 32), (uint64_t)st.st_size);
	while (!found && (r = frames_next(&f, &items, &len)) > 0) {
		booted = booted || (len && items[0] == ITEM_BOOT);
		found = !booted || (len && items[0] == ITEM_COMMIT);
	}
	frames_fini(&f);
	return found || r < 0;
}

bool env_is_unborn(struct store *s, const char *name)
{
	_cleanup_close_ int dirfd = -1, journal = -1;
	char path[NAME_MAX_ENV + 8];

	(void)snprintf(path, sizeof path, "envs/%s", name);
	dirfd = openat(store_fd(s), path,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0 || !is_blank(dirfd, "env"))
		return false;
	journal = io_open_file(dirfd, "journal", O_RDONLY);
	if (journal < 0)
		return journal == -ENOENT;
	return !has_commit(journal);
}

static int clear_one(struct store *s, const char *name)
{
	int r = env_is_unborn(s, name) ? env_remove(s, name) : 0;

	return r == -ENOENT ? 0 : r;
}

/* A HOME that was never committed goes alone; the next command gets a new one.
 */
static int clear_home(struct store *s, const char *name)
{
	char home[NAME_MAX_ENV + 1];

	name_of_home(name, home);
	return clear_one(s, home);
}

int env_clear_unborn(struct store *s)
{
	_cleanup_buf_ struct buf names = {0};
	int r = store_env_names(s, O_NOFOLLOW, &names);

	/* No folder: none in it; the rules about the store's files tell. */
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
	for (size_t i = 0; i < names.len; i += NAME_MAX_LABEL + 1) {
		const char *name = (const char *)names.data + i;
		int one = clear_one(s, name);

		if (one == 0)
			one = clear_home(s, name);
		if (one < 0)
			r = one;
	}
	return r;
}
