/* SPDX-License-Identifier: MIT */
/*
 * full_snap.h - the snapshot of a whole environment, as an import of its view
 * would make it: every file read, every directory encoded.
 *
 * Contract
 *   Ownership   plain values
 *   Errors      fail the test
 */
#ifndef COWFS_TESTS_FULL_SNAP_H
#define COWFS_TESTS_FULL_SNAP_H

#include "env/env.h"

/* Stores it and returns its name. Sockets are left out. */
struct oid full_snapshot(struct store *s, struct env *e);

#endif
