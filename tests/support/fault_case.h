/* SPDX-License-Identifier: MIT */
/*
 * fault_case.h - a store with all that can be lost, to be put under faults.
 *
 * In the scratch folder: "src" is a small tree of every kind; "golden" is a
 * store with the snapshot of it ("kept:latest", "kept:v1"), one that deflates
 * well ("plain:latest"), one that is to be removed ("gone:latest"), and a kept
 * environment "e" with changes; "store" is the copy that a test breaks. All
 * that opens LMDB runs in children: a fork is forbidden after it.
 *
 * Contract
 *   Ownership   fault_case_setup makes *state, fault_case_teardown frees it
 *   Threads     one
 *   Errors      of the set-up end the test
 */
#ifndef COWFS_TESTS_FAULT_CASE_H
#define COWFS_TESTS_FAULT_CASE_H

#include "test.h"

#include "env/env.h"
#include "faults.h"
#include "store/store.h"

/* What children tell and the test reads: in memory that they share. */
struct fault_shared {
	struct oid kept;
	struct oid gone;
	struct oid plain;
	struct oid made;   /* by the run: its id, once acknowledged */
	uint64_t env;	   /* digest of "e" */
	unsigned acked;	   /* what the run has acknowledged: its own meaning */
	int64_t calls;	   /* that were counted */
	int damage;	   /* that fsck has found */
	char rules[256];   /* of it */
};

struct fault_case {
	void *scratch;
	char src[300];
	char golden[300];
	char store[300];
	struct fault_shared *shared;
};

int fault_case_setup(void **state);
int fault_case_teardown(void **state);
#define RUN_FAULTS(name)                                                       \
	cmocka_unit_test_setup_teardown(name, fault_case_setup,                \
					fault_case_teardown)
/* Of the calls that can fail, each so many'th is to: the program's first
 * argument; 1 without. */
int64_t fault_case_step(int argc, char **argv);
/* "store" is "golden" again. */
void fault_case_fresh(struct fault_case *c);

enum { FAULT_KILLED = 1000 };
/* Runs fn in a child; returns its result (0 to 255), or FAULT_KILLED. */
typedef int (*fault_fn)(struct fault_case *c);
int fault_child(fault_fn fn, struct fault_case *c);

/* All that a user may have been told is there: snapshots, names, the kept
 * environment. Opens and closes the store. 0, or a negative errno. */
_must_check_ int fault_case_look(struct fault_case *c);
/* Likewise, of an open store. */
_must_check_ int fault_case_look_in(struct fault_case *c, struct store *s);
/* Reads everything of an environment, and what it says of it. */
_must_check_ int fault_env_digest(struct store *s, const char *name,
				  unsigned flags, uint64_t *ret_digest);
_must_check_ int fault_env_digest_of(struct env *e, uint64_t *ret_digest);
/* What `cowfs fsck` does, environments included. The result is negative when it
 * could not; how much it found is in c->shared. */
_must_check_ int fault_fsck(struct fault_case *c, bool repair);

#endif
