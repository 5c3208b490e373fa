/* SPDX-License-Identifier: MIT */
/*
 * import_dir.h - a directory on disk becomes a snapshot.
 *
 * Runs in the command's own process with the caller's rights. Reads by
 * descriptor (openat, O_NOFOLLOW), never by a path below the root. Sockets are
 * left out and counted; other file systems, a store inside the tree and git's
 * stale locks are left out. A file that changes while it is read is read
 * again; one that only grows is taken at its length at open; one that does
 * not settle fails the import. Inside a .git directory refs, HEAD, index and
 * logs are read before objects, and objects/pack is listed again at the end.
 *
 * A second import of a path does not open files that have not changed since
 * the first; ids do not depend on it.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  the snapshot is on stable storage when import_dir returns 0;
 *               before that nothing is visible
 *   Threads     one import per call; several processes may import at once
 *   Errors      -ENOTDIR: PATH is no directory; -EACCES and others: diag names
 *               up to ten files
 */
#ifndef COWFS_EXCHANGE_IMPORT_DIR_H
#define COWFS_EXCHANGE_IMPORT_DIR_H

#include "base/diag.h"
#include "store/store.h"

#include <stdbool.h>

struct import_progress {
	uint64_t files;
	uint64_t bytes;
};

struct import_options {
	const char *const *excludes; /* globs: a pattern without '/' matches a
				      * name at any depth, one with '/' a path
				      * from the root */
	size_t exclude_count;
	/* Names at the root that are taken, NULL at the end; NULL: all. */
	const char *const *only;
	bool skip_unreadable; /* leave out and count instead of failing */
	bool cross_mounts;
	bool rescan; /* read all files, whatever the last import has seen */
	const char *message;
	/* Called every few hundred files; may be NULL. */
	void (*progress)(void *ctx, const struct import_progress *p);
	void *progress_ctx;
};

struct import_result {
	struct oid id;
	uint64_t inodes;
	uint64_t files;
	uint64_t unchanged; /* of these not read: as the last import saw them */
	uint64_t bytes;
	uint64_t stored_bytes; /* appended to the store */
	uint64_t sockets;      /* left out */
	uint64_t skipped;      /* unreadable, left out */
	uint64_t locks;	       /* stale git locks, left out */
};

/* Imports path; ref (NAME:TAG, normalized) may be NULL. Messages about what was
 * left out are added to notes, failures to diag. */
_must_check_ int import_dir(struct store *s, const char *path, const char *ref,
			    const struct import_options *options,
			    struct diag *notes, struct diag *diag,
			    struct import_result *ret_result);

#endif
