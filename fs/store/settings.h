/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what the owner of a store has decided about it.
 *
 * Contract
 *   Durability  settings_write: on stable storage when it returns
 *   Threads     any
 *   Errors      -EFSBADCRC, -EPROTONOSUPPORT: the file is damaged, or of a
 *               later version; diag says so
 */
#ifndef COWFS_STORE_SETTINGS_H
#define COWFS_STORE_SETTINGS_H

#include "store/store.h"

enum { SETTINGS_GRACE_DAYS = 7, SETTINGS_MAX_GRACE_DAYS = 36500 };

struct settings {
	uint64_t max_store;  /* bytes on disk beyond which nothing is imported;
			      * 0: no limit */
	uint32_t grace_days; /* that gc keeps a snapshot without a name */
	bool no_births;	     /* nobody is told when a file was made */
};

/* Reads them; a store without the file has the defaults. */
_must_check_ int settings_read(struct store *s, struct diag *diag,
			       struct settings *ret_settings);
_must_check_ int settings_write(struct store *s, const struct settings *in);

#endif
