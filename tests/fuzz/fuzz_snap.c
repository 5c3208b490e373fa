/* SPDX-License-Identifier: MIT */
/* A snapshot that decodes encodes to the same bytes. */
#include "fuzz.h"

#include "object/snap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct snap s;

	if (snap_decode(data, size, &s) < 0)
		return 0;
	FUZZ_CHECK(oid_kind(&s.tree) == OID_TREE);
	snap_encode(&s, &again);
	fuzz_check_same(&again, data, size);
	return 0;
}
