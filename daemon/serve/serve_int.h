/* SPDX-License-Identifier: MIT */
/*
 * serve_int.h - the server process, started by the keeper.
 *
 * Contract
 *   Ownership   takes the descriptors
 *   Threads     called in a process with one thread
 */
#ifndef COWFS_SERVE_SERVE_INT_H
#define COWFS_SERVE_SERVE_INT_H

#include "base/attr.h"

struct serve_args {
	const char *store; /* absolute, as the user gave it */
	int keeper;	   /* the socket to the keeper */
	int lock;	   /* held until the process has ended */
	int ready;	   /* where "ok" or an error is written */
};

/* Is the server; returns its exit code. */
int serve_run(const struct serve_args *args);

/* Writes one line for the command that waits for the start. */
void serve_say(int ready_fd, const char *line);

#endif
