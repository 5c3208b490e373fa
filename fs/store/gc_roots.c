/* SPDX-License-Identifier: MIT */
/*
 * Where marking begins. Environments are read from their folders, which are
 * the truth about them (a new one is no row of the index); all else are the
 * snapshots with a record. One of these that no name points to and that no
 * environment stands on is given up some days after its import.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/gc_int.h"
#include "store/rescues.h"

enum { DAY_SECONDS = 86400 };

void roots_fini(struct roots *r)
{
	buf_fini(&r->envs);
	buf_fini(&r->rescues);
	buf_fini(&r->named);
	buf_fini(&r->rest);
	buf_fini(&r->expired);
}

static int compare(const void *a, const void *b)
{
	return oid_compare(a, b);
}

static void sort(struct buf *ids)
{
	if (ids->len > 0)
		qsort(ids->data, ids->len / sizeof(struct oid),
		      sizeof(struct oid), compare);
}

bool roots_has(const struct buf *sorted, const struct oid *id)
{
	return sorted->len > 0 &&
	       bsearch(id, sorted->data, sorted->len / sizeof *id, sizeof *id,
		       compare) != NULL;
}

static int add(void *ctx, const char *name, const struct oid *id)
{
	struct buf *ids = ctx;

	buf_put(ids, id, sizeof *id);
	return buf_error(ids);
}

static int add_rescue(void *ctx, const struct rescue *one)
{
	int r = add(ctx, NULL, &one->snapshot);

	return r < 0 ? r : add(ctx, NULL, &one->base);
}

struct snapshots {
	struct roots *roots;
	int64_t since; /* older ones without a name are given up */
};

static int add_snapshot(void *ctx, const struct snapshot_info *info)
{
	struct snapshots *s = ctx;
	const bool kept = roots_has(&s->roots->named, &info->id) ||
			  roots_has(&s->roots->envs, &info->id) ||
			  info->time_sec > s->since;

	return add(kept ? &s->roots->rest : &s->roots->expired, NULL,
		   &info->id);
}

int roots_read(struct roots *r, struct store *s, uint32_t grace_days,
	       struct diag *diag)
{
	struct snapshots all = {
		.roots = r,
		.since = (int64_t)clock_now().tv_sec -
			 (int64_t)grace_days * DAY_SECONDS,
	};
	int err = store_envs_int(s, add, &r->envs, diag);

	if (err == 0)
		err = store_rescues(s, add_rescue, &r->rescues);
	if (err == 0)
		err = store_refs(s, add, &r->named);
	sort(&r->envs);
	sort(&r->named);
	if (err == 0)
		err = store_snapshots(s, add_snapshot, &all);
	return err;
}
