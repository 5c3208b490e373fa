/* SPDX-License-Identifier: MIT */
/*
 * users_int.h - who uses a mount, found without touching it.
 *
 * The device number is known from mountinfo; everything else is read from
 * /proc, so the answer comes also when the mount is wedged. Runs in children
 * of the keeper only: reading another process's maps may wait for that
 * process, which may wait for our server.
 *
 * Contract
 *   Ownership   caller's buffer
 *   Threads     any
 */
#ifndef COWFS_SERVE_USERS_INT_H
#define COWFS_SERVE_USERS_INT_H

#include "base/buf.h"

struct users_mount {
	uint32_t major;
	uint32_t minor;
	const char *path; /* where it is mounted here */
	/* Peer group of the mount that it lies on: what lies on a mount of
	 * this group elsewhere is unmounted together with ours, and is no user.
	 * 0: every copy counts. */
	unsigned group;
};

/* Says whether another mount name space has a copy that unmounting ours would
 * leave. */
bool users_has_copy(const struct users_mount *m);
/* Appends one line "PID COMMAND PATH" for each process, at most a few hundred,
 * each ending in a newline. */
void users_list(const struct users_mount *m, struct buf *out);

#endif
