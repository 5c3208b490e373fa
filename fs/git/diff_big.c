/* SPDX-License-Identifier: MIT */
/*
 * diff_big.c - files over the limit: renamed without a change, or different.
 *
 * They get no name: hashing a gigabyte takes seconds, and comparing ends at the
 * first difference. So their part of a patch has no line "index", which git
 * would want for a binary patch only.
 */
#include "git/diff_int.h"

#include "base/grow.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int gitdiff_big_add(struct gitdiff *d, struct gitdiff_half *const halves[2])
{
	if (GROW(d->bigs, d->big_count, d->big_cap, 8) < 0)
		return -ENOMEM;
	d->bigs[d->big_count++] =
		(struct gitdiff_big){.half = {halves[0], halves[1]}};
	return 0;
}

/* 1, 0 or an error, which has been said. */
static int is_same(struct gitdiff *d, const struct gitdiff_half *old,
		   const struct gitdiff_half *now)
{
	int r;

	if (old->file.size != now->file.size)
		return 0;
	r = d->reader.is_same(d->reader.ctx, old->path, now->path);
	if (r < 0) {
		d->error = r;
		return gitdiff_fail(d, GIT_ERROR, now->path);
	}
	return r;
}

/* Finds for what is new the file that it was. */
static int find_source(struct gitdiff *d, struct gitdiff_big *made)
{
	for (size_t i = 0; i < d->big_count && !made->half[0]; i++) {
		struct gitdiff_big *gone = &d->bigs[i];
		int r = gone->half[0] && !gone->half[1]
				? is_same(d, gone->half[0], made->half[1])
				: 0;

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		made->half[0] = TAKE_PTR(gone->half[0]);
		made->is_same = true;
	}
	return 0;
}

int gitdiff_big_compare(struct gitdiff *d)
{
	int r = 0;

	for (size_t i = 0; i < d->big_count && r >= 0; i++) {
		struct gitdiff_big *big = &d->bigs[i];

		if (big->half[0] && big->half[1]) {
			r = is_same(d, big->half[0], big->half[1]);
			big->is_same = r > 0;
		} else if (big->half[1]) {
			r = find_source(d, big);
		}
	}
	return r < 0 ? r : 0;
}

bool gitdiff_big_differs(const struct gitdiff_big *big)
{
	const struct gitdiff_half *old = big->half[0], *now = big->half[1];

	if (!old || !now)
		return old || now;
	return !big->is_same || old->file.mode != now->file.mode ||
	       strcmp(old->path, now->path) != 0;
}

int gitdiff_big_row(const struct gitdiff_big *big, struct buf *patch,
		    gitdiff_row_fn fn, void *ctx)
{
	static const git_oid none;
	const struct gitdiff_half *old = big->half[0], *now = big->half[1];
	struct gitdiff_row row = {
		.status = !old	 ? 'A'
			  : !now ? 'D'
				 : 'M',
		.content_differs = !big->is_same,
		.is_binary = true,
		.is_big = !big->is_same,
		.patch = patch,
	};
	const struct gitdiff_text t = {&row, {&none, &none}};

	assert(old || now);
	if (old) {
		row.path = row.old_path = old->path;
		row.old_file = old->file;
	}
	if (now) {
		row.path = now->path;
		row.new_file = now->file;
	}
	if (!old)
		row.old_path = row.path;
	if (row.status == 'M' && strcmp(row.path, row.old_path) != 0) {
		row.status = 'R';
		row.similarity = 100;
	}
	if (patch) {
		gitdiff_put_header(patch, &t);
		if (!big->is_same)
			gitdiff_put_differ(patch, &t);
	}
	return fn(ctx, &row);
}
