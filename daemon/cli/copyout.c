/* SPDX-License-Identifier: MIT */
/*
 * copyout.c - one walk over the tree, directory by directory.
 *
 * How: both sides are walked by descriptors, a name at a time, so that nobody
 * who swaps a directory for a link leads anywhere else. A directory is made in
 * the copy when the first thing in it is copied; everything is made new there
 * (O_EXCL), readable for nobody else until it is whole.
 */
#include "cli/copyout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"

enum {
	PIECE = 1 << 20,
	LINKS_MAX = 1 << 14, /* further ones are copied */
	MODES = 0777,
};

struct copyout_link {
	ino_t ino;
	char *path; /* of its first name, in the copy */
};

/* A directory on the way down. */
struct level {
	struct level *up;
	const char *name;
	int from;
	int to; /* -1: not made yet */
	struct glob_place place;
	bool is_whole; /* everything in it is copied */
	struct stat st;
};

void copyout_fini(struct copyout *c)
{
	for (size_t i = 0; i < c->link_count; i++)
		free(c->links[i].path);
	free(c->links);
	free(c->data);
	buf_fini(&c->what);
}

/* The path of a name in the tree. */
static void put_path(const struct level *l, const char *name, struct buf *b)
{
	if (l->up)
		put_path(l->up, l->name, b);
	if (b->len)
		buf_put_u8(b, '/');
	buf_put(b, name, strlen(name));
}

static int fail(struct copyout *c, const struct level *l, const char *name,
		int err)
{
	if (!c->what.len)
		put_path(l, name, &c->what);
	return err;
}

