/* SPDX-License-Identifier: MIT */
/*
 * How: a table of the names that a store has, with what each has to be. A
 * folder or file of another kind (a link, a FIFO, a device) stands in the way
 * of whoever needs the name: a repair moves it aside. What is missing and
 * needed is made then, but for what has a repair of its own.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"

static const struct kind {
	const char *name;
	bool folder;
	bool needed; /* a store without it does not work */
} kinds[] = {
	{"segments", true, true},	  {"envs", true, true},
	{"trash", true, true},		  {"copies", true, false},
	{"scans", true, false},		  {"quarantine", true, false},
	{"mnt", true, false},		  {"lock", false, true},
	{"server.lock", false, false},	  {"server.log", false, false},
	{"index.clean", false, false},	  {"settings", false, false},
	{"index/lock.mdb", false, false}, {"copies/log", false, false},
};

/* Says what is wrong with it, or NULL. */
static const char *fault_of(const struct fsck *f, const struct kind *k)
{
	struct stat st;

	/* That a folder above is no folder is that one's fault. */
	if (fstatat(f->fd, k->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return !k->needed ? NULL
		       : k->folder ? "the directory is missing"
				   : "the file is missing";
	if (k->folder)
		return S_ISDIR(st.st_mode) ? NULL : "it is no directory";
	return S_ISREG(st.st_mode) ? NULL : "it is no regular file";
}

void fsck_kinds_check(struct fsck *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char *fault = fault_of(f, &kinds[i]);

		if (!fault)
			continue;
		f->segments_missing |= i == 0;
		fsck_damaged(f, "S27", kinds[i].name, NULL, "%s", fault);
	}
}

static int make(const struct fsck *f, const struct kind *k)
{
	const int fd = k->folder ? io_open_dir(f->fd, k->name, 0700)
				 : io_open_file(f->fd, k->name,
						O_RDWR | O_CREAT);

	if (fd < 0)
		return fd;
	(void)close(fd);
	return 0;
}

static int open_and_close(struct fsck *f)
{
	_cleanup_close_ int fd = repair_open_quarantine(f);

	return MIN(fd, 0);
}

int repair_kinds(struct fsck *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct kind *k = &kinds[i];
		struct stat st;
		int r = 0;

		if (!fault_of(f, k))
			continue;
		/* That cannot be moved into itself. */
		if (strcmp(k->name, "quarantine") == 0)
			r = open_and_close(f);
		else if (fstatat(f->fd, k->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = fsck_set_aside(f, k->name);
		if (r == 0 && k->needed)
			r = make(f, k);
		if (r < 0)
			return r;
	}
	return io_sync_dir(f->fd);
}
