/* SPDX-License-Identifier: MIT */
/*
 * export_tar.h - a snapshot becomes an archive.
 *
 * Equal snapshots give equal bytes, whatever store, machine or day. What comes
 * in again by import_tar has the same id.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  none: what is written is the caller's to sync
 *   Threads     as a store
 *   Errors      those of the store and of writing; diag says which
 */
#ifndef COWFS_EXCHANGE_EXPORT_TAR_H
#define COWFS_EXCHANGE_EXPORT_TAR_H

#include "base/diag.h"
#include "store/store.h"

struct export_result {
	uint64_t entries;
	uint64_t bytes; /* of the archive */
};

/* Writes the archive to a descriptor. The snapshot's objects must stay where
 * they are meanwhile (store_pin). */
_must_check_ int export_tar(struct store *s, const struct oid *snapshot, int fd,
			    struct diag *diag,
			    struct export_result *ret_result);

#endif