/* Times, and the mode without what gives rights. */
static int finish(const struct copyout *c, int fd, const struct stat *st,
		  mode_t least)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};

	if (fchmod(fd, (st->st_mode & MODES & ~c->umask) | least) < 0 ||
	    futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* --- directories --------------------------------------------------------- */

static int make_dir(struct copyout *c, struct level *l)
{
	int r;

	if (l->to >= 0)
		return 0;
	r = make_dir(c, l->up);
	if (r)
		return r;
	if (mkdirat(l->up->to, l->name, 0700) < 0)
		return fail(c, l->up, l->name, -errno);
	r = io_open_beneath(l->up->to, l->name, O_RDONLY | O_DIRECTORY);
	if (r < 0)
		return fail(c, l->up, l->name, r);
	l->to = r;
	return 0;
}

/* --- files --------------------------------------------------------------- */

static int copy_range(struct copyout *c, int from, int to, uint64_t at,
		      uint64_t end)
{
	while (at < end) {
		const ssize_t n = io_pread(from, c->data,
					   MIN(end - at, (uint64_t)PIECE), at);
		int r;

		if (n <= 0)
			return n < 0 ? (int)n : 0;
		r = io_pwrite(to, c->data, (size_t)n, at);
		if (r)
			return r;
		at += (uint64_t)n;
		c->bytes += (uint64_t)n;
	}
	return 0;
}

static int copy_data(struct copyout *c, int from, int to, uint64_t size)
{
	uint64_t at = 0;
	int r = io_truncate(to, size);

	while (!r && at < size) {
		off_t data = lseek(from, (off_t)at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);

		if (data < 0 && errno == ENXIO)
			break;
		/* It does not tell: everything is data. */
		if (data < 0)
			data = (off_t)at;
		if (hole <= data)
			hole = (off_t)size;
		r = copy_range(c, from, to, (uint64_t)data,
			       MIN((uint64_t)hole, size));
		at = (uint64_t)hole;
	}
	return r;
}

static int copy_new(struct copyout *c, struct level *l, const char *name,
		    const struct stat *st)
{
	_cleanup_close_ int from =
		io_open_beneath(l->from, name, O_RDONLY | O_NONBLOCK);
	_cleanup_close_ int to = -1;
	int r;

	if (from < 0)
		return from;
	to = openat(l->to, name,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_data(c, from, to, (uint64_t)st->st_size);
	if (!r)
		r = finish(c, to, st, 0600);
	/* Some file systems say only now that there is no room. */
	if (close(TAKE_FD(to)) < 0 && !r)
		r = -errno;
	c->files += !r;
	return r;
}

/* --- hard links ---------------------------------------------------------- */

static const char *find_link(const struct copyout *c, const struct stat *st)
{
	for (size_t i = 0; i < c->link_count; i++)
		if (c->links[i].ino == st->st_ino)
			return c->links[i].path;
	return NULL;
}

static void note_link(struct copyout *c, const struct level *l,
		      const char *name, const struct stat *st)
{
	_cleanup_buf_ struct buf path = {0};
	struct copyout_link *links;

	if (c->link_count == LINKS_MAX)
		return;
	links = reallocarray(c->links, c->link_count + 1, sizeof *links);
	if (!links)
		return;
	c->links = links;
	put_path(l, name, &path);
	links[c->link_count].ino = st->st_ino;
	links[c->link_count].path =
		buf_str(&path) ? strdup(buf_str(&path)) : NULL;
	c->link_count += links[c->link_count].path != NULL;
}

/* Says whether it could be linked to what was copied before. */
static bool link_old(const struct copyout *c, const struct level *l,
		     const char *name, const char *first)
{
	_cleanup_close_ int fd = io_open_beneath(c->to, first, O_PATH);
	char path[32];

	if (fd < 0)
		return false;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, l->to, name, AT_SYMLINK_FOLLOW) == 0;
}

static int copy_file(struct copyout *c, struct level *l, const char *name,
		     const struct stat *st)
{
	const char *first = st->st_nlink > 1 ? find_link(c, st) : NULL;
	int r = make_dir(c, l);

	if (r)
		return r;
	if (first && link_old(c, l, name, first)) {
		c->files++;
		return 0;
	}
	r = copy_new(c, l, name, st);
	if (r)
		return fail(c, l, name, r);
	if (st->st_nlink > 1 && !first)
		note_link(c, l, name, st);
	return 0;
}

/* --- the walk ------------------------------------------------------------ */

static int walk(struct copyout *c, struct level *l);

static int enter(struct copyout *c, struct level *up, const char *name,
		 const struct glob_place *place, bool is_whole)
{
	_cleanup_free_ struct level *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return -ENOMEM;
	*l = (struct level){.up = up,
			    .name = name,
			    .to = -1,
			    .place = *place,
			    .is_whole = is_whole};
	l->from = io_open_beneath(up->from, name, O_RDONLY | O_DIRECTORY);
	if (l->from < 0)
		return fail(c, up, name, l->from);
	r = fstat(l->from, &l->st) < 0 ? -errno : 0;
	if (!r && is_whole)
		r = make_dir(c, l);
	if (!r)
		r = walk(c, l);
	if (!r && l->to >= 0)
		r = finish(c, l->to, &l->st, 0700);
	if (l->to >= 0)
		(void)close(l->to);
	(void)close(l->from);
	return r ? fail(c, up, name, r) : 0;
}

static int take(struct copyout *c, struct level *l, const char *name)
{
	struct glob_place place = {{0}};
	enum glob_fit fit = globs_step(c->globs, &l->place, name, &place);
	struct stat st;

	if (l->is_whole)
		fit = GLOB_YES;
	if (fit == GLOB_NO)
		return 0;
	if (fstatat(l->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(c, l, name, -errno);
	if (S_ISDIR(st.st_mode))
		return enter(c, l, name, &place, fit == GLOB_YES);
	if (fit == GLOB_BELOW)
		return 0;
	if (S_ISREG(st.st_mode))
		return copy_file(c, l, name, &st);
	c->left_out++;
	return 0;
}

static int walk(struct copyout *c, struct level *l)
{
	const struct dirent *e;
	DIR *dir;
	int r = io_open_names(l->from, ".", 0, &dir);

	if (r)
		return r;
	for (errno = 0; !r && (e = readdir(dir)); errno = 0)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = take(c, l, e->d_name);
	if (!r && errno)
		r = -errno;
	(void)closedir(dir);
	return r;
}

int copyout_tree(struct copyout *c, int from)
{
	struct level *top = calloc(1, sizeof *top);
	int r;

	c->data = malloc(PIECE);
	c->umask = umask(0);
	(void)umask(c->umask);
	if (!top || !c->data) {
		free(top);
		return -ENOMEM;
	}
	*top = (struct level){.name = ".", .from = from, .to = c->to};
	globs_begin(c->globs, &top->place);
	r = walk(c, top);
	free(top);
	return r;
}
