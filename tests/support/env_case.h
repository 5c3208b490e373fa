/* SPDX-License-Identifier: MIT */
/*
 * env_case.h - a store with one small snapshot and an environment of it.
 *
 * The snapshot, in preorder (inode numbers are the position + 1):
 *   2 a.txt "hello\n"   3 d/   4 d/big (300,000 bytes, a hole in the middle)
 *   5 d/hl1 "linked"    6 d/sub/   7 d/sub/y "yy"   8 d/x "xx", user.k=v
 *   5 hl2 (hard link of d/hl1)     10 link -> a.txt
 *
 * Contract
 *   Ownership   env_case_setup makes *state, env_case_teardown frees it
 */
#ifndef COWFS_TESTS_ENV_CASE_H
#define COWFS_TESTS_ENV_CASE_H

#include "test.h"

#include "base/buf.h"
#include "env/delta.h"
#include "env/env.h"
#include "store/store.h"

enum { CASE_BIG = 300000, CASE_LAST_INO = 10 };

struct env_case {
	void *scratch;
	struct store *store;
	struct env *e;
	struct oid snapshot;
};

int env_case_setup(void **state);
int env_case_teardown(void **state);
/* Closes and opens it again: a replay. */
void env_case_reopen(struct env_case *c);
/* Byte i of d/big in the snapshot. */
uint8_t env_case_big(size_t i);
/* Finds a path like "d/sub/y"; fails the test when it is missing. */
struct env_attr env_case_at(struct env_case *c, const char *path);
/* Makes a file, directory or other inode and returns its number; an empty file
 * in the root. */
uint64_t env_case_make(struct env_case *c, uint64_t dir, const char *name,
		       uint32_t mode);
uint64_t env_case_file(struct env_case *c, const char *name);
void env_case_write(struct env_case *c, uint64_t ino, const char *text,
		    uint64_t at);
/* Describes every file in words: names, attributes, content, xattrs, cookies. */
void env_case_dump(struct env_case *c, struct buf *out);
/* The same, to be freed. */
char *env_case_words(struct env_case *c);
/* The rows of delta_walk as "M d/x\n". */
void env_case_diff(struct env_case *c, unsigned flags, struct buf *out);

static const struct env_cred env_case_root = {0, 0, 022};

#endif
