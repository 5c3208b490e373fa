/* SPDX-License-Identifier: MIT */
/*
 * proc.h - what /proc tells of a process.
 *
 * A number may be another process's by the time that it is asked about: who
 * must not mix them up compares `start`, or holds a pidfd.
 *
 * Contract
 *   Threads     any
 *   Errors      -ENOENT, -ESRCH: there is none; -EFSCORRUPTED: cannot be read
 */
#ifndef COWFS_BASE_PROC_H
#define COWFS_BASE_PROC_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_COMMAND_BYTES = 64 }; /* with its NUL; the kernel's has 16 */

struct proc_stat {
	char state; /* as in proc_pid_stat(5): R, S, T, Z, ... */
	pid_t parent;
	uint64_t ticks; /* of the processor, with those of waited-for children;
			 * sysconf(_SC_CLK_TCK) are a second */
	uint64_t start; /* ticks since the machine's */
	uint64_t resident; /* pages */
};
/* Reads /proc/PID/stat. */
_must_check_ int proc_stat(pid_t pid, struct proc_stat *ret);
/* Whether there is none, or only what its parent has to take note of. */
bool proc_has_ended(pid_t pid);
/* Reads /proc/PID/comm, as it stands there: a process names itself. */
_must_check_ int proc_command(pid_t pid, char ret_name[PROC_COMMAND_BYTES]);

#endif
