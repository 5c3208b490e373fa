/* SPDX-License-Identifier: MIT */
/*
 * Who needs what: one marking with all snapshots, each an owner of its own.
 * What only one reaches is its own, what several reach is shared. Snapshots
 * that have no record any more count too while environments stand on them,
 * and so do rescues.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/gc_int.h"
#include "store/rescues.h"

void usage_fini(struct usage *u)
{
	free(u->snapshots);
	*u = (struct usage){0};
}

static int add(struct usage *u, const struct usage_snapshot *one)
{
	/* By doubling: a power of two is full. */
	if ((u->count & (u->count - 1)) == 0) {
		const size_t room = u->count ? 2 * u->count : 1;
		void *p = realloc(u->snapshots, room * sizeof *u->snapshots);

		if (!p)
			return -ENOMEM;
		u->snapshots = p;
	}
	u->snapshots[u->count++] = *one;
	return 0;
}

static int add_record(void *ctx, const struct snapshot_info *info)
{
	struct usage *u = ctx;

	u->bytes += info->bytes;
	return add(u, &(struct usage_snapshot){
			      .id = info->id,
			      .time_sec = info->time_sec,
			      .bytes = info->bytes,
		      });
}

static int add_env(void *ctx, const char *name, const struct oid *id)
{
	struct usage *u = ctx;

	for (size_t i = 0; i < u->count; i++)
		if (oid_equal(&u->snapshots[i].id, id))
			return 0;
	return add(u, &(struct usage_snapshot){.id = *id, .forgotten = true});
}

static int add_rescue(void *ctx, const struct rescue *one)
{
	int r = add_env(ctx, NULL, &one->snapshot);

	return r < 0 ? r : add_env(ctx, NULL, &one->base);
}

static int compare(const void *a, const void *b)
{
	const struct usage_snapshot *x = a;
	const struct usage_snapshot *y = b;

	if (x->time_sec != y->time_sec)
		return x->time_sec < y->time_sec ? 1 : -1;
	return oid_compare(&x->id, &y->id);
}

static void count_objects(const struct mark *m, struct usage *u)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct mark_object *o = &m->objects[i];
		const uint64_t bytes = segment_record_bytes(o->stored_len);

		if (o->owner == MARK_NONE)
			continue;
		u->stored += bytes;
		if (o->owner == MARK_SHARED)
			u->shared += bytes;
		else if (o->owner <= u->count)
			u->snapshots[o->owner - 1].own += bytes;
	}
}

static int mark_owners(struct mark *m, struct store *s, struct usage *u,
		       struct diag *diag)
{
	int r = mark_load(m, s, diag);

	for (size_t i = 0; r == 0 && i < u->count; i++)
		r = mark_root(m, &u->snapshots[i].id, (uint32_t)i + 1);
	return r;
}

static int read_usage(struct store *s, struct diag *diag, struct usage *u)
{
	_cleanup_(mark_fini) struct mark m = {.sharing = true};
	_cleanup_close_ int pin = -1;
	struct store_stat stat = {0};
	int r = store_pin(s, &pin);

	if (r == 0)
		r = store_snapshots(s, add_record, u);
	if (r == 0)
		r = store_envs_int(s, add_env, u, diag);
	if (r == 0)
		r = store_rescues(s, add_rescue, u);
	if (r < 0)
		return r;
	if (u->count > 0)
		qsort(u->snapshots, u->count, sizeof *u->snapshots, compare);
	r = mark_owners(&m, s, u, diag);
	if (r == 0)
		r = store_stat(s, &stat);
	if (r < 0)
		return r;
	count_objects(&m, u);
	u->waste = stat.segment_bytes - MIN(stat.segment_bytes, u->stored);
	return 0;
}

int store_usage(struct store *s, struct diag *diag, struct usage *ret_usage)
{
	struct usage u = {0};
	int r = read_usage(s, diag, &u);

	if (r < 0)
		usage_fini(&u);
	else
		*ret_usage = u;
	return r;
}
