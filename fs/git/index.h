/* SPDX-License-Identifier: MIT */
/*
 * index.h - git's index as bytes: stat data are changed, nothing else.
 *
 * Versions 2 to 4 with SHA-1 names. Entries keep their place and their order,
 * so that offsets in extensions stay right. What belongs to one work tree at
 * one path is dropped: the untracked cache and the file system monitor's
 * state. The checksum at the end is made anew, or stays zero where it was.
 * No git2.h here, and no I/O.
 *
 * Contract
 *   Ownership   an entry's path and name live until the callback returns
 *   Threads     any
 *   Errors      -EFSCORRUPTED, -EFSBADCRC: not an index, or damaged;
 *               -EOPNOTSUPP: a version or extension that it must know (diag
 *               says which). Nothing is in the output then
 */
#ifndef COWFS_GIT_INDEX_H
#define COWFS_GIT_INDEX_H

#include "base/buf.h"
#include "base/diag.h"

enum { GITINDEX_NAME_BYTES = 20 };

/* As in the file: each value cut to 32 bits. */
struct gitindex_stat {
	uint32_t ctime_sec;
	uint32_t ctime_nsec;
	uint32_t mtime_sec;
	uint32_t mtime_nsec;
	uint32_t dev;
	uint32_t ino;
	uint32_t uid;
	uint32_t gid;
	uint32_t size;
};

struct gitindex_entry {
	const char *path; /* NUL-terminated; from the work tree's root */
	size_t path_len;
	uint32_t mode;
	unsigned stage; /* above 0: a conflict */
	bool assume_unchanged;
	bool skip_worktree;
	bool intent_to_add;
	const uint8_t *name; /* of the blob, GITINDEX_NAME_BYTES */
	struct gitindex_stat st;
};

/* Called for each entry; fills the stat data that it is to have (they are zero
 * when it is called: git looks at such a file). Negative ends the walk. */
typedef int (*gitindex_fn)(void *ctx, const struct gitindex_entry *e,
			   struct gitindex_stat *ret_st);

/* Appends the index with other stat data to out, whose content must be empty.
 */
_must_check_ int gitindex_patch(const void *raw, size_t len, gitindex_fn fn,
				void *ctx, struct diag *diag, struct buf *out);

/* Called for each entry, and for the cache tree's bytes if there are any; what
 * it is given lives as long as raw, but for the path. Negative ends the walk.
 */
struct gitindex_reader {
	int (*entry)(void *ctx, const struct gitindex_entry *e);
	int (*cache_tree)(void *ctx, const uint8_t *data, size_t len);
	void *ctx;
};
/* Reads an index whole, changing nothing. As git does, without making its
 * checksum anew: form is checked, and names of objects tell by themselves. */
_must_check_ int gitindex_walk(const void *raw, size_t len,
			       const struct gitindex_reader *reader,
			       struct diag *diag);

/* The name that git gives a blob: begin, add its bytes, end. */
struct gitblob {
	uint64_t opaque[12];
};
void gitblob_begin(struct gitblob *b, uint64_t size);
void gitblob_add(struct gitblob *b, const void *data, size_t len);
void gitblob_end(struct gitblob *b, uint8_t ret_name[GITINDEX_NAME_BYTES]);

#endif
