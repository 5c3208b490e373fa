/* SPDX-License-Identifier: MIT */
/*
 * diff.c - two indexes in memory, one a side, hold the changed paths alone;
 * libgit2 compares them, pairs renames and makes the lines of patches.
 *
 * Files over the limit would have to be in memory for that. They are taken out
 * of the indexes (diff_big.c). The lines before the content are made here for
 * all (gitdiff_text.c): libgit2 quotes names, and shortens ids, in other ways
 * than git.
 *
 * A change of kind is a deletion and an addition at one path, as git has it in
 * patches; both rows come one after the other.
 */
#include "git/diff_int.h"

#include "base/grow.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum {
	/* As git's diff.renameLimit: above its square only equal files are
	 * paired. */
	RENAME_LIMIT = 1000,
	RENAME_PERCENT = 50,
};

uint32_t gitdiff_mode(uint32_t mode)
{
	if (S_ISLNK(mode))
		return GIT_FILEMODE_LINK;
	if (!S_ISREG(mode))
		return 0;
	return mode & S_IXUSR ? GIT_FILEMODE_BLOB_EXECUTABLE
			      : GIT_FILEMODE_BLOB;
}

int gitdiff_new(const struct gitdiff_reader *reader, uint64_t limit,
		struct diag *diag, struct gitdiff **ret_diff)
{
	struct gitdiff *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return -ENOMEM;
	d->reader = *reader;
	/* an index counts bytes in 32 bits */
	d->limit = MIN(limit, (uint64_t)INT32_MAX);
	d->diag = diag;
	r = gitdiff_open(d);
	if (r < 0)
		gitdiff_free(d);
	else
		*ret_diff = d;
	return r;
}

void gitdiff_free(struct gitdiff *d)
{
	if (!d)
		return;
	git_index_free(d->index[0]);
	git_index_free(d->index[1]);
	git_repository_free(d->repo);
	git_config_free(d->config);
	git_odb_free(d->odb);
	for (size_t i = 0; i < d->half_count; i++) {
		free(d->halves[i]->path);
		free(d->halves[i]);
	}
	free((void *)d->halves);
	free(d->bigs);
	hmap_fini(&d->blobs);
	free(d);
}

/* --- adding -------------------------------------------------------------- */

static int half_new(struct gitdiff *d, enum gitdiff_side side, const char *path,
		    const struct gitdiff_file *file, struct gitdiff_half **ret)
{
	struct gitdiff_half *h;

	if (GROW(d->halves, d->half_count, d->half_cap, 64) < 0)
		return -ENOMEM;
	h = calloc(1, sizeof *h);
	if (!h)
		return -ENOMEM;
	d->halves[d->half_count++] = h;
	h->side = side;
	h->file = *file;
	h->path = strdup(path);
	*ret = h;
	return h->path ? 0 : -ENOMEM;
}

/* Puts a half into its index; 1: git takes no such name. */
static int put_half(struct gitdiff *d, const struct gitdiff_half *h)
{
	git_index_entry e = {
		.mode = h->file.mode,
		.file_size = (uint32_t)MIN(h->file.size, (uint64_t)UINT32_MAX),
		.id = h->id,
		.path = h->path,
	};
	const git_error *error;
	int r = git_index_add(d->index[h->side], &e);

	if (r == 0)
		return 0;
	error = git_error_last();
	if (error && error->klass == GIT_ERROR_INDEX)
		return 1;
	return gitlib_fail(d->diag, r, h->path);
}

static bool is_big(const struct gitdiff *d, const struct gitdiff_half *h)
{
	return h && h->file.size > d->limit;
}

/* Takes a pair that is over the limit out of libgit2's hands. */
static int set_aside(struct gitdiff *d, struct gitdiff_half *halves[2])
{
	int r = 0;

	for (int side = 0; r == 0 && side < 2; side++)
		if (halves[side])
			r = git_index_remove(d->index[side], halves[side]->path,
					     0);
	if (r < 0)
		return gitlib_fail(d->diag, r, "libgit2");
	return gitdiff_big_add(d, halves);
}

