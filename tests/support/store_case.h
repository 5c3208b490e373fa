/* SPDX-License-Identifier: MIT */
/*
 * store_case.h - a new store in a test's scratch folder.
 *
 * Contract
 *   Ownership   the caller closes it; the folder goes with the scratch
 *   Threads     one
 *   Errors      end the test
 */
#ifndef COWFS_TESTS_STORE_CASE_H
#define COWFS_TESTS_STORE_CASE_H

#include "test.h"

#include "store/store.h"

/* Opens, and makes the first time, the store of a test with RUN_SCRATCH. */
static inline struct store *make_store(void **state)
{
	const struct test_scratch *t = *state;
	struct store *s = NULL;
	char path[512];

	(void)snprintf(path, sizeof path, "%s/store", t->path);
	assert_ok(store_open(path, STORE_CREATE, NULL, &s));
	return s;
}

#endif
