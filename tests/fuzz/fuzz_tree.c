/* SPDX-License-Identifier: MIT */
/*
 * A tree that opens is read through every accessor, and built again from what
 * was read: the builder must take each entry and give the same bytes.
 */
#include "fuzz.h"

#include "object/tree.h"

#include <errno.h>

static void check_entry(const struct tree *t, uint32_t i,
			const struct tree_entry *e)
{
	uint32_t at = UINT32_MAX;

	FUZZ_CHECK(tree_lookup(t, e->name, e->name_len, &at) == 0);
	FUZZ_CHECK(at == i);
	FUZZ_CHECK(tree_find_start(t, e->start, &at) == 0);
	FUZZ_CHECK(at == i);
	FUZZ_CHECK(tree_find_start(t, e->start + e->below, &at) == 0);
	FUZZ_CHECK(at == i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct tree_builder b = {0};
	struct tree_entry e;
	struct tree t;
	uint32_t at;

	if (tree_open(data, size, &t) < 0)
		return 0;
	for (uint32_t i = 0; i < t.count; i++) {
		tree_entry_at(&t, i, &e);
		check_entry(&t, i, &e);
		FUZZ_CHECK(tree_builder_add(&b, &e) == 0);
	}
	FUZZ_CHECK(tree_find_start(&t, 0, &at) == -ENOENT);
	FUZZ_CHECK(tree_find_start(&t, t.total + 1, &at) == -ENOENT);
	FUZZ_CHECK(tree_lookup(&t, "..", 2, &at) == -ENOENT);
	FUZZ_CHECK(tree_builder_finish(&b, &again) == 0);
	fuzz_check_same(&again, data, size);
	tree_builder_fini(&b);
	return 0;
}
