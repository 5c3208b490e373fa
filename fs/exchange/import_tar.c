/* SPDX-License-Identifier: MIT */
/*
 * import_tar.c - the entries of an archive become names of a tree.
 *
 * An entry is taken as tar would take it, with what tar would have to do on a
 * disk done in memory: a later entry replaces an earlier one of that name,
 * missing directories are made (0755, root, 1970), a leading '/' does not
 * count. Refused is what tar either refuses too or should: "..", names below a
 * link or a file, hard links to what the archive does not have.
 *
 * What an archive claims is bounded before anything is allocated for it: sizes
 * by max_bytes, names by max_files, headers by libarchive (1 MiB each).
 */
#include "exchange/import_tar.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/name.h"
#include "exchange/tar_int.h"
#include "object/snap.h"

/* Seconds; libarchive does not read all of 64 bits. */
#define TIME_MAX (INT64_C(1) << 60)

struct taking {
	struct importer imp;
	const struct import_tar_source *source;
	struct tar_stream stream;
	struct tar_tree tree;
	struct import_left odd; /* extended attributes */
};

static void taking_fini(struct taking *t)
{
	tar_stream_close(&t->stream);
	tar_tree_fini(&t->tree);
	free(t->odd.first);
	import_fini(&t->imp);
}

/* --- refusing --------------------------------------------------------------
 */

static int refuse(struct taking *t, const char *why)
{
	return diag_fail(t->imp.diag, -EINVAL, "%s: %s", import_path(&t->imp),
			 why);
}

static int refuse_path(struct taking *t, int err, const char *what)
{
	switch (err) {
	case -EINVAL:
		return diag_fail(t->imp.diag, err, "%s: %s with \"..\"",
				 import_path(&t->imp), what);
	case -ELOOP:
		return diag_fail(t->imp.diag, err,
				 "%s: %s below a symbolic link",
				 import_path(&t->imp), what);
	case -ENOTDIR:
		return diag_fail(t->imp.diag, err,
				 "%s: %s below something that is no directory",
				 import_path(&t->imp), what);
	case -EMFILE:
		return diag_fail(t->imp.diag, err,
				 "archive: more than %" PRIu64
				 " names (--max-files)",
				 t->source->max_files);
	case -ENOENT:
		return diag_fail(t->imp.diag, err,
				 "%s: a hard link to what is not in the "
				 "archive before it",
				 import_path(&t->imp));
	default:
		return import_fail(&t->imp, err);
	}
}

/* --- what the user leaves out ----------------------------------------------
 */

/* Whether a path, or a directory above it, is excluded. */
static bool is_excluded(struct taking *t, const char *path, bool is_dir)
{
	struct importer *imp = &t->imp;
	char name[NAME_MAX_BYTES + 1];
	bool found = false;

	if (!imp->glob_count)
		return false;
	buf_clear(&imp->path);
	while (*path && !found) {
		const size_t n = strcspn(path, "/");
		const char *rest = path + n + strspn(path + n, "/");

		if (n && n < sizeof name && !(n == 1 && *path == '.')) {
			memcpy(name, path, n);
			name[n] = '\0';
			(void)import_path_push(imp, name);
			found = import_excluded(imp, name, *rest || is_dir);
		}
		path = rest;
	}
	buf_clear(&imp->path);
	return found;
}

/* --- one entry -------------------------------------------------------------
 */

/* libarchive reads "-1.5" as -1 and +0.5, and "-0.5" as 0 and +0.5 (pax.c). */
static void read_mtime(struct archive_entry *e, struct tar_inode *i)
{
	const bool lost =
		archive_entry_ctime_is_set(e) && archive_entry_ctime(e) == -1;

	i->mtime_sec = archive_entry_mtime(e);
	i->mtime_nsec = (uint32_t)archive_entry_mtime_nsec(e);
	if (i->mtime_nsec && (i->mtime_sec < 0 || (!i->mtime_sec && lost))) {
		i->mtime_sec--;
		i->mtime_nsec = 1000000000 - i->mtime_nsec;
	}
}

