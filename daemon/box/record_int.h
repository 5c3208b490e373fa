/* SPDX-License-Identifier: MIT */
/*
 * record_int.h - what the parts of a record share.
 *
 * Contract
 *   Ownership   keep_fini frees and closes; folder and mask are lent
 *   Threads     one
 */
#ifndef COWFS_BOX_RECORD_INT_H
#define COWFS_BOX_RECORD_INT_H

#include "box/record.h"

/* --- keep.c: the bounded copy of a stream --------------------------------- */

enum { KEEP_CHUNK = 128 << 10 }; /* is read at once */

struct keep {
	int folder; /* of records; the file is made when it gets something */
	char name[32];
	int fd; /* -1: not open */
	const struct mask *mask;
	struct buf window; /* the last of the stream, not written yet */
	uint64_t at;	   /* where in the stream it begins */
	uint64_t written;  /* where what is in the file ends */
	uint64_t cut_to;   /* from RECORD_HEAD to here nothing is kept */
	uint64_t lost;
	int error;    /* of the last write */
	int why_lost; /* an error */
};

_must_check_ int keep_init(struct keep *k, int folder, const char *name,
			   const struct mask *mask);
void keep_fini(struct keep *k);
/* Where the next bytes of the stream are to be put, at most KEEP_CHUNK. */
void *keep_room(struct keep *k);
/* n were put there. */
void keep_add(struct keep *k, size_t n);
/* n bytes of the stream are left out. */
void keep_skip(struct keep *k, uint64_t n);
/* Writes what is whole, or at the end of the stream everything. */
void keep_flush(struct keep *k, bool is_last);
/* Whether something waits to be written. */
static inline bool keep_waits(const struct keep *k)
{
	return k->window.len > 0;
}

/* --- runs.c: the folder -------------------------------------------------- */

/* Makes the next record, empty and locked. */
_must_check_ int runs_make(int folder, uint64_t *ret_number);
/* Waits, not for long, for those who hand on what the background of a sandbox
 * that has ended wrote. box: the sandbox's folder. */
void runs_settle(int box);
/* Removes the oldest ones beyond the bounds. */
void runs_prune(int folder);
/* Makes and opens a folder for records. */
_must_check_ int runs_folder(const char *store, const char *env);
enum { RUNS_NAME = 32 };
/* The name of a record's file. suffix: "", ".out" or ".err". */
void runs_name(char name[RUNS_NAME], uint64_t number, const char *suffix);

#endif
