/* SPDX-License-Identifier: MIT */
/*
 * mountinfo.h - the mounts that this process sees, oldest first.
 *
 * Contract
 *   Ownership   mountinfo_fini frees; paths are lent until then
 *   Threads     any
 *   Errors      negative errno
 */
#ifndef COWFS_CLI_MOUNTINFO_H
#define COWFS_CLI_MOUNTINFO_H

#include "base/buf.h"

struct mount_line {
	unsigned minor; /* of its device: the number of a FUSE connection */
	char *path;	/* unescaped */
	char *type;
};

struct mountinfo {
	struct mount_line *v;
	size_t count;
	struct buf text;
};

/* Reads /proc/self/mountinfo. */
_must_check_ int mountinfo_read(struct mountinfo *m);
/* Takes a text of that form (its bytes are changed); lines that make no sense
 * are left out. */
_must_check_ int mountinfo_parse(struct mountinfo *m);
void mountinfo_fini(struct mountinfo *m);
/* Whether something is mounted exactly there. */
bool mountinfo_has(const struct mountinfo *m, const char *path);

#endif
