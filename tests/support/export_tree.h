/* SPDX-License-Identifier: MIT */
/*
 * export_tree.h - a snapshot written out as plain files, for tests.
 *
 * So that a test can look at a snapshot (diff it, run git fsck in it) without
 * a mount. Kinds, bytes, modes, owners (as root), mtimes, symlinks, FIFOs,
 * devices and holes come out; hard links become separate files and extended
 * attributes are left behind.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Threads     one
 *   Errors      negative errno; -EFSCORRUPTED: the snapshot makes no sense
 */
#ifndef COWFS_TESTS_EXPORT_TREE_H
#define COWFS_TESTS_EXPORT_TREE_H

#include "store/store.h"

/* Writes what is in the snapshot into the (empty) folder dirfd. */
_must_check_ int export_snapshot(struct store *s, const struct oid *id,
				 int dirfd);

#endif
