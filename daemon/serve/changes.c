/* SPDX-License-Identifier: MIT */
/*
 * changes.c - how much changed in an environment, for those who are told.
 */
#include "serve/server_int.h"

#include <errno.h>

#include "base/err.h"
#include "env/delta.h"

enum { TOLD_MAX = 1000 };

static int count_row(void *ctx, const struct delta_row *row)
{
	struct changes *c = ctx;

	c->paths++;
	if (row->content_changed && row->kind != DELTA_DELETED)
		c->bytes += row->new_size;
	return 0;
}

int changes_count(struct env *env, struct changes *ret)
{
	struct changes c = {0};
	int r = 0;

	if (!env_is_pristine(env))
		r = delta_walk(env, 0, count_row, &c);
	if (r == 0)
		*ret = c;
	return r;
}

static int count_some(void *ctx, const struct delta_row *row)
{
	const struct changes *c = ctx;

	(void)count_row(ctx, row);
	return c->paths > TOLD_MAX;
}

void changes_say(struct env *env, const char *name, struct diag *diag)
{
	struct changes c = {0};
	struct env_stat st = {0};
	int r = env ? 0 : -EIO;

	if (r == 0)
		env_stat(env, &st);
	if (r == 0 && st.changed_inodes <= TOLD_MAX && !env_is_pristine(env))
		r = delta_walk(env, 0, count_some, &c);
	if (r < 0)
		diag_add(diag, "%s: thrown away; its changes could not be read",
			 name);
	else if (st.changed_inodes > TOLD_MAX || c.paths > TOLD_MAX)
		diag_add(diag, "%s: thrown away: more than %d changed %s", name,
			 TOLD_MAX, c.paths ? "paths" : "inodes");
	else if (c.paths)
		diag_add(diag,
			 "%s: thrown away: %llu changed path%s, %llu byte%s",
			 name, (unsigned long long)c.paths,
			 c.paths == 1 ? "" : "s", (unsigned long long)c.bytes,
			 c.bytes == 1 ? "" : "s");
}