/* One path of one kind. */
static int add_pair(struct gitdiff *d, const char *path,
		    const struct gitdiff_file files[2])
{
	struct gitdiff_half *halves[2] = {NULL, NULL};
	int r = 0;

	for (int side = 0; r == 0 && side < 2; side++) {
		if (!files[side].mode)
			continue;
		r = half_new(d, side, path, &files[side], &halves[side]);
		/* the name first: what is left out is not read */
		if (r == 0)
			r = put_half(d, halves[side]);
	}
	if (r)
		return r;
	if (is_big(d, halves[0]) || is_big(d, halves[1]))
		return set_aside(d, halves);
	for (int side = 0; r == 0 && side < 2; side++) {
		if (!halves[side])
			continue;
		r = gitdiff_hash(d, halves[side]);
		if (r == 0)
			r = put_half(d, halves[side]);
	}
	d->alone[0] += halves[0] && !halves[1];
	d->alone[1] += halves[1] && !halves[0];
	return r;
}

int gitdiff_add(struct gitdiff *d, const char *path,
		const struct gitdiff_file files[2])
{
	const struct gitdiff_file none = {0};
	int r;

	if (!files[0].mode && !files[1].mode)
		return 0;
	if (!files[0].mode || !files[1].mode ||
	    S_ISLNK(files[0].mode) == S_ISLNK(files[1].mode))
		return add_pair(d, path, files);
	r = add_pair(d, path, (struct gitdiff_file[]){files[0], none});
	return r ? r
		 : add_pair(d, path, (struct gitdiff_file[]){none, files[1]});
}

/* --- rows ---------------------------------------------------------------- */

/* What a row comes from: number i of libgit2's, or of those set aside. */
struct item {
	const char *path;
	bool is_gone; /* comes before what is new at its path */
	bool is_big;
	size_t i;
};

static int item_compare(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	const int c = strcmp(x->path, y->path);

	return c ? c : (int)y->is_gone - (int)x->is_gone;
}

static int compare(struct gitdiff *d, bool want_patch, git_diff **ret)
{
	git_diff_options o;
	git_diff_find_options f;
	int r = git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);

	if (r == 0)
		r = git_diff_find_options_init(&f,
					       GIT_DIFF_FIND_OPTIONS_VERSION);
	if (r < 0)
		return gitdiff_fail(d, r, "libgit2");
	o.flags = GIT_DIFF_INDENT_HEURISTIC |
		  (want_patch ? GIT_DIFF_SHOW_BINARY : 0);
	o.max_size = (git_off_t)d->limit;
	f.flags = GIT_DIFF_FIND_RENAMES | GIT_DIFF_FIND_DONT_IGNORE_WHITESPACE;
	f.rename_threshold = RENAME_PERCENT;
	f.rename_limit = RENAME_LIMIT;
	if (d->alone[0] * d->alone[1] > (size_t)RENAME_LIMIT * RENAME_LIMIT)
		f.flags |= GIT_DIFF_FIND_EXACT_MATCH_ONLY;
	r = git_diff_index_to_index(ret, d->repo, d->index[0], d->index[1], &o);
	if (r == 0 && d->alone[0] && d->alone[1])
		r = git_diff_find_similar(*ret, &f);
	return r < 0 ? gitdiff_fail(d, r, "renames") : 0;
}

static int items_make(struct gitdiff *d, git_diff *diff,
		      struct item **ret_items, size_t *ret_count)
{
	const size_t n = git_diff_num_deltas(diff);
	struct item *items = calloc(n + d->big_count + 1, sizeof *items);
	size_t count = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const git_diff_delta *delta = git_diff_get_delta(diff, i);

		if (delta->status == GIT_DELTA_UNMODIFIED)
			continue;
		items[count++] = (struct item){
			.path = delta->new_file.path,
			.is_gone = delta->status == GIT_DELTA_DELETED,
			.i = i,
		};
	}
	for (size_t i = 0; i < d->big_count; i++) {
		struct gitdiff_half *const *h = d->bigs[i].half;

		if (!gitdiff_big_differs(&d->bigs[i]))
			continue;
		items[count++] = (struct item){
			.path = h[1] ? h[1]->path : h[0]->path,
			.is_gone = !h[1],
			.is_big = true,
			.i = i,
		};
	}
	qsort(items, count, sizeof *items, item_compare);
	*ret_items = items;
	*ret_count = count;
	return 0;
}

