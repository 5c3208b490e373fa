/* SPDX-License-Identifier: MIT */
/*
 * test.h - what every cmocka program includes first.
 *
 * cmocka needs four headers before its own, in this order; a formatter that
 * sorts includes breaks that, so it is done once, here.
 *
 * Contract
 *   Ownership   test_scratch_setup makes *state, test_scratch_teardown frees
 *               it and the folder
 */
#ifndef COWFS_TESTS_TEST_H
#define COWFS_TESTS_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens a test whose name is a sentence. */
#define TEST(name) static void name(void **state)
/* A test's line in the table of main(). */
#define RUN(name) cmocka_unit_test(name)
/* Likewise, with a scratch folder in *state. */
#define RUN_SCRATCH(name)                                                      \
	cmocka_unit_test_setup_teardown(name, test_scratch_setup,              \
					test_scratch_teardown)
#define assert_ok(call) assert_int_equal((call), 0)

/* An empty folder of the test's own. */
struct test_scratch {
	char path[256];
	int fd;
};

static inline int test_scratch_setup(void **state)
{
	struct test_scratch *s = calloc(1, sizeof *s);
	const char *tmp = getenv("TMPDIR");

	if (!s)
		return -1;
	(void)snprintf(s->path, sizeof s->path, "%s/cowfs-test-XXXXXX",
		       tmp ? tmp : "/tmp");
	*state = s;
	if (!mkdtemp(s->path))
		return -1;
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->fd < 0 ? -1 : 0;
}

static inline int test_scratch_teardown(void **state)
{
	struct test_scratch *s = *state;
	int r;

	(void)close(s->fd);
	r = io_remove_tree(AT_FDCWD, s->path);
	free(s);
	return r;
}

#endif
