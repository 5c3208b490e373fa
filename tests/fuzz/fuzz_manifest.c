/* SPDX-License-Identifier: MIT */
/* A manifest that opens covers its size exactly and encodes to itself. */
#include "fuzz.h"

#include "object/format.h"
#include "object/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct manifest m;
	uint64_t left;

	(void)manifest_is_zero(data, size);
	if (manifest_open(data, size, &m) < 0)
		return 0;
	left = m.size;
	manifest_begin(&again, m.size);
	for (uint64_t i = 0; i < m.count; i++) {
		struct oid id = manifest_chunk(&m, i);
		uint64_t n = MIN(left, (uint64_t)FORMAT_CHUNK_BYTES);

		FUZZ_CHECK(n > 0);
		FUZZ_CHECK(oid_is_null(&id) || oid_length(&id) == n);
		left -= n;
		manifest_add(&again, &id);
	}
	FUZZ_CHECK(left == 0);
	fuzz_check_same(&again, data, size);
	return 0;
}
