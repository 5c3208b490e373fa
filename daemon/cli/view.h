/* SPDX-License-Identifier: MIT */
/*
 * view.h - an environment that is not mounted, seen by this process alone.
 *
 * The server mounts it read-only under a hidden name, on a connection of its
 * own: the view ends with this process, whatever becomes of it.
 *
 * Contract
 *   Ownership   view_close; nothing may be open in the view then
 *   Threads     one; before store_open (remote.h)
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_VIEW_H
#define COWFS_CLI_VIEW_H

#include "cli/cmd.h"

enum { VIEW_PATH_BYTES = 4352 };

struct view {
	bool is_open;
	int fd; /* of the connection */
	char path[VIEW_PATH_BYTES];
};

/* Opens a view of a kept environment. */
_must_check_ int view_open(const struct call *c, const char *env,
			   struct view *ret_view);
/* Waits for the end: nothing of it is left then. */
void view_close(struct view *v);

#endif
