/* SPDX-License-Identifier: MIT */
/* A setting that was taken out is not there any more, and the text became no
 * longer; one that was added to a readable text is found. */
#include "fuzz.h"

#include "git/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf left = {0}, value = {0};

	gitconfig_drop(data, size, "core", "worktree", &left);
	FUZZ_CHECK(buf_error(&left) == 0);
	FUZZ_CHECK(left.len <= size);
	FUZZ_CHECK(!gitconfig_get(left.data, left.len, "core", "worktree",
				  &value));
	if (!gitconfig_get(data, size, "core", "worktree", &value))
		fuzz_check_same(&left, data, size);
	return 0;
}
