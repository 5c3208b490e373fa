/* SPDX-License-Identifier: MIT */
/*
 * faults.h - the n-th call of a kind fails, is cut short, or is the last one.
 *
 * The linker puts this layer between the program (LMDB's archive included) and
 * the C library: cowfs_faults() in tests/CMakeLists.txt. Counted are calls on
 * files and folders, not on pipes, sockets and devices, and only while faults
 * are armed. A program of several processes shares one count by a file that
 * the variable COWFS_FAULTS names.
 *
 * Syncs are counted and left out: the death of a process asks for none.
 *
 * Contract
 *   Ownership   none
 *   Threads     any, while nobody arms
 */
#ifndef COWFS_TESTS_FAULTS_H
#define COWFS_TESTS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* What is counted; sums are allowed. */
enum faults_on {
	FAULTS_WRITE = 1, /* what changes a file or a folder */
	FAULTS_SYNC = 2,
	FAULTS_READ = 4,
	FAULTS_ALLOC = 8, /* of memory */
};

enum faults_what {
	FAULTS_KILL = 1, /* SIGKILL before it */
	FAULTS_TEAR,	 /* half of a write, or all of another call; SIGKILL */
	FAULTS_SHORT,	 /* half of a read or write; others are not counted */
	FAULTS_EINTR,	 /* once; what cannot be interrupted is not counted */
	FAULTS_EIO,
	FAULTS_ENOSPC,
};

struct faults {
	uint32_t on;
	uint32_t what;
	uint32_t lasting; /* all after the n-th fail, too */
	uint32_t bytes;	  /* of a torn or short call; 0: half of it */
	int64_t nth;	  /* from 1 on; 0: only count */
};

/* Begins to count. */
void faults_arm(const struct faults *f);
/* Ends it; returns how many calls there were. */
int64_t faults_disarm(void);
/* Says whether a fault was made since the last faults_arm. */
bool faults_struck(void);

#endif
