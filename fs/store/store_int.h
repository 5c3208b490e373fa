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

#include <stdatomic.h>
#include <sys/types.h>

struct store {
	char *path; /* absolute */
	int fd;
	struct index *index;
	struct segments *segments;
	atomic_uint_fast64_t seen;	 /* commit that read.c looked at last */
	atomic_uint_fast64_t generation; /* of gc, at that commit */
	atomic_uint_fast64_t room;	 /* space_take: before it asks again */
	/* Opens of one store in one process share it (LMDB's rule). */
	struct store *next; /* protected by the registry's lock */
	unsigned users;	    /* protected by the registry's lock */
	dev_t dev;
	ino_t ino;
	pid_t pid;
	bool look; /* opened with STORE_READ_ONLY */
};

/* --- gate.c -------------------------------------------------------------- */

/* Enters as a writer of objects: waits while gc deletes or is about to. The
 * descriptor holds the lock. */
_must_check_ int gate_enter_int(struct store *s, int *ret_lock);
/* Keeps writers and other gcs out: new ones at the gate, then waits for those
 * that are inside. When that takes time, waiting (may be NULL) is called. */
struct gate {
	int gate;
	int lock;
	int checks; /* keeps fsck out, and waits for one */
};
_must_check_ int gate_close_int(struct store *s, void (*waiting)(void *),
				void *ctx, struct gate *ret_gate);
/* Lets writers in again and goes on as one of them; then as nobody. */
_must_check_ int gate_open_int(struct gate *g);
void gate_leave_int(struct gate *g);

/* --- create.c ----------------------------------------------------------- */

/* Makes a store at path, or leaves one that another process made meanwhile.
 * -ENOTEMPTY: something else is there. */
_must_check_ int store_create_int(const char *path, struct diag *diag);
/* As store_check_owner, of an open directory. */
_must_check_ int store_check_owner_int(int fd, const char *path,
				       struct diag *diag);
/* Checks STORE/format. -ENOENT: there is none. */
_must_check_ int store_check_format_int(int fd, const char *path,
					struct diag *diag);
/* Ends a text of lines with the line that has its checksum; says whether it
 * ends in that. */
void store_seal_int(struct buf *text);
bool store_is_sealed_int(struct buf *text);
/* Writes what STORE/format has to be. */
void store_format_int(struct buf *out);
/* Says whether a directory holds nothing but what an interrupted creation may
 * have left: 1, 0 or an error. */
_must_check_ int store_is_vacant_int(int fd);

#endif
