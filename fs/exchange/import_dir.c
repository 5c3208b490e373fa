/* SPDX-License-Identifier: MIT */
/*
 * import_dir.c - an import from its first call to the commit.
 *
 * The tree is walked once, depth first (import_walk.c); trees are stored as
 * soon as their directories are done. What has no place before the end is the
 * hard link table. The snapshot object then names the root's tree and the
 * table, and the commit makes it visible: before that there are only objects
 * that nothing names, so an import that fails or is killed leaves no trace
 * that gc would not remove.
 *
 * Only the root may be a symlink: the user named it.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "object/snap.h"

enum { HOST_BYTES = 256 };

static const struct import_options no_options;

void import_fini(struct importer *imp)
{
	batch_abort(imp->batch);
	import_globs_fini(imp);
	import_links_fini(imp);
	import_scan_fini(imp->scan);
	free(imp->sockets.first);
	free(imp->locks.first);
	free(imp->skipped.first);
	free(imp->mounts.first);
	free(imp->outward.first);
	free(imp->linked.first);
	free(imp->lent.first);
	for (size_t i = 0; i < imp->repo_count; i++) {
		free(imp->repos[i].index);
		free(imp->repos[i].work);
	}
	free(imp->repos);
	free(imp->root_real);
	free(imp->git_dir);
	free(imp->git_head);
	free(imp->git_commit);
	free(imp->chunk);
	free(imp->dents);
	free(imp->target);
	buf_fini(&imp->path);
	buf_fini(&imp->object);
	buf_fini(&imp->xnames);
	buf_fini(&imp->xvalues);
}

int import_init(struct importer *imp)
{
	struct timespec now = clock_now();
	struct stat st;

	imp->started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	imp->noatime = true;
	imp->chunk = malloc(FORMAT_CHUNK_BYTES);
	imp->dents = malloc(IMPORT_DENTS_BYTES);
	imp->target = malloc(FORMAT_MAX_TARGET + 1);
	if (!imp->chunk || !imp->dents || !imp->target)
		return -ENOMEM;
	if (fstat(store_fd(imp->store), &st) < 0)
		return -errno;
	imp->store_dev = st.st_dev;
	imp->store_ino = st.st_ino;
	return import_globs_init(imp);
}

/* Whether a directory is the store or below it. What is mounted there, as
 * environments are, is no part of the store. */
static int is_in_store(const struct importer *imp, int fd, struct stat st)
{
	_cleanup_close_ int dir = -1;
	ino_t below = 0;

	while (st.st_dev == imp->store_dev && st.st_ino != below) {
		int up;

		if (st.st_ino == imp->store_ino)
			return 1;
		below = st.st_ino;
		up = openat(dir < 0 ? fd : dir, "..",
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0)
			return -errno;
		if (dir >= 0)
			(void)close(dir);
		dir = up;
		if (fstat(dir, &st) < 0)
			return -errno;
	}
	return 0;
}

