/* SPDX-License-Identifier: MIT */
/*
 * config.h - git's config files as text: values looked up, settings taken out.
 *
 * Sections with and without a subsection, quotes, escapes, comments and
 * continued lines, as git-config(1) has them. Files that are included are not
 * looked at. What cannot be understood ends the look, as git would refuse it.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Threads     any
 */
#ifndef COWFS_GIT_CONFIG_H
#define COWFS_GIT_CONFIG_H

#include "base/buf.h"

#include <stdbool.h>

/* Finds the last value of a setting of a section without a subsection; names
 * are compared without regard to case. A setting without a value is "true". */
bool gitconfig_get(const void *text, size_t len, const char *section,
		   const char *key, struct buf *ret_value);
/* Calls back for each setting of such a section, in order. */
typedef void (*gitconfig_fn)(void *ctx, const char *key, const char *value);
void gitconfig_each(const void *text, size_t len, const char *section,
		    gitconfig_fn fn, void *ctx);
/* Appends the text without the settings of that name. */
void gitconfig_drop(const void *text, size_t len, const char *section,
		    const char *key, struct buf *out);
/* Adds a setting at the end, where it counts; the value needs no quotes. */
void gitconfig_add(struct buf *text, const char *section, const char *key,
		   const char *value);

#endif
