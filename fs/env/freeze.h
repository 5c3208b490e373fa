/* SPDX-License-Identifier: MIT */
/*
 * freeze.h - an environment becomes a snapshot.
 *
 * What did not change keeps its objects, so the work is in proportion to the
 * changes (and to the base's table of hard links). The new snapshot is read
 * back and compared with the environment before the call returns.
 *
 * Sockets have no place in a snapshot (format.md, O9): they are named in the
 * result. Of a path that is left out the snapshot has what the base has there,
 * or nothing.
 *
 * Contract
 *   Ownership   freeze_fini frees a result, and closes its pin
 *   Durability  the snapshot's objects are on stable storage; nobody needs
 *               them yet: gc leaves them alone while the pin is open
 *   Threads     any; takes the environment's lock
 *   Errors      -EIO: what was read back is not what the environment has;
 *               -EINVAL: the environment is open for changes
 */
#ifndef COWFS_ENV_FREEZE_H
#define COWFS_ENV_FREEZE_H

#include "base/buf.h"
#include "base/diag.h"
#include "object/oid.h"

struct env;

struct freeze_result {
	struct oid snapshot;
	uint64_t inodes;    /* of the snapshot, with the root */
	uint64_t trees;	    /* that were encoded: directories that changed */
	uint64_t files;	    /* whose content was read */
	uint64_t bytes;	    /* that were appended to the store */
	struct buf sockets; /* paths, each ending in NUL */
	int pin;	    /* or -1 */
};

/* Freezes an environment that was opened with ENV_READ_ONLY. left: the paths to
 * leave out, relative to the root, each ending in NUL; may be empty. */
_must_check_ int env_freeze(struct env *e, const struct buf *left,
			    struct diag *diag, struct freeze_result *ret);
/* The same of any environment, with nothing left out. Changes wait meanwhile,
 * so it is one moment's state; it is not read back. */
_must_check_ int env_snapshot(struct env *e, struct diag *diag,
			      struct freeze_result *ret);
void freeze_fini(struct freeze_result *r);

#endif
