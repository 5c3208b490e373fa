/* SPDX-License-Identifier: MIT */
/*
 * diff.h - changed files as git tells of them: patches, counts of lines,
 * renames. `git apply` takes the patches.
 *
 * The caller names changed paths, with what stands there on both sides, and
 * reads their content when asked; no repository is needed and nothing is
 * written. The content of two files at a time is held in memory, none of one
 * that is bigger than the limit: of that is only said that it differs.
 *
 * Contract
 *   Ownership   gitdiff_free; a row lives until the callback returns
 *   Threads     one
 *   Errors      -ESTALE: a file changes while it is read; others are those of
 *               the reader, or libgit2's. diag says which path
 */
#ifndef COWFS_GIT_DIFF_H
#define COWFS_GIT_DIFF_H

#include "base/buf.h"
#include "base/diag.h"

struct gitdiff;

enum gitdiff_side { GITDIFF_OLD, GITDIFF_NEW };

/* Hands on the content of a file, or the target of a link, in pieces. */
typedef int (*gitdiff_bytes_fn)(void *ctx, const void *data, size_t len);
struct gitdiff_reader {
	int (*read)(void *ctx, enum gitdiff_side side, const char *path,
		    gitdiff_bytes_fn fn, void *fn_ctx);
	/* Whether an old path and a new one have the same content: 1 or 0. It
	 * is asked for big files. */
	int (*is_same)(void *ctx, const char *old_path, const char *new_path);
	void *ctx;
};

/* What stands at a path on one side; mode is 0 when nothing does that git can
 * hold. */
struct gitdiff_file {
	uint32_t mode; /* of gitdiff_mode */
	uint64_t size;
};

struct gitdiff_row {
	char status;	     /* A M D R; a change of kind is a D and an A */
	unsigned similarity; /* of R, in percent */
	const char *path;
	const char *old_path; /* differs from path with R */
	struct gitdiff_file old_file;
	struct gitdiff_file new_file;
	bool content_differs;
	bool is_binary;
	bool is_big; /* over the limit: binary, and without its content */
	uint64_t insertions;
	uint64_t deletions;
	const struct buf *patch; /* NULL unless asked for */
};

/* Git's mode of a file or link by its st_mode; 0: git cannot hold it. */
uint32_t gitdiff_mode(uint32_t mode);

/* limit: bytes of the biggest file whose content is looked at. */
_must_check_ int gitdiff_new(const struct gitdiff_reader *reader,
			     uint64_t limit, struct diag *diag,
			     struct gitdiff **ret_diff);
void gitdiff_free(struct gitdiff *d);
/* Adds a path that may differ. Returns 1 when git takes no file of that name
 * (".git" and what may be taken for it): then it is left out. */
_must_check_ int gitdiff_add(struct gitdiff *d, const char *path,
			     const struct gitdiff_file files[2]);
/* Compares all that was added and calls back for each difference, in the order
 * of the new paths. */
typedef int (*gitdiff_row_fn)(void *ctx, const struct gitdiff_row *row);
_must_check_ int gitdiff_walk(struct gitdiff *d, bool want_patch,
			      gitdiff_row_fn fn, void *ctx);

#endif
