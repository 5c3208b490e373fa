/* SPDX-License-Identifier: MIT */
/*
 * limits.h - quota and ttl: as users type them, ask for them and see them.
 *
 * Contract
 *   Ownership   limits_text_fini frees the texts
 *   Threads     one
 *   Errors      limits_parse: an exit code; the error has been said
 */
#ifndef COWFS_CLI_LIMITS_H
#define COWFS_CLI_LIMITS_H

#include "base/buf.h"
#include "cli/cmd.h"
#include "ctl/proto.h"

#define LIMITS_HELP                                                            \
	"SIZE is a number of bytes, or one with K, M, G or T behind it; TIME " \
	"one of seconds, or\nwith s, m, h or d. \"none\" takes a bound away."

/* What options ask for; a value of 0 is no bound. */
struct limits {
	bool has_bytes, has_inodes, has_ttl;
	uint64_t bytes, inodes, ttl_sec;
};

/* Reads the values of --quota and --ttl; NULL: not given. */
_must_check_ int limits_parse(const struct call *c, const char *quota,
			      const char *ttl, struct limits *ret_limits);
void limits_ask(struct msg *m, const struct limits *l);

/* What a row of LIST or SHOW says. */
struct limits_row {
	uint64_t bytes, inodes, ttl_sec; /* 0: none */
	bool has_use;
	uint64_t used_bytes, used_inodes;
	uint64_t expires; /* seconds since 1970; 0: never */
	bool read_only;
};
void limits_read_row(const struct msg *row, struct limits_row *ret_row);

/* The same in words. */
struct limits_text {
	struct buf used, quota, ttl;
};
enum limits_form { LIMITS_SHORT, LIMITS_LONG };
void limits_describe(const struct limits_row *r, enum limits_form form,
		     struct limits_text *out);
void limits_text_fini(struct limits_text *t);

#endif
