/* SPDX-License-Identifier: MIT */
/*
 * import_open.c - opening without following, touching or crossing anything.
 *
 * O_NOATIME is for owners only: at the first EPERM that goes away without it,
 * it is given up for the whole import, since a tree mostly has one owner and
 * a failing call per file would cost more than a touched access time.
 *
 * Before a directory is opened a statx that asks no server and triggers no
 * automount says whether it lies on another file system: opening one that
 * hangs would hang the import. One descriptor is held per level; the soft
 * limit is raised when it is hit.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "base/err.h"

static bool raise_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur >= lim.rlim_max)
		return false;
	lim.rlim_cur = lim.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &lim) == 0;
}

static int open_raw(int dirfd, const char *name, int flags)
{
	int fd;

	do {
		fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC);
	} while (fd < 0 &&
		 (errno == EINTR || (errno == EMFILE && raise_limit())));
	return fd < 0 ? -errno : fd;
}

int import_openat(struct importer *imp, int dirfd, const char *name, int flags)
{
	int fd = -EPERM;

	if (imp->noatime && !(flags & O_PATH))
		fd = open_raw(dirfd, name, flags | O_NOATIME);
	if (fd == -EPERM) {
		fd = open_raw(dirfd, name, flags);
		if (fd >= 0 && !(flags & O_PATH))
			imp->noatime = false;
	}
	if (fd == -EMFILE)
		return diag_fail(imp->diag, fd,
				 "%s: too many open files for a tree that "
				 "deep; raise the limit (ulimit -n)",
				 import_path(imp));
	return fd;
}

/* On overlayfs files may have other device numbers than directories, so this
 * is asked of directories only. */
static int is_foreign(struct importer *imp, int dirfd, const char *name,
		      bool *ret_foreign)
{
	struct statx stx;

	if (statx(dirfd, name,
		  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO, &stx) < 0)
		return -errno;
	if (!S_ISDIR(stx.stx_mode))
		return IMPORT_RETYPED;
	*ret_foreign =
		makedev(stx.stx_dev_major, stx.stx_dev_minor) != imp->root_dev;
	return IMPORT_TAKEN;
}

int import_open_dir(struct importer *imp, int dirfd, const char *name,
		    int *ret_fd, bool *ret_foreign)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool foreign = false;
	int r;

	r = is_foreign(imp, dirfd, name, &foreign);
	if (r != IMPORT_TAKEN)
		return r;
	foreign = foreign && !imp->options->cross_mounts;
	fd = import_openat(imp, dirfd, name,
			   foreign ? O_PATH | O_DIRECTORY
				   : O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev == imp->store_dev && st.st_ino == imp->store_ino) {
		diag_add(imp->notes, "left out the store itself: %s",
			 import_path(imp));
		return IMPORT_LEFT_OUT;
	}
	/* Something may have been mounted between the two calls. */
	if (st.st_dev != imp->root_dev && !imp->options->cross_mounts)
		foreign = true;
	*ret_foreign = foreign;
	*ret_fd = TAKE_FD(fd);
	return IMPORT_TAKEN;
}
