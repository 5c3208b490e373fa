/* SPDX-License-Identifier: MIT */
/*
 * logs.h - what `cowfs logs` and `cowfs umount` read of records.
 *
 * Contract
 *   Ownership   the caller closes descriptors
 *   Threads     one
 */
#ifndef COWFS_CLI_LOGS_H
#define COWFS_CLI_LOGS_H

#include "box/record.h"
#include "cli/cmd.h"

/* Adds a run to a list: a row of logs_columns. text: what it wrote, or NULLs,
 * and how much of that is missing. */
struct logs_text {
	const struct buf *streams[2];
	uint64_t cut[2];
};
enum { LOGS_COLUMNS = 30 };
extern const struct out_col logs_columns[LOGS_COLUMNS];
void logs_row(struct out *o, const char *env, const struct record_info *i,
	      const struct logs_text *text);

/* Gets a piece of a stream, or says that bytes are missing (n is 0). */
typedef int (*logs_piece_fn)(void *ctx, int stream, const void *data, size_t n,
			     uint64_t cut);
/* Reads on from *at; negative error numbers are also the function's. */
_must_check_ int logs_read(int fd, int stream, uint64_t *at, logs_piece_fn fn,
			   void *ctx);
/* Appends "[cowfs: N bytes are left out]", a line of its own. */
void logs_cut_note(struct buf *b, uint64_t cut);
/* Why nothing, or not all, of a stream is there; NULL: it is. */
const char *logs_missing(const struct record_info *i, int stream,
			 struct buf *text);

/* Copies what was run in an environment, and what it wrote, into a new
 * directory; nothing when nothing was run. Returns how many runs, or a negative
 * error number. */
_must_check_ int logs_copy(const struct call *c, const char *env, int dir,
			   const char *name);

#endif
