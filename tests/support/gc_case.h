/* SPDX-License-Identifier: MIT */
/*
 * gc_case.h - stores with snapshots to collect, for the tests of gc.
 *
 * A case's snapshot has a number of small files, one large one of several
 * chunks, and a directory in a directory; what is in a file depends on a seed,
 * so that two snapshots share what has the same seed.
 *
 * Contract
 *   Ownership   the caller closes stores
 *   Threads     one
 */
#ifndef COWFS_TESTS_GC_CASE_H
#define COWFS_TESTS_GC_CASE_H

#include "store_case.h"

enum { GC_CASE_CHUNKS = 3 };

struct gc_case {
	unsigned files;
	unsigned seed;	/* of the small files */
	unsigned large; /* seed of the large file; 0: none */
	bool plain;	/* content that deflates well */
};

/* Imports; ref may be NULL. Time 0 is now. */
struct oid gc_case_put(struct store *s, const struct gc_case *c,
		       const char *ref, int64_t time_sec);
/* Reads everything that a snapshot reaches; 0 or the first error. */
int gc_case_check(struct store *s, const struct oid *id);
/* Adds the folder of an environment that stands on a snapshot. */
void gc_case_env(struct store *s, const char *name, const struct oid *id);
/* Counts objects of the index; bytes and number of segment files. */
uint64_t gc_case_objects(struct store *s);
uint64_t gc_case_bytes(struct store *s, unsigned *ret_files);

#endif
