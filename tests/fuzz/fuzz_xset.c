/* SPDX-License-Identifier: MIT */
/* The pairs of a set that opens, in any order, encode to the same bytes. */
#include "fuzz.h"

#include "object/xset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ struct xset_pair *pairs = NULL;
	_cleanup_buf_ struct buf again = {0};
	uint32_t count;
	struct xset s;

	if (xset_open(data, size, &s) < 0)
		return 0;
	/* Backwards, so that sorting has work. */
	count = s.left;
	pairs = calloc((size_t)count + 1, sizeof *pairs);
	FUZZ_CHECK(pairs);
	for (uint32_t i = count; i > 0; i--)
		FUZZ_CHECK(xset_next(&s, &pairs[i - 1]));
	FUZZ_CHECK(!xset_next(&s, &pairs[count]));
	FUZZ_CHECK(!s.rest.bad);
	FUZZ_CHECK(xset_encode(pairs, count, &again) == 0);
	fuzz_check_same(&again, data, size);
	return 0;
}
