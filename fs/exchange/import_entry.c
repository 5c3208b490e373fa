/* SPDX-License-Identifier: MIT */
/*
 * import_entry.c - one name of a directory.
 *
 * What a name is comes from the directory listing where it tells, which saves
 * a stat per file. It may be something else by the time it is opened, so every
 * open is one that does no harm to the other kinds (O_NOFOLLOW, O_NONBLOCK,
 * O_PATH), and what was opened is looked at; on a surprise the name is taken
 * again with a stat first.
 *
 * The functions for single kinds are kept out of the recursion's frames: a
 * tree may be thousands of levels deep.
 */
#include "exchange/import_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"

#define NOT_RECURSIVE __attribute__((noinline))

void import_attributes(const struct stat *st, struct tree_entry *e)
{
	e->mode = st->st_mode;
	e->uid = st->st_uid;
	e->gid = st->st_gid;
	e->rdev =
		S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? st->st_rdev : 0;
	e->mtime_sec = st->st_mtim.tv_sec;
	e->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
}

/* A file that was mounted over another one, as containers have them. */
static bool is_mounted_file(struct importer *imp, int fd, const struct stat *st)
{
	struct statx stx;

	if (st->st_dev == imp->root_dev || imp->options->cross_mounts)
		return false;
	return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx) == 0 &&
	       (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* The errors by which an open tells that it met another kind. */
static int open_error(int err)
{
	if (err == -ELOOP || err == -ENOTDIR || err == -EISDIR ||
	    err == -ENXIO || err == -ENODEV)
		return IMPORT_RETYPED;
	return err;
}

static int add_to_group(struct importer *imp, int fd, const char *name,
			const struct stat *st, struct import_node *node)
{
	struct import_group *g;
	int r;

	r = import_group_add(imp, fd, name, st, &node->e, &g);
	if (r < 0)
		return r;
	return import_group_join(imp, g, node);
}

static int count_file(struct importer *imp)
{
	imp->result.files++;
	import_progress(imp);
	return IMPORT_TAKEN;
}

/* Takes a file that is as the last import saw it, without opening it.
 * IMPORT_RETYPED: it is not. */
static NOT_RECURSIVE int take_unchanged(struct importer *imp, int dirfd,
					const char *name,
					struct import_node *node)
{
	struct import_group *g;
	struct stat st;
	int r = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) <
		    0 ||
	    !import_scan_find(imp, &st, &node->e))
		return IMPORT_RETYPED;
	g = st.st_nlink > 1 ? import_group_find(imp, dirfd, name, &st) : NULL;
	if (g) {
		r = import_group_join(imp, g, node);
	} else {
		import_attributes(&st, &node->e);
		imp->result.bytes += node->e.size;
		if (st.st_nlink > 1)
			r = add_to_group(imp, dirfd, name, &st, node);
	}
	if (r < 0)
		return r;
	imp->result.unchanged++;
	return count_file(imp);
}

static NOT_RECURSIVE int take_file(struct importer *imp, int dirfd,
				   const char *name, struct import_node *node)
{
	_cleanup_close_ int fd = -1;
	struct import_group *g;
	struct stat st;
	int r;

	fd = import_openat(imp, dirfd, name, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return open_error(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return IMPORT_RETYPED;
	if (is_mounted_file(imp, fd, &st)) {
		import_left_out(imp, &imp->mounts);
		return IMPORT_LEFT_OUT;
	}
	g = st.st_nlink > 1 ? import_group_find(imp, fd, "", &st) : NULL;
	if (g) {
		r = import_group_join(imp, g, node);
	} else {
		r = import_file(imp, fd, &st, &node->e);
		if (r < 0)
			return r;
		import_attributes(&st, &node->e);
		imp->result.bytes += node->e.size;
		if (st.st_nlink > 1)
			r = add_to_group(imp, fd, "", &st, node);
	}
	return r < 0 ? r : count_file(imp);
}

static int read_target(struct importer *imp, int fd, struct tree_entry *e)
{
	ssize_t n = readlinkat(fd, "", imp->target, FORMAT_MAX_TARGET + 1);

	if (n < 0)
		return -errno;
	if (n > FORMAT_MAX_TARGET)
		return -ENAMETOOLONG;
	e->target = imp->target;
	e->target_len = (uint16_t)n;
	e->size = (uint64_t)n;
	return 0;
}

/* Symlinks, FIFOs, devices, sockets. */
static NOT_RECURSIVE int take_special(struct importer *imp, int dirfd,
				      const char *name,
				      struct import_node *node)
{
	_cleanup_close_ int fd = -1;
	struct import_group *g;
	struct stat st;
	int r = 0;

	fd = import_openat(imp, dirfd, name, O_PATH);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return IMPORT_RETYPED;
	if (S_ISSOCK(st.st_mode)) {
		import_left_out(imp, &imp->sockets);
		return IMPORT_LEFT_OUT;
	}
	g = st.st_nlink > 1 ? import_group_find(imp, fd, "", &st) : NULL;
	if (g)
		return import_group_join(imp, g, node);
	import_attributes(&st, &node->e);
	if (S_ISLNK(st.st_mode))
		r = read_target(imp, fd, &node->e);
	if (r == 0)
		r = import_xattrs(imp, fd, st.st_dev, true, &node->e.xattrs);
	if (r == 0 && st.st_nlink > 1)
		r = add_to_group(imp, fd, "", &st, node);
	return r;
}

/* A mount point is kept as an empty directory, as tar and rsync keep it. */
static NOT_RECURSIVE int take_foreign(struct importer *imp, int fd,
				      struct import_node *node)
{
	struct tree_builder b = {.count = 0};
	struct stat st;
	int r;

	import_left_out(imp, &imp->mounts);
	if (fstat(fd, &st) < 0)
		return -errno;
	r = import_tree_put(imp, &b, &st, &node->e);
	tree_builder_fini(&b);
	return r;
}

static int take_dir(struct importer *imp, int dirfd, const char *name,
		    struct import_node *node)
{
	_cleanup_close_ int fd = -1;
	bool is_git = !strcmp(name, ".git");
	bool foreign = false;
	int r;

	r = import_open_dir(imp, dirfd, name, &fd, &foreign);
	if (r != IMPORT_TAKEN)
		return import_settle(imp, r < 0 ? open_error(r) : r);
	if (foreign)
		return import_settle(imp, take_foreign(imp, fd, node));
	if (imp->depth >= FORMAT_MAX_DEPTH)
		return diag_fail(imp->diag, -ENAMETOOLONG,
				 "%s: deeper than %d directories",
				 import_path(imp), FORMAT_MAX_DEPTH);
	imp->depth++;
	imp->in_git += is_git;
	r = import_walk(imp, fd, &node->e);
	imp->in_git -= is_git;
	imp->depth--;
	return r;
}

static NOT_RECURSIVE int entry_type(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) <
	    0)
		return -errno;
	return IFTODT(st.st_mode);
}

