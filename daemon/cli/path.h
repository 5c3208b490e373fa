/* SPDX-License-Identifier: MIT */
/*
 * path.h - paths on the command line.
 *
 * Nothing here touches the path itself: it may be below a mount that hangs.
 *
 * Contract
 *   Ownership   the caller frees returned strings
 *   Threads     any
 *   Errors      negative errno
 */
#ifndef COWFS_CLI_PATH_H
#define COWFS_CLI_PATH_H

#include "base/attr.h"

#include <stdbool.h>

/* Whether an argument is a path: it has a '/', or is "." or "..". */
bool path_is_path(const char *arg);
/* Makes it absolute, without "//", "/./" and a '/' at the end; "a/.." stays
 * unless clean: then it goes too, as if there were no symbolic links. */
_must_check_ int path_absolute(const char *path, bool clean, char **ret_path);
/* Returns the last component of an absolute, clean path; "" for "/". */
const char *path_last(const char *path);
/* The store that is meant: of the option, $COWFS_STORE or the default. */
_must_check_ int path_store(const char *option, char **ret_path);

#endif
