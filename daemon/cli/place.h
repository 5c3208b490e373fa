/* SPDX-License-Identifier: MIT */
/*
 * place.h - whether a store may be where it is to be.
 *
 * Contract
 *   Threads     any
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_PLACE_H
#define COWFS_CLI_PLACE_H

#include "cli/cmd.h"

/* Refuses a store inside a mounted environment: its server could come to wait
 * for another one, or for itself, and it would be thrown away with the
 * environment. */
_must_check_ int place_check(const struct call *c);
/* Whether a real path is in a mounted environment, of any store. */
bool place_is_inside(const char *path);

#endif
