/* SPDX-License-Identifier: MIT */
/* An index that is taken can be patched again, to the same bytes, and its
 * entries are the same. The checksum at its end is set to zeros, which git
 * allows: else no mutation would get far. */
#include "fuzz.h"

#include "git/index.h"

struct seen {
	uint64_t sum; /* over paths, modes and names */
	uint64_t count;
	bool fill;
};

static int see(void *ctx, const struct gitindex_entry *e,
	       struct gitindex_stat *ret_st)
{
	struct seen *s = ctx;

	FUZZ_CHECK(strlen(e->path) == e->path_len && e->path_len > 0);
	for (size_t i = 0; i < e->path_len; i++)
		s->sum = s->sum * 31 + (uint8_t)e->path[i];
	for (size_t i = 0; i < GITINDEX_NAME_BYTES; i++)
		s->sum = s->sum * 31 + e->name[i];
	s->sum = s->sum * 31 + e->mode + e->stage;
	s->count++;
	if (s->fill)
		*ret_st = (struct gitindex_stat){1, 2, 3, 4, 5, 6, 7, 8, 9};
	else
		*ret_st = e->st;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf raw = {0}, once = {0}, twice = {0};
	struct seen first = {.fill = true}, second = {.fill = false};

	buf_put(&raw, data, size);
	if (buf_error(&raw) < 0 || size < GITINDEX_NAME_BYTES)
		return 0;
	memset(raw.data + size - GITINDEX_NAME_BYTES, 0, GITINDEX_NAME_BYTES);
	if (gitindex_patch(raw.data, raw.len, see, &first, NULL, &once) < 0) {
		FUZZ_CHECK(once.len == 0);
		return 0;
	}
	FUZZ_CHECK(once.len <= raw.len);
	FUZZ_CHECK(gitindex_patch(once.data, once.len, see, &second, NULL,
				  &twice) == 0);
	fuzz_check_same(&twice, once.data, once.len);
	FUZZ_CHECK(first.sum == second.sum && first.count == second.count);
	return 0;
}