static char letter_of(git_delta_t status)
{
	switch (status) {
	case GIT_DELTA_ADDED:
		return 'A';
	case GIT_DELTA_DELETED:
		return 'D';
	case GIT_DELTA_RENAMED:
		return 'R';
	default:
		return 'M';
	}
}

/* Fills what libgit2 knows of a row; the patch is the caller's to free. */
static int count_lines(struct gitdiff *d, git_diff *diff, size_t i,
		       struct gitdiff_row *row, git_patch **ret_patch)
{
	size_t insertions = 0, deletions = 0;
	int r = git_patch_from_diff(ret_patch, diff, i);

	if (r == 0 && *ret_patch)
		r = git_patch_line_stats(NULL, &insertions, &deletions,
					 *ret_patch);
	if (r < 0)
		return gitdiff_fail(d, r, row->path);
	row->insertions = insertions;
	row->deletions = deletions;
	row->is_binary =
		git_diff_get_delta(diff, i)->flags & GIT_DIFF_FLAG_BINARY;
	return 0;
}

struct walk {
	struct gitdiff *d;
	git_diff *diff;
	struct buf *patch; /* NULL: none is wanted */
	gitdiff_row_fn fn;
	void *ctx;
};

static void patch_freep(git_patch **p)
{
	git_patch_free(*p);
}

static int walk_delta(struct walk *w, size_t i)
{
	const git_diff_delta *delta = git_diff_get_delta(w->diff, i);
	const git_diff_file *files[] = {&delta->old_file, &delta->new_file};
	_cleanup_(patch_freep) git_patch *patch = NULL;
	struct gitdiff_row row = {
		.status = letter_of(delta->status),
		.similarity = delta->similarity,
		.path = files[1]->path,
		.old_path = files[0]->path,
		.content_differs = !git_oid_equal(&files[0]->id, &files[1]->id),
		.patch = w->patch,
	};
	struct gitdiff_text t = {&row, {&files[0]->id, &files[1]->id}};
	int r;

	if (row.status != 'A')
		row.old_file =
			(struct gitdiff_file){files[0]->mode, files[0]->size};
	if (row.status != 'D')
		row.new_file =
			(struct gitdiff_file){files[1]->mode, files[1]->size};
	r = count_lines(w->d, w->diff, i, &row, &patch);
	if (r == 0 && w->patch) {
		gitdiff_put_header(w->patch, &t);
		if (patch && row.content_differs)
			r = gitdiff_put_content(w->patch, &t, patch);
		if (r < 0)
			return gitdiff_fail(w->d, r, row.path);
	}
	return r < 0 ? r : w->fn(w->ctx, &row);
}

static int walk_items(struct walk *w)
{
	_cleanup_free_ struct item *items = NULL;
	size_t count = 0;
	int r;

	r = gitdiff_big_compare(w->d);
	if (r >= 0)
		r = items_make(w->d, w->diff, &items, &count);
	for (size_t i = 0; r >= 0 && i < count; i++) {
		if (w->patch)
			buf_clear(w->patch);
		r = items[i].is_big ? gitdiff_big_row(&w->d->bigs[items[i].i],
						      w->patch, w->fn, w->ctx)
				    : walk_delta(w, items[i].i);
		if (r >= 0 && w->patch)
			r = buf_error(w->patch);
	}
	return r;
}

int gitdiff_walk(struct gitdiff *d, bool want_patch, gitdiff_row_fn fn,
		 void *ctx)
{
	_cleanup_buf_ struct buf patch = {0};
	struct walk w = {
		.d = d,
		.patch = want_patch ? &patch : NULL,
		.fn = fn,
		.ctx = ctx,
	};
	int r = compare(d, want_patch, &w.diff);

	if (r == 0)
		r = walk_items(&w);
	git_diff_free(w.diff);
	return r;
}
