/* SPDX-License-Identifier: MIT */
/*
 * fsck_case.h - a store to be broken on purpose, and what a check tells of it.
 *
 * LMDB forbids a fork with an open environment, and fsck forks: whoever opens
 * the store closes it before a check. Failures of the set-up end the test.
 *
 * Contract
 *   Ownership   stores are the caller's to close
 *   Threads     one
 */
#ifndef COWFS_TESTS_FSCK_CASE_H
#define COWFS_TESTS_FSCK_CASE_H

#include "test.h"

#include "object/snap.h"
#include "object/tree.h"
#include "store/batch_int.h"
#include "store/fsck.h"

/* The first segment's file. */
#define SEGMENT "segments/00000001.seg"

struct told {
	char rules[1024]; /* " S1 S2 " */
	size_t damage, hits, done;
	char path[64]; /* of the last hit */
};

typedef void (*change_fn)(struct index_txn *t);

/* The store below the scratch folder. */
const char *fsck_dir(void **state);
struct store *fsck_open_store(void **state);
/* Checks, and with FSCK_REPAIR repairs what was found: then what is left. */
struct told fsck_run_check(void **state, unsigned flags);
bool told_has(const struct told *t, const char *rule);
/* Fails unless a check tells that rule; tells any. */
void assert_rule(void **state, const char *rule);
void assert_clean(void **state);

struct oid put_object(struct batch *b, enum oid_kind kind, const void *data,
		      size_t len);
/* Puts the entries as a tree; makes an entry of a regular file. */
struct oid put_tree(struct batch *b, const struct tree_entry *e, size_t n);
struct tree_entry file_of(const char *name, const struct oid *content);
struct oid commit_snap(struct batch *b, const struct snap *s, const char *ref);
/* Commits a snapshot of one file, "file"; returns its blob. */
struct oid put_snapshot(struct store *s, const char *text, const char *ref);
/* Commits one object whose form may be wrong. */
void put_wrong(void **state, enum oid_kind kind, const void *data, size_t len);
/* Makes a store with the snapshots "one" and "two". */
void make_two_snapshots(void **state);
/* Flips a bit of a file of the store; from the end when at is negative. */
void flip_bit(void **state, const char *name, off_t at);
/* Changes rows in one transaction. */
void change_rows(void **state, change_fn fn);

#endif
