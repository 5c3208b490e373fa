/* SPDX-License-Identifier: MIT */
/*
 * diff_int.h - what the parts of a diff share.
 *
 * Contract
 *   Ownership   struct gitdiff owns everything in it; a struct text borrows
 *   Threads     one
 *   Errors      negative errno; diag has it already
 */
#ifndef COWFS_GIT_DIFF_INT_H
#define COWFS_GIT_DIFF_INT_H

#include "base/hmap.h"
#include "git/diff.h"
#include "git/lib_int.h"

#include <git2/sys/odb_backend.h>

/* A path on one side. */
struct gitdiff_half {
	struct hnode node; /* by the blob's name, when it is the first one */
	enum gitdiff_side side;
	char *path;
	struct gitdiff_file file;
	git_oid id; /* zero when it is over the limit */
};

/* A pair of which one is over the limit: compared here, not by libgit2. */
struct gitdiff_big {
	struct gitdiff_half *half[2]; /* NULL: not there */
	bool is_same;		      /* the content */
};

struct gitdiff {
	struct git_odb_backend backend; /* first: libgit2 hands it back */
	struct gitdiff_reader reader;
	uint64_t limit;
	struct diag *diag;
	git_odb *odb;
	git_config *config;
	git_repository *repo;
	git_index *index[2];
	struct hmap blobs;
	struct gitdiff_half **halves;
	size_t half_count, half_cap;
	struct gitdiff_big *bigs;
	size_t big_count, big_cap;
	size_t alone[2]; /* paths that stand on one side only */
	int error;	 /* of the reader, behind libgit2's back */
};

/* --- objects (diff_odb.c) ------------------------------------------------ */

/* Names the content of a half, and remembers where it is. */
_must_check_ int gitdiff_hash(struct gitdiff *d, struct gitdiff_half *h);
/* Opens a repository that is nowhere, with those contents as its objects. */
_must_check_ int gitdiff_open(struct gitdiff *d);
/* What a call of libgit2 that failed means, with the path at hand. */
int gitdiff_fail(struct gitdiff *d, int code, const char *path);

/* --- files over the limit (diff_big.c) ------------------------------------ */

_must_check_ int gitdiff_big_add(struct gitdiff *d,
				 struct gitdiff_half *const halves[2]);
/* Compares contents, and pairs what only changed its name. */
_must_check_ int gitdiff_big_compare(struct gitdiff *d);
bool gitdiff_big_differs(const struct gitdiff_big *big);
/* Calls back with a row; the patch, when one is wanted, goes to patch. */
_must_check_ int gitdiff_big_row(const struct gitdiff_big *big,
				 struct buf *patch, gitdiff_row_fn fn,
				 void *ctx);

/* --- text (diff_text.c) -------------------------------------------------- */

struct gitdiff_text {
	const struct gitdiff_row *row;
	const git_oid *id[2];
};

/* Appends the lines before the content. */
void gitdiff_put_header(struct buf *out, const struct gitdiff_text *t);
/* Appends the lines with the names, of text. */
void gitdiff_put_names(struct buf *out, const struct gitdiff_text *t);
/* Appends that files differ. */
void gitdiff_put_differ(struct buf *out, const struct gitdiff_text *t);
/* Appends what libgit2 says of the content. */
_must_check_ int gitdiff_put_content(struct buf *out,
				     const struct gitdiff_text *t,
				     git_patch *patch);

#endif
