/* SPDX-License-Identifier: MIT */
/*
 * name.h - which names are legal.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_BASE_NAME_H
#define COWFS_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum {
	NAME_MAX_BYTES = 255, /* a path component */
	NAME_MAX_LABEL = 64,  /* an environment, a snapshot's name, a tag */
	NAME_MAX_ENV = NAME_MAX_LABEL + 5,
};

#define NAME_HOME "/home"

/* A path component: 1 to 255 bytes, no '/', no NUL, not "." or "..". */
bool name_is_component(const void *name, size_t len);
/* An environment, snapshot name or tag: 1 to 64 of [A-Za-z0-9._-], the first a
 * letter, digit or '_'. */
bool name_is_label(const char *name);
/* An environment, or the HOME of one, which is its name and NAME_HOME. */
bool name_is_env(const char *name);

#endif
