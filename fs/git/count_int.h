/* SPDX-License-Identifier: MIT */
/*
 * count_int.h - how much two trees of git differ.
 *
 * Contract
 *   Ownership   plain values
 *   Threads     one
 */
#ifndef COWFS_GIT_COUNT_INT_H
#define COWFS_GIT_COUNT_INT_H

#include "git/odb_int.h"

struct gitcount {
	uint64_t files;			/* a file that was only moved is one */
	uint64_t insertions, deletions; /* lines */
};

/* Counts from one tree (NULL: an empty one) to another, both in the origin.
 * Binary files and those over 8 MiB have no lines. */
_must_check_ int gitcount_trees(struct gitodb *o, const git_oid *from,
				const git_oid *to, struct gitcount *ret_count);

#endif
