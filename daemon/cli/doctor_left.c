/* SPDX-License-Identifier: MIT */
/*
 * doctor_left.c - what processes that ended badly have left behind.
 *
 * Whatever a running command or server may just be making is given ten
 * seconds: younger things are no findings. Only names that cowfs itself makes
 * are removed.
 */
#include "cli/doctor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/name.h"
#include "cli/path.h"

enum {
	GRACE_SECONDS = 10,
	DIR_BYTES = 4352,
	WHAT_BYTES = DIR_BYTES + 257, /* with a name in it */
};

typedef void (*entry_fn)(struct doctor *d, int dirfd, const char *dir,
			 const char *name);

static void each_entry(struct doctor *d, const char *dir, entry_fn fn)
{
	const struct dirent *e;
	DIR *stream;

	if (io_open_names(AT_FDCWD, dir, 0, &stream) < 0)
		return;
	while ((e = readdir(stream)))
		if (name_is_component(e->d_name, strlen(e->d_name)))
			fn(d, dirfd(stream), dir, e->d_name);
	(void)closedir(stream);
}

/* ctime: a rename into the trash moves it, mtime stays. */
static bool is_old(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return clock_now().tv_sec - st.st_ctim.tv_sec > GRACE_SECONDS;
}

static void check_trash(struct doctor *d, int dirfd, const char *dir,
			const char *name)
{
	char what[WHAT_BYTES];
	bool fixed;

	if (!is_old(dirfd, name))
		return;
	fixed = d->fix && !io_remove_tree(dirfd, name);
	(void)snprintf(what, sizeof what, "%s/%s", dir, name);
	doctor_problem(d, what, fixed, "trash that nobody has emptied");
}

static void check_mount_point(struct doctor *d, int dirfd, const char *dir,
			      const char *name)
{
	char what[WHAT_BYTES];
	bool fixed;

	(void)snprintf(what, sizeof what, "%s/%s", dir, name);
	/* A mount is never looked at (doctor_mounts.c told about it). */
	if (mountinfo_has(&d->mounts, what) || buf_has(&d->live, what))
		return;
	/* Without a server nobody is just mounting there. */
	if (d->running && !is_old(dirfd, name))
		return;
	fixed = d->fix && !unlinkat(dirfd, name, AT_REMOVEDIR);
	doctor_problem(d, what, fixed, "mount point of nothing");
}

/* A store is made as STORE.new-HEX and renamed. */
static void check_beside(struct doctor *d, int dirfd, const char *dir,
			 const char *name)
{
	const char *store = path_last(d->c->store);
	size_t n = strlen(store), marker = strlen(".new-");
	const char *hex = name + n + marker;
	char what[WHAT_BYTES];
	bool fixed;

	if (strncmp(name, store, n) != 0 ||
	    strncmp(name + n, ".new-", marker) != 0 || strlen(hex) != 16 ||
	    strspn(hex, "0123456789abcdef") != 16 || !is_old(dirfd, name))
		return;
	fixed = d->fix && !io_remove_tree(dirfd, name);
	(void)snprintf(what, sizeof what, "%s/%s", dir, name);
	doctor_problem(d, what, fixed, "a store that was never finished");
}

static void check_socket(struct doctor *d, const char *path)
{
	struct stat st;

	if (d->running || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	doctor_problem(d, path, d->fix && !unlink(path),
		       "socket of a server that has ended");
}

void doctor_left(struct doctor *d)
{
	_cleanup_free_ char *parent = strdup(d->c->store);
	char path[DIR_BYTES];

	if (parent && parent[1]) {
		*strrchr(parent, '/') = 0;
		each_entry(d, *parent ? parent : "/", check_beside);
	}
	if (!d->has_store)
		return;
	(void)snprintf(path, sizeof path, "%s/ctl.sock", d->c->store);
	check_socket(d, path);
	(void)snprintf(path, sizeof path, "%s/ctl.sock.new", d->c->store);
	check_socket(d, path);
	(void)snprintf(path, sizeof path, "%s/trash", d->c->store);
	each_entry(d, path, check_trash);
	if (d->running && !d->live_known)
		return;
	(void)snprintf(path, sizeof path, "%s/mnt", d->c->store);
	each_entry(d, path, check_mount_point);
}
