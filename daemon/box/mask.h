/* SPDX-License-Identifier: MIT */
/*
 * mask.h - secrets do not get into records.
 *
 * Contract
 *   Ownership   mask_fini frees; values are copied, and wiped then
 *   Threads     any; a struct mask: one, or readers only
 */
#ifndef COWFS_BOX_MASK_H
#define COWFS_BOX_MASK_H

#include "base/buf.h"

struct mask_value {
	char *text;
	size_t len;
};

/* Values that must not show, the longest first. */
struct mask {
	struct mask_value *values;
	size_t count;
	bool failed; /* out of memory: nothing may be shown */
};

void mask_fini(struct mask *m);
/* Adds a value, and the longer ones of its lines when it has several. */
void mask_add(struct mask *m, const char *value);
/* Adds the values of variables ("NAME=VALUE", NULL at the end) whose names look
 * as if they were secrets; of at least so many bytes. */
void mask_add_vars(struct mask *m, char *const *vars, size_t least);
/* Whether a name looks as if its value were a secret; '-' is as '_'. */
bool mask_is_name(const char *name, size_t n);

/* Appends a command's argument, masked. before: the one before it, or NULL. */
void mask_argument(const struct mask *m, const char *before, const char *text,
		   struct buf *out);
/* Masks bytes of a stream in place, each by a star. Returns how many of them
 * are done: an end that may be the beginning of a secret is not, unless nothing
 * comes after it. */
size_t mask_bytes(const struct mask *m, uint8_t *data, size_t n, bool is_last);

#endif
