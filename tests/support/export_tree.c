/* SPDX-License-Identifier: MIT */
/*
 * export_tree.c - recursion over trees, one folder descriptor per level.
 *
 * A directory's mode and time are set after its content was written, which
 * would change the time and may need the write permission.
 */
#include "export_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "object/format.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/tree.h"

static int write_content(struct store *s, const struct tree_entry *e, int fd)
{
	_cleanup_buf_ struct buf b = {.len = 0};
	_cleanup_buf_ struct buf chunk = {.len = 0};
	struct manifest m;
	int r;

	if (ftruncate(fd, (off_t)e->size) < 0)
		return -errno;
	if (oid_is_null(&e->content))
		return e->size ? -EFSCORRUPTED : 0;
	r = store_get(s, &e->content, &b);
	if (r < 0)
		return r;
	if (oid_kind(&e->content) == OID_BLOB)
		return b.len == e->size ? io_write(fd, b.data, b.len)
					: -EFSCORRUPTED;
	r = manifest_open(b.data, b.len, &m);
	if (r < 0)
		return r;
	if (m.size != e->size)
		return -EFSCORRUPTED;
	for (uint64_t i = 0; i < m.count; i++) {
		struct oid id = manifest_chunk(&m, i);

		if (oid_is_null(&id))
			continue;
		buf_clear(&chunk);
		r = store_get(s, &id, &chunk);
		if (r == 0)
			r = io_pwrite(fd, chunk.data, chunk.len,
				      i * FORMAT_CHUNK_BYTES);
		if (r < 0)
			return r;
	}
	return 0;
}

static int export_file(struct store *s, const struct tree_entry *e, int dirfd,
		       const char *name)
{
	_cleanup_close_ int fd = openat(
		dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : write_content(s, e, fd);
}

static int export_symlink(const struct tree_entry *e, int dirfd,
			  const char *name)
{
	char target[FORMAT_MAX_TARGET + 1];

	memcpy(target, e->target, e->target_len);
	target[e->target_len] = 0;
	return symlinkat(target, dirfd, name) < 0 ? -errno : 0;
}

static int set_attributes(const struct tree_entry *e, int dirfd,
			  const char *name)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = e->mtime_sec, .tv_nsec = e->mtime_nsec}};

	if (geteuid() == 0 &&
	    fchownat(dirfd, name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(e->mode) && fchmodat(dirfd, name, e->mode & 07777, 0) < 0)
		return -errno;
	if (utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int export_tree(struct store *s, const struct oid *id, int dirfd);

static int export_entry(struct store *s, const struct tree_entry *e, int dirfd)
{
	char name[NAME_MAX + 1];
	int r;

	memcpy(name, e->name, e->name_len);
	name[e->name_len] = 0;
	if (S_ISDIR(e->mode)) {
		_cleanup_close_ int fd = -1;

		if (mkdirat(dirfd, name, 0700) < 0)
			return -errno;
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		r = export_tree(s, &e->content, fd);
	} else if (S_ISREG(e->mode)) {
		r = export_file(s, e, dirfd, name);
	} else if (S_ISLNK(e->mode)) {
		r = export_symlink(e, dirfd, name);
	} else {
		r = mknodat(dirfd, name, e->mode, e->rdev) < 0 ? -errno : 0;
	}
	if (r < 0)
		return r;
	return set_attributes(e, dirfd, name);
}

static int export_tree(struct store *s, const struct oid *id, int dirfd)
{
	_cleanup_buf_ struct buf b = {.len = 0};
	struct tree_entry e;
	struct tree t;
	int r;

	r = store_get(s, id, &b);
	if (r == 0)
		r = tree_open(b.data, b.len, &t);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		r = export_entry(s, &e, dirfd);
		if (r < 0)
			return r;
	}
	return 0;
}

int export_snapshot(struct store *s, const struct oid *id, int dirfd)
{
	struct snap snap;
	int r = store_get_snap(s, id, &snap);

	if (r < 0)
		return r;
	return export_tree(s, &snap.tree, dirfd);
}