static int read_numbers(struct taking *t, struct archive_entry *e,
			struct tar_inode *i)
{
	const la_int64_t uid = archive_entry_uid(e);
	const la_int64_t gid = archive_entry_gid(e);
	const la_int64_t sec = archive_entry_mtime(e);
	const long nsec = archive_entry_mtime_nsec(e);

	if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
		return refuse(t, "an owner that is no number of a user");
	if (nsec < 0 || nsec >= 1000000000 || sec < -TIME_MAX || sec > TIME_MAX)
		return refuse(t, "a time that is none");
	i->uid = (uint32_t)uid;
	i->gid = (uint32_t)gid;
	read_mtime(e, i);
	i->mode = (archive_entry_perm(e) & 07777) | archive_entry_filetype(e);
	return 0;
}

static int read_file(struct taking *t, struct archive_entry *e,
		     struct tar_inode *i)
{
	const la_int64_t size = archive_entry_size(e);
	struct import_result *res = &t->imp.result;

	if (size < 0)
		return refuse(t, "a size that is none");
	if ((uint64_t)size > FORMAT_MAX_FILE)
		return diag_fail(t->imp.diag, -EFBIG,
				 "%s: larger than %" PRIu64 " bytes",
				 import_path(&t->imp), FORMAT_MAX_FILE);
	if ((uint64_t)size > t->source->max_bytes - res->bytes)
		return diag_fail(t->imp.diag, -EFBIG,
				 "%s: the archive holds more than %" PRIu64
				 " bytes (--max-size)",
				 import_path(&t->imp), t->source->max_bytes);
	i->size = (uint64_t)size;
	res->bytes += i->size;
	res->files++;
	import_progress(&t->imp);
	return i->size ? tar_content(&t->imp, &t->stream, i->size, &i->content)
		       : 0;
}

static int read_target(struct taking *t, struct archive_entry *e,
		       struct tar_inode *i)
{
	const char *target = archive_entry_symlink(e);
	const size_t n = target ? strlen(target) : 0;

	if (!n || n > FORMAT_MAX_TARGET)
		return refuse(t, n ? "a symbolic link that is too long"
				   : "a symbolic link to nothing");
	i->mode |= 0777; /* as Linux has it, whatever an archive says */
	i->target = strdup(target);
	i->size = n;
	return i->target ? 0 : -ENOMEM;
}

/* Fills a new inode from the entry and its data. */
static int read_inode(struct taking *t, struct archive_entry *e,
		      struct tar_inode *i)
{
	int r = read_numbers(t, e, i);

	if (r == 0)
		r = tar_xattrs(&t->imp, e, &t->odd, i);
	if (r < 0)
		return r;
	switch (i->mode & S_IFMT) {
	case S_IFREG:
		return read_file(t, e, i);
	case S_IFLNK:
		return read_target(t, e, i);
	case S_IFCHR:
	case S_IFBLK:
		i->rdev = archive_entry_rdev(e);
		return 0;
	case S_IFDIR:
	case S_IFIFO:
		return 0;
	default:
		return refuse(t, "of a kind that is not known");
	}
}

static int set(struct taking *t, struct tar_node *n, struct tar_inode *i)
{
	const int r = tar_tree_set(n, i);

	if (r == -ENOTEMPTY)
		return refuse(t, "would replace a directory with names in it");
	if (r == -ENOTDIR)
		return refuse(t, "would replace the root");
	return r;
}

static int take_link(struct taking *t, const char *path, const char *target)
{
	struct tar_node *from, *to;
	int r;

	r = tar_tree_at(&t->tree, target, false, &from);
	if (r < 0)
		return refuse_path(t, r, "a hard link to a path");
	if (S_ISDIR(from->inode->mode))
		return refuse(t, "a hard link to a directory");
	r = tar_tree_at(&t->tree, path, true, &to);
	if (r < 0)
		return refuse_path(t, r, "a path");
	if (S_ISREG(from->inode->mode))
		t->imp.result.files++;
	return from == to ? 0 : set(t, to, from->inode);
}

