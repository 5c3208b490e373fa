/* SPDX-License-Identifier: MIT */
/*
 * name.h - which names are legal, and how paths relate to each other.
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
/* Writes the name of an environment's HOME. */
void name_of_home(const char *env, char ret_name[NAME_MAX_ENV + 1]);

/* What comes after dir in a path that is dir or lies in it, "" or "/...", and
 * of
 * "/" the path itself; else NULL, and of "". Both are clean: no "//", no '/' at
 * the end. */
const char *name_below(const char *path, const char *dir);
/* Orders paths by components, as trees are: "a/b" before "a-b". */
int name_compare_paths(const char *a, const char *b);

#endif
