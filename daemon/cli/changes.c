/* SPDX-License-Identifier: MIT */
/*
 * changes.c - rows as the control protocol has them become those of a list.
 */
#include "cli/changes.h"

#include <errno.h>

#include "cli/remote.h"

static int add_row(void *ctx, const struct msg *m)
{
	struct delta_row row = {
		.kind = (enum delta_kind)msg_get_u64(m, CTL_TAG_KIND, 0),
		.is_dir = msg_get_u64(m, CTL_TAG_IS_DIR, 0) != 0,
		.old_size = msg_get_u64(m, CTL_TAG_OLD_SIZE, 0),
		.new_size = msg_get_u64(m, CTL_TAG_NEW_SIZE, 0),
		.old_mode = (uint32_t)msg_get_u64(m, CTL_TAG_OLD_MODE, 0),
		.new_mode = (uint32_t)msg_get_u64(m, CTL_TAG_NEW_MODE, 0),
		.content_changed = msg_get_u64(m, CTL_TAG_CONTENT, 0) != 0,
	};

	row.path = (const char *)msg_get(m, CTL_TAG_PATH, 0, &row.path_len);
	row.old_path = (const char *)msg_get(m, CTL_TAG_OLD_PATH, 0,
					     &row.old_path_len);
	if (!row.path)
		return -EPROTO;
	if (!row.old_path)
		row.old_path_len = 0;
	return gitchanges_add(ctx, &row);
}

int changes_fetch(const struct call *c, int *fd, const char *env,
		  struct gitchanges *changes)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};

	msg_begin(&request, CTL_DIFF);
	msg_put_str(&request, CTL_TAG_NAME, env);
	return remote_call(c, fd, &request, add_row, changes, &done);
}
