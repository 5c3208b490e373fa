/* SPDX-License-Identifier: MIT */
/*
 * Values of the index, as they are behind their checksums: the first byte says
 * of which table. What is accepted of `snap` and `rescue` is encoded again; the
 * row may have been longer, never other, or a snapshot's have ended before what
 * tells of git.
 */
#include "fuzz.h"

#include "object/format.h"
#include "store/index_int.h"
#include "store/rescues_int.h"

/* A place may be any: who reads there refuses it. */
static void check_object(const uint8_t *data, size_t size)
{
	const struct oid id = {{0}};
	struct segment_place place;
	uint8_t byte;

	if (index_decode_object(data, size, &place) == 0 &&
	    place.encoding > SEGMENT_DEFLATE)
		FUZZ_CHECK(segment_read(NULL, &place, &id, &byte) < 0);
}

static void check_snapshot(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf strings = {0}, again = {0};
	static const uint8_t nothing[12];
	struct snapshot_info info;
	const struct oid id = {{0}};

	if (index_decode_snapshot(&id, data, size, &strings, &info) < 0)
		return;
	FUZZ_CHECK(strlen(info.source) <= INDEX_MAX_SOURCE);
	FUZZ_CHECK(strlen(info.host) <= INDEX_MAX_HOST);
	FUZZ_CHECK(strlen(info.message) <= INDEX_MAX_MESSAGE);
	FUZZ_CHECK(index_encode_snapshot(&info, &again) == 0);
	if (again.len > size) {
		/* Of an earlier revision: three empty blocks are missing. */
		FUZZ_CHECK(again.len == size + sizeof nothing);
		FUZZ_CHECK(memcmp(again.data + size, nothing, sizeof nothing) ==
			   0);
		again.len = size;
	}
	FUZZ_CHECK(memcmp(again.data, data, again.len) == 0);
}

static void check_rescue(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf strings = {0}, again = {0};
	struct rescue_left left;
	struct rescue r;
	struct bytes in;

	if (rescue_decode(index_key_of("r", 1), index_key_of(data, size),
			  &strings, &r) < 0)
		return;
	FUZZ_CHECK(strlen(r.git_commit) <= RESCUE_TEXT_MAX);
	in = bytes_of(r.left, r.left_len);
	while (rescue_left_next(&in, &left))
		FUZZ_CHECK(left.path_len > 0);
	FUZZ_CHECK(!in.bad);
	FUZZ_CHECK(rescue_encode(&r, &again) == 0);
	FUZZ_CHECK(again.len <= size);
	FUZZ_CHECK(memcmp(again.data, data, again.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 4 == 3)
		check_rescue(data + 1, size - 1);
	else if (data[0] % 2)
		check_object(data + 1, size - 1);
	else
		check_snapshot(data + 1, size - 1);
	return 0;
}
