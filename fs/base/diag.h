/* SPDX-License-Identifier: MIT */
/*
 * diag.h - human messages collected by slow-path calls.
 *
 * A call that takes a struct diag may add lines that say what was hit, in the
 * user's terms, most specific first. The door that ends the operation prints
 * them. Every function accepts NULL.
 *
 * Contract
 *   Ownership   the diag owns copies of its lines
 *   Threads     caller serialises
 */
#ifndef COWFS_BASE_DIAG_H
#define COWFS_BASE_DIAG_H

#include "base/buf.h"

struct diag {
	struct buf lines; /* each ends in NUL */
	size_t count;
};

#define _cleanup_diag_ _cleanup_(diag_fini)

void diag_fini(struct diag *d);
/* Adds a line. Control bytes in it become '?', so that one stays one. */
void diag_add(struct diag *d, const char *fmt, ...) _printf_(2, 3);
/* Adds a line and returns err: `return diag_fail(d, -EINVAL, "...")`. */
int diag_fail(struct diag *d, int err, const char *fmt, ...) _printf_(3, 4);
/* Returns line i, or NULL when there are fewer. */
const char *diag_line(const struct diag *d, size_t i);

#endif
