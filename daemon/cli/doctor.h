/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - the findings of `cowfs doctor`, and who collects them.
 *
 * A note says what this machine has or lacks; a problem is something left over
 * or broken. Nothing here touches a mount: lists of the kernel are read, and
 * what must be unmounted is unmounted by a child with a time limit.
 *
 * Contract
 *   Ownership   struct doctor belongs to cmd_doctor.c
 *   Threads     one
 *   Errors      whatever cannot be looked at is a finding, not an error
 */
#ifndef COWFS_CLI_DOCTOR_H
#define COWFS_CLI_DOCTOR_H

#include "cli/cmd.h"
#include "cli/mountinfo.h"

struct doctor {
	const struct call *c;
	struct out out;
	bool fix;
	bool has_store;
	bool denied;	 /* the store is another user's: nothing is judged */
	bool same_space; /* the server is in our mount name space */
	bool running;	 /* server or keeper of the store hold its lock */
	struct buf live; /* paths of environments of the running server,
			  * each ending in NUL */
	struct buf live_names; /* and their names */
	bool live_known;       /* the server has answered */
	struct mountinfo mounts;
	size_t problems; /* that remain */
};

void doctor_note(struct doctor *d, const char *what, const char *fmt, ...)
	_printf_(3, 4);
/* Adds a problem; fixed: it is gone now. */
void doctor_problem(struct doctor *d, const char *what, bool fixed,
		    const char *fmt, ...) _printf_(4, 5);

/* doctor_machine.c: what this machine can do. */
void doctor_machine(struct doctor *d);
/* doctor_boxes.c: sandboxes whose environment is gone. */
void doctor_boxes(struct doctor *d);
/* doctor_leases.c: leases of environments that are gone. */
void doctor_leases(struct doctor *d);
/* doctor_mounts.c: mounts that nobody serves. */
void doctor_mounts(struct doctor *d);
/* doctor_server.c: the server, and what it says of its environments. */
void doctor_server(struct doctor *d);
/* doctor_left.c: files that something left behind. */
void doctor_left(struct doctor *d);
/* doctor_rescues.c: refs that an interrupted umount left in origins. */
void doctor_rescues(struct doctor *d);

#endif
