/* SPDX-License-Identifier: MIT */
/*
 * fuzz_store.h - a small store below TMPDIR for targets that read files of it.
 *
 * Contract
 *   Ownership   the store is lent, and goes with the process
 *   Threads     one
 */
#ifndef COWFS_TESTS_FUZZ_STORE_H
#define COWFS_TESTS_FUZZ_STORE_H

#include "fuzz.h"

#include "store/store_int.h"

/* Makes it at the first call: one snapshot, "one:latest", of a tree with one
 * file in a directory. */
struct store *fuzz_store(void);
const char *fuzz_store_path(void);
struct oid fuzz_store_snapshot(void);
/* Puts a file there, whatever was there before. */
void fuzz_write(int dirfd, const char *name, const void *data, size_t len);

#endif
