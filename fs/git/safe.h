/* SPDX-License-Identifier: MIT */
/*
 * safe.h - whose repositories are trusted, by git's rules.
 *
 * A repository can name programs to run and paths to read. git therefore works
 * in one of somebody else only when the user's own or the system's config has
 * it, or "*", as safe.directory.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Threads     one: reads the environment
 */
#ifndef COWFS_GIT_SAFE_H
#define COWFS_GIT_SAFE_H

#include <stdbool.h>
#include <sys/types.h>

/* Says whether files of that user are the caller's own: his, or with sudo
 * those of who called it. */
bool gitsafe_is_owner(uid_t uid);
/* Says whether the caller has said that he trusts a directory (or one above
 * it, for a git directory). */
bool gitsafe_is_trusted(const char *path);

#endif
