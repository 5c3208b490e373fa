/* SPDX-License-Identifier: MIT */
/*
 * The log of copies. The first byte says whether the input is the whole file,
 * or the changes of one frame, which gets the header and checksum it needs.
 */
#include "fuzz_store.h"

#include "base/bytes.h"
#include "base/err.h"
#include "object/format.h"
#include "store/copies_int.h"

enum { HEADER = 24 };

static int on_row(void *ctx, enum index_table table, struct index_key key,
		  const struct index_key *value)
{
	size_t *bytes = ctx;

	FUZZ_CHECK(table == INDEX_SNAPSHOTS || table == INDEX_REFS ||
		   table == INDEX_RESCUES);
	*bytes += key.len + (value ? value->len : 0);
	return 0;
}

static void put_frame(struct buf *b, const uint8_t *rows, size_t len)
{
	uint8_t seed[24];

	buf_put_u32(b, FORMAT_COPIES_MAGIC);
	buf_put_u32(b, FORMAT_VERSION);
	buf_put_u64(b, 1);
	buf_put_u64(b, oid_checksum(b->data, 16, 0));
	bytes_store_u64(seed, 1);
	bytes_store_u64(seed + 8, HEADER);
	bytes_store_u64(seed + 16, len);
	buf_put_u32(b, FORMAT_COPIES_MAGIC);
	buf_put_u32(b, (uint32_t)len);
	buf_put_u64(b, oid_checksum(rows, len,
				    oid_checksum(seed, sizeof seed, 0)));
	buf_put(b, rows, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store *s = fuzz_store();
	_cleanup_buf_ struct buf b = {0};
	struct copies_state state;
	size_t bytes = 0;
	int r;

	if (size == 0)
		return 0;
	if (data[0] & 1)
		put_frame(&b, data + 1, size - 1);
	else
		buf_put(&b, data + 1, size - 1);
	FUZZ_CHECK(buf_error(&b) == 0);
	fuzz_write(s->fd, "copies/log", b.data, b.len);
	r = copies_read(s->fd, 0, on_row, &bytes, &state);
	FUZZ_CHECK(r == 0 || r == -EFSCORRUPTED);
	FUZZ_CHECK(bytes <= b.len && !state.missing);
	FUZZ_CHECK(r < 0 || !(data[0] & 1) || !state.damaged);
	(void)!copies_read(s->fd, size, on_row, &bytes, &state);
	return 0;
}
