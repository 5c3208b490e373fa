/* SPDX-License-Identifier: MIT */
/*
 * glob.h - which paths of a tree some patterns mean.
 *
 * A pattern is a path below the top, with or without a '/' before it. '*' is
 * any bytes of a name, '?' one byte, also a dot at the start; '**' as a whole
 * name is any number of directories, none among them; '\' takes the meaning
 * from what comes next. A directory that fits is meant with all that is below.
 *
 * Contract
 *   Ownership   globs_fini frees; names are lent
 *   Threads     one
 *   Errors      -EINVAL: not a pattern
 */
#ifndef COWFS_CLI_GLOB_H
#define COWFS_CLI_GLOB_H

#include "base/buf.h"

enum { GLOB_PATTERNS = 64, GLOB_NAMES = 63, GLOB_BYTES = 4096 };

struct globs {
	size_t count;
	struct glob {
		char *text; /* its names, each ending in NUL */
		const char *names[GLOB_NAMES];
		size_t name_count;
		bool hit; /* a path has fitted */
	} v[GLOB_PATTERNS];
};

/* How far each pattern has come: bit N: its first N names fit. */
struct glob_place {
	uint64_t at[GLOB_PATTERNS];
};

enum glob_fit {
	GLOB_NO,
	GLOB_BELOW, /* what is below may fit */
	GLOB_YES,
};

void globs_fini(struct globs *g);
/* -E2BIG: there are too many, or it is too long. */
_must_check_ int globs_add(struct globs *g, const char *pattern);
/* The place of the top of the tree. */
void globs_begin(const struct globs *g, struct glob_place *ret_top);
/* Goes from a directory to a name in it. */
enum glob_fit globs_step(struct globs *g, const struct glob_place *from,
			 const char *name, struct glob_place *ret_place);

#endif