static int root_open(struct importer *imp, const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
	if (fd < 0 && errno == EPERM)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return diag_fail(imp->diag, -errno, "%s: %s", path,
				 err_text(errno));
	if (fstat(fd, &st) < 0)
		return -errno;
	r = is_in_store(imp, fd, st);
	/* Above it there may be what the caller may not pass: not the store. */
	if (r > 0)
		return diag_fail(imp->diag, -EINVAL,
				 st.st_ino == imp->store_ino
					 ? "%s: is the store itself"
					 : "%s: is a part of the store",
				 path);
	imp->root_dev = imp->source_dev = st.st_dev;
	imp->root_real = import_real(fd);
	if (imp->root_real) {
		const char *name = strrchr(imp->root_real, '/');

		imp->in_git = name && !strcmp(name, "/.git");
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int import_put_snapshot(struct importer *imp, const struct tree_entry *root,
			const struct oid *links, struct oid *ret_id)
{
	const struct snap s = {.mode = root->mode,
			       .uid = root->uid,
			       .gid = root->gid,
			       .mtime_sec = root->mtime_sec,
			       .mtime_nsec = root->mtime_nsec,
			       .subdirs = (uint32_t)root->size,
			       .total = root->below,
			       .tree = root->content,
			       .xattrs = root->xattrs,
			       .links = *links};
	int r;

	buf_clear(&imp->object);
	snap_encode(&s, &imp->object);
	r = buf_error(&imp->object);
	if (r < 0)
		return r;
	return import_put(imp, OID_SNAP, imp->object.data, imp->object.len,
			  ret_id);
}

/* The root's tree is changed to what its indexes were adapted to. */
static int snapshot_put(struct importer *imp, int root_fd,
			struct tree_entry *root, struct oid *ret_id)
{
	struct oid links;
	int r = import_links_put(imp, &links);

	if (r == 0)
		r = import_indexes(imp, root_fd, &root->content);
	return r < 0 ? r : import_put_snapshot(imp, root, &links, ret_id);
}

int import_commit(struct importer *imp, const char *source, const char *ref)
{
	const char *message = imp->options->message;
	char host[HOST_BYTES] = "";
	struct snapshot_info info = {.id = imp->result.id,
				     .time_sec = clock_now().tv_sec,
				     .inodes = imp->result.inodes,
				     .bytes = imp->result.bytes,
				     .source = source,
				     .host = host,
				     .message = message ? message : "",
				     .git_dir = imp->git_dir,
				     .git_head = imp->git_head,
				     .git_commit = imp->git_commit};
	int r;

	(void)gethostname(host, sizeof host - 1);
	imp->result.stored_bytes = batch_bytes_written(imp->batch);
	r = batch_commit(TAKE_PTR(imp->batch), &info, ref);
	if (r == -EEXIST)
		return diag_fail(imp->diag, r,
				 "%s: another import wrote an object that "
				 "collides with one of this; try again",
				 source);
	return r;
}

/* A file that vanishes meanwhile is left out; without the whole directory what
 * was read is half of it. */
static int check_root(const struct importer *imp, int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return diag_fail(imp->diag, -ENOENT,
				 "%s: vanished while it was read", path);
	return 0;
}

static int import_root(struct importer *imp, const char *path)
{
	struct tree_entry root = {.name = NULL};
	_cleanup_close_ int fd = -1;
	int r;

	r = root_open(imp, path, &fd);
	if (r < 0)
		return r;
	r = batch_begin(imp->store, &imp->batch);
	if (r == 0)
		r = import_scan_begin(imp, fd, path);
	if (r < 0)
		return r;
	r = import_walk(imp, fd, &root);
	if (r < 0)
		return r;
	if (imp->unreadable)
		return imp->unreadable;
	if (r != IMPORT_TAKEN)
		return diag_fail(imp->diag, -EACCES, "%s: cannot be listed",
				 path);
	r = check_root(imp, fd, path);
	if (r < 0)
		return r;
	imp->result.inodes = root.below + 1;
	return snapshot_put(imp, fd, &root, &imp->result.id);
}

int import_dir(struct store *s, const char *path, const char *ref,
	       const struct import_options *options, struct diag *notes,
	       struct diag *diag, struct import_result *ret_result)
{
	_cleanup_(import_fini) struct importer imp = {
		.store = s,
		.options = options ? options : &no_options,
		.notes = notes,
		.diag = diag};
	size_t told = diag ? diag->count : 0;
	int r;

	r = import_init(&imp);
	if (r == 0)
		r = import_root(&imp, path);
	if (r == 0) {
		_cleanup_free_ char *real = realpath(path, NULL);

		r = import_commit(&imp, real ? real : path, ref);
	}
	if (r < 0) {
		if (diag && diag->count == told)
			r = import_fail(&imp, r);
		return r;
	}
	import_scan_save(&imp);
	import_memo_save(&imp);
	import_report(&imp);
	*ret_result = imp.result;
	return 0;
}
