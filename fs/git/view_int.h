/* SPDX-License-Identifier: MIT */
/*
 * view_int.h - files of an environment by path, never through a link.
 *
 * Whatever runs in the environment may put a link in place of a directory
 * while we read; a path leads into the environment or nowhere.
 *
 * Contract
 *   Ownership   gitview_close closes all
 *   Threads     one
 *   Errors      -ENOENT: there is no such path (or a link is on its way)
 */
#ifndef COWFS_GIT_VIEW_INT_H
#define COWFS_GIT_VIEW_INT_H

#include "base/buf.h"

#include <sys/stat.h>

struct gitview {
	int root;
	int fd;		/* of the directory looked at last; or -1 */
	struct buf dir; /* its path */
};

_must_check_ int gitview_open(struct gitview *v, const char *path);
void gitview_close(struct gitview *v);
/* Finds the directory that a path is in; it is lent until the next call.
 * ret_name is the path's last part. */
_must_check_ int gitview_parent(struct gitview *v, const char *path,
				int *ret_dir, const char **ret_name);
_must_check_ int gitview_stat(struct gitview *v, const char *path,
			      struct stat *ret_st);
/* Opens a regular file for reading; returns the descriptor. */
_must_check_ int gitview_open_file(struct gitview *v, const char *path);
/* Appends the target of a symbolic link. */
_must_check_ int gitview_read_link(struct gitview *v, const char *path,
				   struct buf *out);
/* Reads a small file whole; -ENOENT also when it is no regular one. */
_must_check_ int gitview_read(struct gitview *v, const char *path, size_t max,
			      struct buf *out);

#endif
