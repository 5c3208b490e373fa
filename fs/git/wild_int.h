/* SPDX-License-Identifier: MIT */
/*
 * wild_int.h - does a path fit a pattern of gitignore(5).
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_GIT_WILD_INT_H
#define COWFS_GIT_WILD_INT_H

#include <stdbool.h>

enum {
	WILD_PATH = 1, /* '*', '?' and sets do not stand for a '/' */
	WILD_CASE = 2, /* letters are the same in both cases */
};

bool gitwild_match(const char *pattern, const char *text, unsigned flags);

#endif
