/* SPDX-License-Identifier: MIT */
/*
 * snaps.h - the store's snapshots and names, read whole for the verbs.
 *
 * Contract
 *   Ownership   snaps_fini frees everything
 *   Threads     one
 *   Errors      negative errno
 */
#ifndef COWFS_CLI_SNAPS_H
#define COWFS_CLI_SNAPS_H

#include "base/buf.h"
#include "store/store.h"

struct snaps_ref {
	char name[STORE_REF_MAX];
	struct oid id;
};

struct snaps {
	struct buf refs; /* of struct snaps_ref, by name */
};

#define _cleanup_snaps_ _cleanup_(snaps_fini)

void snaps_fini(struct snaps *s);
/* Reads all names. */
_must_check_ int snaps_read_refs(struct snaps *s, struct store *store);
/* Appends the names that point to id, each ending in NUL; returns how many. */
size_t snaps_names_of(const struct snaps *s, const struct oid *id,
		      struct buf *out);

/* A cleanup function for a store. */
static inline void snaps_close_store(struct store **s)
{
	store_close(*s);
}
#define _cleanup_store_ _cleanup_(snaps_close_store)

#endif