/* The list of other repositories' objects: those are taken instead. */
static NOT_RECURSIVE bool is_alternates(struct importer *imp, const char *name)
{
	static const char tail[] = "/objects/info/alternates";
	const size_t n = sizeof tail - 1;

	return imp->in_git && !strcmp(name, tail + 14) && imp->path.len > n &&
	       !memcmp(imp->path.data + imp->path.len - n, tail, n);
}

static NOT_RECURSIVE int take_regular(struct importer *imp, int dirfd,
				      const char *name,
				      struct import_node *node)
{
	int r = IMPORT_RETYPED;

	if (import_scan_known(imp))
		r = take_unchanged(imp, dirfd, name, node);
	if (r == IMPORT_RETYPED)
		r = take_file(imp, dirfd, name, node);
	return r;
}

/* A file or symlink ".git". */
static NOT_RECURSIVE int take_gitfile(struct importer *imp, int dirfd,
				      const char *name, int type,
				      struct import_node *node)
{
	_cleanup_buf_ struct buf text = {0};
	int r = import_gitfile(imp, dirfd, name, node, &text);

	if (r != IMPORT_RETYPED)
		return r;
	if (type != DT_REG)
		return take_special(imp, dirfd, name, node);
	r = take_regular(imp, dirfd, name, node);
	if (r == IMPORT_TAKEN && text.len)
		r = import_content_put(imp, text.data, text.len, &node->e);
	return r;
}

static int entry_take(struct importer *imp, int dirfd, const char *name,
		      int type, struct import_node *node)
{
	if (type == DT_UNKNOWN)
		type = entry_type(dirfd, name);
	if (type < 0)
		return import_settle(imp, type);
	if (!import_is_wanted(imp, name) ||
	    (imp->glob_count && import_excluded(imp, name, type == DT_DIR)))
		return IMPORT_LEFT_OUT;
	if (imp->in_git && import_is_git_lock(name, type == DT_DIR)) {
		import_left_out(imp, &imp->locks);
		return IMPORT_LEFT_OUT;
	}
	if (type == DT_DIR)
		return take_dir(imp, dirfd, name, node);
	if (is_alternates(imp, name))
		return IMPORT_LEFT_OUT;
	if (!imp->in_git && !strcmp(name, ".git") &&
	    (type == DT_REG || type == DT_LNK))
		return import_settle(
			imp, take_gitfile(imp, dirfd, name, type, node));
	if (type == DT_REG)
		return import_settle(imp, take_regular(imp, dirfd, name, node));
	return import_settle(imp, take_special(imp, dirfd, name, node));
}

int import_entry(struct importer *imp, int dirfd, const char *name,
		 unsigned char type, struct import_node *ret_node)
{
	size_t path_len = import_path_push(imp, name);
	int r = IMPORT_RETYPED;

	for (int i = 0; i < IMPORT_TRIES && r == IMPORT_RETYPED; i++) {
		*ret_node =
			(struct import_node){.link_begin = imp->member_count,
					     .link_end = imp->member_count};
		r = entry_take(imp, dirfd, name, i ? DT_UNKNOWN : type,
			       ret_node);
	}
	if (r == IMPORT_RETYPED)
		return diag_fail(imp->diag, -EBUSY,
				 "%s: does not stay what it is",
				 import_path(imp));
	if (r < 0)
		return r; /* the path stays where it failed */
	imp->gone += r == IMPORT_GONE;
	ret_node->e.name = name;
	ret_node->e.name_len = (uint16_t)strlen(name);
	ret_node->link_end = imp->member_count;
	import_path_pop(imp, path_len);
	return r;
}
