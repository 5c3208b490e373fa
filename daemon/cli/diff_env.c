/* SPDX-License-Identifier: MIT */
/*
 * diff_env.c - the changes of one environment: the server walks the delta and
 * sends rows in order; here they only get their form.
 *
 * With PATHS a rename of which one name is wanted is what it looks like from
 * there: an addition, or a deletion, which then has another place in the order.
 */
#include "cli/diff_int.h"

#include <errno.h>

#include "env/delta.h"

struct printer {
	const struct diff_job *j;
	struct diff_rows rows;
};

static const char *status_of(uint64_t kind)
{
	switch (kind) {
	case DELTA_ADDED:
		return "A";
	case DELTA_DELETED:
		return "D";
	case DELTA_RENAMED:
		return "R100";
	case DELTA_TYPE:
		return "T";
	default:
		return "M";
	}
}

static const char *path_of(const struct msg *m, enum ctl_tag tag,
			   size_t *ret_len)
{
	const char *s = (const char *)msg_get(m, tag, 0, ret_len);

	if (s && *ret_len == 1 && *s == '.')
		*ret_len = 0;
	return s;
}

/* Makes of a rename what is to be seen of it; false: nothing. */
static bool limit_rename(const struct diff_job *j, struct diff_row *row)
{
	const bool now = diff_wants(j, row->path, row->path_len);
	const bool old = row->old_path &&
			 diff_wants(j, row->old_path, row->old_path_len);

	if (!row->old_path || (now && old))
		return now;
	if (now) {
		row->status = "A";
		row->old_size = 0;
		row->old_mode = 0;
	} else if (old) {
		row->status = "D";
		row->path = row->old_path;
		row->path_len = row->old_path_len;
		row->new_size = 0;
		row->new_mode = 0;
	}
	row->content = true;
	row->old_path = NULL;
	return now || old;
}

static int add_row(void *ctx, const struct msg *m)
{
	struct printer *p = ctx;
	struct diff_row row = {
		.status = status_of(msg_get_u64(m, CTL_TAG_KIND, 0)),
		.is_dir = msg_get_u64(m, CTL_TAG_IS_DIR, 0) != 0,
		.content = msg_get_u64(m, CTL_TAG_CONTENT, 0) != 0,
		.old_size = msg_get_u64(m, CTL_TAG_OLD_SIZE, 0),
		.new_size = msg_get_u64(m, CTL_TAG_NEW_SIZE, 0),
		.old_mode = (uint32_t)msg_get_u64(m, CTL_TAG_OLD_MODE, 0),
		.new_mode = (uint32_t)msg_get_u64(m, CTL_TAG_NEW_MODE, 0),
	};

	row.path = path_of(m, CTL_TAG_PATH, &row.path_len);
	row.old_path = path_of(m, CTL_TAG_OLD_PATH, &row.old_path_len);
	if (!row.path)
		return -EPROTO;
	return limit_rename(p->j, &row) ? diff_rows_add(&p->rows, &row) : 0;
}

int diff_list_env(struct diff_job *j, enum diff_fields fields, bool times,
		  struct out *out, uint64_t *ret_count)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	struct printer p = {.j = j};
	struct diff_end *end = &j->end[DIFF_NEW];
	int r = remote_connect_env(j->c, end->arg, REMOTE_WITHIN, &j->fd,
				   end->name);

	if (r)
		return r;
	msg_begin(&request, CTL_DIFF);
	msg_put_str(&request, CTL_TAG_NAME, end->name);
	if (times)
		msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_TIMES);
	r = remote_call(j->c, &j->fd, &request, add_row, &p, &done);
	*ret_count = p.rows.count;
	if (r == CODE_DONE)
		diff_rows_print(&p.rows, fields, out);
	diff_rows_fini(&p.rows);
	return r;
}
