/* SPDX-License-Identifier: MIT */
/*
 * store_int.h - the open store, as the files of this layer see it.
 *
 * Contract
 *   Ownership   as store.h
 *   Threads     members are set at open and not changed after it
 */
#ifndef COWFS_STORE_STORE_INT_H
#define COWFS_STORE_STORE_INT_H

#include "store/index_int.h"
#include "store/segment_int.h"
#include "store/store.h"

#include <sys/types.h>

struct store {
	char *path; /* absolute */
	int fd;
	struct index *index;
	struct segments *segments;
	/* Opens of one store in one process share it (LMDB's rule). */
	struct store *next; /* protected by the registry's lock */
	unsigned users;	    /* protected by the registry's lock */
	dev_t dev;
	ino_t ino;
	pid_t pid;
};

/* --- create.c ----------------------------------------------------------- */

/* Makes a store at path, or leaves one that another process made meanwhile.
 * -ENOTEMPTY: something else is there. */
_must_check_ int store_create_int(const char *path, struct diag *diag);
/* Checks STORE/format. -ENOENT: there is none. */
_must_check_ int store_check_format_int(int fd, const char *path,
					struct diag *diag);
/* Says whether a directory holds nothing but what an interrupted creation may
 * have left: 1, 0 or an error. */
_must_check_ int store_is_vacant_int(int fd);

#endif
