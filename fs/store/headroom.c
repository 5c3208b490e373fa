/* SPDX-License-Identifier: MIT */
/*
 * On a disk without one free block a name could not be removed: LMDB writes
 * each page that a commit changes to another place, and when no page is free
 * that is behind the file's end. So the files that a commit needs have blocks
 * there before: allocated, not written, and not part of their size. Who fills
 * the disk cannot take them, which he could with a file that is kept to be
 * deleted then.
 *
 * Pages that were given up before they were written leave holes in the file,
 * which need blocks as well: so all of it is asked for, from its beginning. One
 * stat a commit tells whether that is needed.
 *
 * A file system that cannot do it (or writes each block to a new place) leaves
 * us where we were.
 */
#include "store/headroom_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/io.h"

enum { STAT_BLOCK = 512, FEW_BYTES = 64 << 10 };

void headroom_keep(int fd, uint64_t n)
{
	struct stat st;

	if (fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_blocks * STAT_BLOCK >= (uint64_t)st.st_size + n / 2)
		return;
	(void)!io_allocate(fd, FALLOC_FL_KEEP_SIZE, 0,
			   (uint64_t)st.st_size + n);
}

int headroom_explain(int fd, int err)
{
	struct statvfs st;

	if (err != -EIO || fstatvfs(fd, &st) < 0)
		return err;
	/* What is free and reserved for others is not for us. */
	return (uint64_t)st.f_bavail * st.f_frsize < FEW_BYTES ? -ENOSPC : err;
}
