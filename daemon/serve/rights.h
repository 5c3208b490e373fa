/* SPDX-License-Identifier: MIT */
/*
 * rights.h - what this process needs in order to mount, and what to do when it
 * is missing.
 *
 * The same words for a mount that fails and for `cowfs doctor`.
 *
 * Contract
 *   Ownership   the caller's buffers
 *   Threads     one (getpwuid)
 *   Errors      whatever cannot be looked at counts as missing
 */
#ifndef COWFS_SERVE_RIGHTS_H
#define COWFS_SERVE_RIGHTS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

enum rights_need {
	RIGHTS_DEVICE,	/* /dev/fuse may be opened */
	RIGHTS_PROGRAM, /* fusermount3 is there and may do its work */
	RIGHTS_ACCOUNT, /* the user has a name, which fusermount3 wants */
	RIGHTS_OTHERS,	/* a user may open a mount to others */
};

enum { RIGHTS_TEXT_BYTES = 4608 };

/* Says whether there is what is needed, and in one line what it is; when it is
 * missing, what to install or to change. Root needs RIGHTS_DEVICE only. */
bool rights_have(enum rights_need need, char ret_text[RIGHTS_TEXT_BYTES]);

/* Finds a program by PATH; "" and false when there is none. */
bool rights_find(const char *program, char *ret_path, size_t size);

#endif
