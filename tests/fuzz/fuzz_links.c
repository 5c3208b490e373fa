/* SPDX-License-Identifier: MIT */
/* In a table that opens each position finds itself and its group's first. */
#include "fuzz.h"

#include "object/links.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct links l;

	if (links_open(data, size, &l) < 0)
		return 0;
	links_begin(&again, l.count);
	for (uint64_t i = 0; i < l.count; i++) {
		struct links_entry e;
		struct links_entry found;

		links_at(&l, i, &e);
		FUZZ_CHECK(links_find(&l, e.position, &found));
		FUZZ_CHECK(found.first == e.first && found.count == e.count);
		FUZZ_CHECK(links_find(&l, e.first, &found));
		FUZZ_CHECK(found.position == found.first);
		FUZZ_CHECK(found.count == e.count && e.count >= 2);
		links_add(&again, &e);
	}
	fuzz_check_same(&again, data, size);
	return 0;
}
