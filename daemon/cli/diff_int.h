/* SPDX-License-Identifier: MIT */
/*
 * diff_int.h - what the files of `diff` share.
 *
 * Contract
 *   Ownership   a list owns its paths
 *   Threads     one
 *   Errors      -ENOMEM
 */
#ifndef COWFS_CLI_DIFF_INT_H
#define COWFS_CLI_DIFF_INT_H

#include "cli/diff.h"

/* What stands at a path at both ends; all zero: nothing. Negative errno. */
_must_check_ int diff_look(const struct diff_job *j, const char *path,
			   struct side_node ret_nodes[2]);
/* Compares extended attributes: 1 when they differ, 0, or negative errno. */
_must_check_ int diff_xattrs(const struct diff_job *j, const char *path,
			     const struct side_node nodes[2]);

/* One line of the list; directories have no '/' at the end yet. */
struct diff_row {
	const char *status; /* "A" "M" "D" "T" "R100": static */
	const char *path;   /* "" is the root */
	size_t path_len;
	const char *old_path; /* NULL: none */
	size_t old_path_len;
	bool is_dir;
	bool content; /* differs */
	uint64_t old_size, new_size;
	uint32_t old_mode, new_mode;
};

/* Rows, with copies of their paths as they are shown. */
struct diff_rows {
	struct diff_row *v;
	size_t count;
	size_t cap;
};
void diff_rows_fini(struct diff_rows *rows);
_must_check_ int diff_rows_add(struct diff_rows *rows,
			       const struct diff_row *row);
/* Adds them to out, sorted by their paths. */
void diff_rows_print(struct diff_rows *rows, enum diff_fields fields,
		     struct out *out);

void diff_list_fini(struct diff_list *l);
_must_check_ int diff_list_add(struct diff_list *l, const char *path,
			       size_t len);
/* Sorts by bytes, and drops what is there twice. */
void diff_list_sort(struct diff_list *l);

#endif
