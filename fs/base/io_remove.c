/* SPDX-License-Identifier: MIT */
/*
 * How: a walk by descriptors with a stack of its own. A directory's frame
 * keeps it open while it is one of the OPEN_MAX_FRAMES deepest; a shallower one
 * is closed and opened again as ".." of its child on the way up, and checked to
 * be the same directory. So neither the call stack, nor the number of
 * descriptors, nor PATH_MAX bounds the depth, and a directory that somebody
 * moves away meanwhile ends the walk instead of leading it elsewhere.
 *
 * Mounts are told by their mount id, not only by st_dev: a bind mount of the
 * same file system must not be emptied either.
 *
 * The first error ends the walk; what is left can be removed by a later call.
 */
#include "base/grow.h"
#include "base/io.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	OPEN_MAX_FRAMES = 32,
	/* Times that a directory may be found filled again by somebody else
	 * before we give up. */
	REFILL_MAX = 1000,
};

struct frame {
	DIR *dir;   /* NULL: closed, to be opened from its child */
	char *name; /* in its parent */
	uint64_t dev;
	uint64_t ino;
	uint64_t mount;
};

struct walk {
	struct frame *frames;
	size_t count;
	size_t cap;
	unsigned refills;
};

static void frame_fini(struct frame *f)
{
	if (f->dir)
		(void)closedir(f->dir);
	free(f->name);
}

static void walk_fini(struct walk *w)
{
	while (w->count > 0)
		frame_fini(&w->frames[--w->count]);
	free(w->frames);
}

/* Gives the owner all rights on a directory that cannot be opened. fchmodat
 * would follow a link put there meanwhile, an O_PATH descriptor does not. */
static int unlock_dir(int dirfd, const char *name)
{
	_cleanup_close_ int fd = openat(
		dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[64];

	if (fd < 0)
		return -errno;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return chmod(path, 0700) < 0 ? -errno : 0;
}

static int open_dir(int dirfd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, name, flags);

	if (fd < 0 && errno == EACCES && unlock_dir(dirfd, name) == 0)
		fd = openat(dirfd, name, flags);
	return fd < 0 ? -errno : fd;
}

/* Fills a frame from an open directory, which it takes over. */
static int frame_init(struct frame *f, int dir_fd)
{
	_cleanup_close_ int fd = dir_fd;
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID,
		  &sx) < 0)
		return -errno;
	f->dev = (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor;
	f->ino = sx.stx_ino;
	f->mount = sx.stx_mask & STATX_MNT_ID ? sx.stx_mnt_id : 0;
	/* Without these bits entries cannot be removed. When it fails, the
	 * removal says why. */
	if ((sx.stx_mode & 0700) != 0700)
		(void)fchmod(fd, (sx.stx_mode & 07777) | 0700);
	f->dir = fdopendir(fd);
	if (!f->dir)
		return -errno;
	(void)TAKE_FD(fd);
	return 0;
}

static int push(struct walk *w, int dirfd, const char *name)
{
	struct frame f = {0};
	int fd;
	int r;

	if (GROW(w->frames, w->count, w->cap, 16) < 0)
		return -ENOMEM;
	fd = open_dir(dirfd, name);
	if (fd < 0)
		return fd;
	r = frame_init(&f, fd);
	if (r == 0 && w->count > 0 &&
	    (f.dev != w->frames[0].dev || f.mount != w->frames[0].mount))
		r = -EXDEV;
	if (r == 0) {
		f.name = strdup(name);
		r = f.name ? 0 : -ENOMEM;
	}
	if (r < 0) {
		frame_fini(&f);
		return r;
	}
	w->frames[w->count++] = f;
	if (w->count > OPEN_MAX_FRAMES) {
		struct frame *far = &w->frames[w->count - 1 - OPEN_MAX_FRAMES];

		if (far->dir)
			(void)closedir(far->dir);
		far->dir = NULL;
	}
	return 0;
}

/* Opens the frame below the top again, from the top. */
static int reopen_parent(struct walk *w)
{
	struct frame *f = &w->frames[w->count - 2];
	struct frame fresh = {0};
	int fd;
	int r;

	if (f->dir)
		return 0;
	fd = open_dir(dirfd(w->frames[w->count - 1].dir), "..");
	if (fd < 0)
		return fd;
	r = frame_init(&fresh, fd);
	if (r < 0)
		return r;
	if (fresh.dev != f->dev || fresh.ino != f->ino ||
	    fresh.mount != f->mount) {
		frame_fini(&fresh);
		return -ESTALE;
	}
	f->dir = fresh.dir;
	return 0;
}

/* Removes the top's directory, now empty, and pops it. A directory that was
 * filled again meanwhile is read again. */
static int pop(struct walk *w, int base)
{
	struct frame *top = &w->frames[w->count - 1];
	int parent = base;

	if (w->count > 1) {
		int r = reopen_parent(w);

		if (r < 0)
			return r;
		parent = dirfd(w->frames[w->count - 2].dir);
	}
	if (unlinkat(parent, top->name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		if ((errno != ENOTEMPTY && errno != EEXIST) ||
		    w->refills++ >= REFILL_MAX)
			return -errno;
		rewinddir(top->dir);
		return 0;
	}
	frame_fini(top);
	w->count--;
	return 0;
}

/* Removes one name that is no directory; 1: it is one. */
static int remove_leaf(int dirfd, const char *name)
{
	struct stat st;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR)
		return 1;
	if (errno != EPERM)
		return -errno;
	/* POSIX's word for a directory, or a file that may not be removed. */
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return 1;
	return -EPERM;
}

/* One step: remove or enter the next entry of the top, or leave it. */
static int step(struct walk *w, int base)
{
	DIR *dir = w->frames[w->count - 1].dir;
	const struct dirent *e;
	int r;

	assert(dir); /* pop opens the new top again */
	errno = 0;
	e = readdir(dir);
	if (!e)
		return errno ? -errno : pop(w, base);
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return 0;
	r = e->d_type == DT_DIR ? 1 : remove_leaf(dirfd(dir), e->d_name);
	if (r <= 0)
		return r;
	r = push(w, dirfd(dir), e->d_name);
	return r == -ENOENT ? 0 : r;
}

int io_remove_tree(int dirfd, const char *name)
{
	_cleanup_(walk_fini) struct walk w = {0};
	int r = remove_leaf(dirfd, name);

	if (r <= 0)
		return r;
	r = push(&w, dirfd, name);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while (r == 0 && w.count > 0)
		r = step(&w, dirfd);
	return r;
}
