/* SPDX-License-Identifier: MIT */
/*
 * diff.h - what `diff` compares: two ends, and the paths that may differ.
 *
 * An end is an environment or a snapshot. Which paths may differ is known from
 * the server's list of changes and from the trees' names, so that nothing else
 * is looked at. Content of an environment is read through a mount.
 *
 * Contract
 *   Ownership   diff_fini frees a job; what it was given stays the caller's
 *   Threads     one
 *   Errors      exit codes, already said on standard error; where it says so,
 *               negative errno
 */
#ifndef COWFS_CLI_DIFF_H
#define COWFS_CLI_DIFF_H

#include "cli/remote.h"
#include "cli/view.h"
#include "exchange/side.h"
#include "store/store.h"

enum { DIFF_OLD, DIFF_NEW };

/* Paths, NUL-terminated. */
struct diff_list {
	char **v;
	size_t count;
	size_t cap;
};

struct diff_end {
	const char *arg;
	bool is_env;
	char name[REMOTE_NAME_BYTES]; /* of the environment */
	char *path;		      /* where it is mounted */
	struct view view;	      /* of one that is kept */
	struct oid base; /* the snapshot that it is, or stands on */
	struct side *side;
};

struct diff_job {
	const struct call *c;
	struct diff_end end[2];
	struct diff_list only;	/* PATHS; none: all */
	size_t loose;		/* the first so many may be slips of the pen */
	struct diff_list paths; /* that may differ; sorted, each once */
	struct store *store;
	int fd; /* of the server, or -1 */
};

void diff_fini(struct diff_job *j);
/* Reads the arguments ENV [PATHS], or A B [PATHS]. */
_must_check_ int diff_read_args(struct diff_job *j);
/* Says whether a path is one of PATHS or below one. */
bool diff_wants(const struct diff_job *j, const char *path, size_t len);
/* Says whether there is a second end. */
bool diff_has_two(const struct diff_job *j);
/* Finds out which paths may differ, and opens both ends. */
_must_check_ int diff_open(struct diff_job *j);
/* The same of two snapshots that need not have records. */
_must_check_ int diff_open_snapshots(struct diff_job *j, const struct oid *old,
				     const struct oid *new);
/* Says that a path on an end cannot be read; err is an errno. */
int diff_fail(const struct diff_job *j, const char *path, int err);

/* --- forms: they add to out, and count what differs ---------------------- */

/* Columns of rows; a list of paths has the first of them only. */
enum { DIFF_COLUMNS = 13, DIFF_LIST_COLUMNS = 9 };
extern const struct out_col diff_columns[DIFF_COLUMNS];

/* How the list of changed paths looks. */
enum diff_fields {
	DIFF_LINES, /* quoted names, tabs */
	DIFF_NUL,   /* each field ends in NUL */
	DIFF_SIZES, /* likewise, sizes instead of the letter */
};
/* One environment: as the server lists it. Needs no diff_open. */
_must_check_ int diff_list_env(struct diff_job *j, enum diff_fields fields,
			       bool times, struct out *out,
			       uint64_t *ret_count);
/* Two ends, in the same form. */
_must_check_ int diff_list_two(struct diff_job *j, enum diff_fields fields,
			       bool times, struct out *out,
			       uint64_t *ret_count);

enum diff_form { DIFF_PATCH, DIFF_STAT };
/* What git prints; says on standard error what git cannot hold. max: bytes of
 * a file whose content is compared. */
_must_check_ int diff_git(struct diff_job *j, enum diff_form form, uint64_t max,
			  struct out *out, uint64_t *ret_count);

/* The table of git's --stat (diff_stat.c). */
struct gitdiff_row;
struct diff_stat {
	struct buf rows;
	struct buf names;
};
void diff_stat_fini(struct diff_stat *s);
_must_check_ int diff_stat_add(struct diff_stat *s,
			       const struct gitdiff_row *row);
void diff_stat_print(const struct diff_stat *s, struct out *out);

#endif