static int take_inode(struct taking *t, const char *path,
		      struct archive_entry *e)
{
	struct tar_inode *i = calloc(1, sizeof *i);
	struct tar_node *n;
	int r;

	if (!i)
		return -ENOMEM;
	i->names = 1; /* this function's, until the end */
	r = tar_tree_at(&t->tree, path, true, &n);
	if (r < 0)
		r = refuse_path(t, r, "a path");
	else
		r = read_inode(t, e, i);
	if (r == 0)
		r = set(t, n, i);
	tar_inode_unref(i);
	return r;
}

static int take_entry(struct taking *t, struct archive_entry *e)
{
	const char *path = archive_entry_pathname(e);
	const char *target = archive_entry_hardlink(e);
	struct importer *imp = &t->imp;
	bool lost;
	int r;

	buf_clear(&imp->path);
	if (!path || !*path)
		return refuse(t, "an entry without a name");
	if (is_excluded(t, path, archive_entry_filetype(e) == AE_IFDIR))
		return 0;
	lost = target && is_excluded(t, target, false);
	buf_put(&imp->path, path, strlen(path));
	if (lost)
		return refuse(t, "a hard link to what --exclude leaves out");
	r = target ? take_link(t, path, target) : take_inode(t, path, e);
	if (r == 0)
		buf_clear(&imp->path);
	return r;
}

/* --- the whole -------------------------------------------------------------
 */

static int take_all(struct taking *t)
{
	struct archive_entry *e;
	int r = 0;

	while (r >= 0 && (r = tar_stream_next(&t->stream, t->imp.diag, &e)) > 0)
		r = take_entry(t, e);
	return r;
}

static int put_snapshot(struct taking *t)
{
	struct importer *imp = &t->imp;
	struct tree_entry root;
	struct oid links;
	int r = tar_tree_put(imp, &t->tree, &root, &links);

	if (r < 0)
		return r;
	imp->result.inodes = root.below + 1;
	return import_put_snapshot(imp, &root, &links, &imp->result.id);
}

static void report(struct taking *t)
{
	if (t->odd.count)
		diag_add(t->imp.notes,
			 "left out %" PRIu64 " extended attribute%s that no "
			 "file system has, the first of: %s",
			 t->odd.count, t->odd.count == 1 ? "" : "s",
			 t->odd.first ? t->odd.first : "?");
}

static int take(struct taking *t)
{
	struct importer *imp = &t->imp;
	int r = import_init(imp);

	if (r == 0)
		r = tar_tree_init(&t->tree, t->source->max_files);
	/* waits for the first bytes, which gc need not wait for as well */
	if (r == 0)
		r = tar_stream_open(&t->stream, t->source->fd, imp->diag);
	if (r == 0)
		r = batch_begin(imp->store, &imp->batch);
	if (r == 0)
		r = take_all(t);
	if (r == 0)
		r = put_snapshot(t);
	return r < 0 ? r : import_commit(imp, t->source->path, t->source->ref);
}

int import_tar(struct store *s, const struct import_tar_source *source,
	       const struct import_options *options, struct diag *notes,
	       struct diag *diag, struct import_result *ret_result)
{
	_cleanup_(taking_fini) struct taking t = {.imp = {.store = s,
							  .options = options,
							  .notes = notes,
							  .diag = diag},
						  .source = source};
	const size_t told = diag ? diag->count : 0;
	int r = take(&t);

	if (r < 0) {
		if (diag && diag->count == told)
			r = import_fail(&t.imp, r);
		return r;
	}
	report(&t);
	*ret_result = t.imp.result;
	return 0;
}
