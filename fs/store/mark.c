/* SPDX-License-Identifier: MIT */
/*
 * How: one line of a fixed length with a checksum, written in place by one
 * pwrite: a torn one does not fit. Whoever commits looks under LMDB's writer
 * lock whether the mark fits, and writes it anew after the commit if it did; so
 * an import while no server runs does not make the next start check the whole
 * index. Another commit between ours and the writing of the mark only makes
 * that mark not fit.
 *
 * What changes the file behind our backs changes its ctime, too.
 */
#include "store/mark_int.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/boot.h"
#include "base/io.h"
#include "object/oid.h"

enum {
	MARK_BYTES = 256,
	SUM_DIGITS = 16,
};
#define MARK_NAME "index.clean"
#define MARK_SEED 0x4b52414d /* any number; never change */

/* Writes what the mark has to be now; returns its length, 0: cannot tell. */
static size_t describe(int store_fd, char line[MARK_BYTES])
{
	char boot[BOOT_ID_BYTES + 1];
	struct stat st;
	int n;

	if (fstatat(store_fd, "index/data.mdb", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    boot_id(boot) < 0)
		return 0;
	n = snprintf(line, MARK_BYTES - SUM_DIGITS - 2,
		     "cowfs index 1 %020" PRIu64 " %020" PRIu64 " %020" PRId64
		     ".%09ld %020" PRId64 ".%09ld %s ",
		     (uint64_t)st.st_ino, (uint64_t)st.st_size,
		     (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
		     (int64_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec, boot);
	if (n < 0 || n >= MARK_BYTES - SUM_DIGITS - 2)
		return 0;
	n += snprintf(line + n, SUM_DIGITS + 2, "%016" PRIx64 "\n",
		      oid_checksum(line, (size_t)n, MARK_SEED));
	return (size_t)n;
}

bool mark_fits(int store_fd)
{
	_cleanup_close_ int fd =
		io_open_file(store_fd, MARK_NAME, O_RDONLY);
	char have[MARK_BYTES];
	char want[MARK_BYTES];
	const size_t n = fd < 0 ? 0 : describe(store_fd, want);

	return n > 0 && io_pread(fd, have, sizeof have, 0) == (ssize_t)n &&
	       memcmp(have, want, n) == 0;
}

void mark_write(int store_fd)
{
	_cleanup_close_ int fd =
		io_open_file(store_fd, MARK_NAME, O_WRONLY | O_CREAT);
	char line[MARK_BYTES];
	const size_t n = fd < 0 ? 0 : describe(store_fd, line);

	/* A mark that cannot be written is one that does not fit. */
	if (n == 0 || io_pwrite(fd, line, n, 0) < 0 ||
	    io_truncate(fd, n) < 0)
		(void)unlinkat(store_fd, MARK_NAME, 0);
}
