/* SPDX-License-Identifier: MIT */
/*
 * err.h - error numbers: negative errno everywhere, plus two names.
 *
 * Every fallible function returns 0 (or a count) or a negative errno. Two
 * extra names as ext4, XFS and EROFS use them: a structure that makes no sense
 * and bytes that do not match their checksum or name.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_BASE_ERR_H
#define COWFS_BASE_ERR_H

#include <errno.h>

#define EFSCORRUPTED EUCLEAN /* a structure makes no sense */
#define EFSBADCRC    EBADMSG /* bytes do not match their checksum or name */

/* Returns words for a (negative or positive) error number; static storage. */
const char *err_text(int err);

#endif
