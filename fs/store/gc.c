/* SPDX-License-Identifier: MIT */
/*
 * A collection, from its first step to its last.
 *
 * While everybody who writes objects is kept out (gate.c): find the roots, give
 * up snapshots that nobody wants, mark, delete the rows of what is not marked.
 * That is reading trees and one or a few commits. Then writers are let in and
 * the segments with little left are rewritten (gc_move.c), which takes longer.
 *
 * Where the disk has no room for that, holes are made in them (gc_punch.c).
 *
 * Nothing is deleted before all marking is done. A snapshot is given up by its
 * record first: killed after that, the next gc finds its objects unneeded.
 */
#include "store/gc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "store/batch_int.h"
#include "store/gc_int.h"
#include "store/leases.h"
#include "store/settings.h"

enum { MAKING_SECONDS = 10 };

static void gc_fini(struct gc *g)
{
	if (g->writing)
		writer_close(&g->writer);
	mark_fini(&g->mark);
	buf_fini(&g->segments);
	buf_fini(&g->moves);
	buf_fini(&g->stored);
	buf_fini(&g->packed);
}

/* --- while nobody writes ------------------------------------------------- */

/* Gives up the record of what has expired. One that got a name this moment
 * stays. */
static int forget_expired(struct gc *g, struct roots *roots)
{
	struct oid id;
	int r = 0;

	for (size_t i = 0; i < roots->expired.len; i += sizeof id) {
		memcpy(&id, roots->expired.data + i, sizeof id);
		if (!g->options->dry_run)
			r = store_snapshot_forget(g->store, &id);
		if (r == -EBUSY)
			buf_put(&roots->rest, &id, sizeof id);
		else if (r < 0 && r != -ENOENT)
			return r;
		else
			g->result->snapshots++;
		r = 0;
	}
	return buf_error(&roots->rest);
}

static int mark_all(struct gc *g, const struct buf *ids, uint32_t owner)
{
	struct oid id;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ids->len; i += sizeof id) {
		memcpy(&id, ids->data + i, sizeof id);
		r = mark_root(&g->mark, &id, owner);
	}
	return r;
}

static int mark(struct gc *g, uint32_t grace_days)
{
	_cleanup_(roots_fini) struct roots roots = {0};
	int r = roots_read(&roots, g->store, grace_days, g->diag);

	if (r == 0)
		r = forget_expired(g, &roots);
	if (r == 0)
		r = mark_load(&g->mark, g->store, g->diag);
	if (r == 0)
		r = mark_all(g, &roots.envs, OWNER_ENV);
	if (r == 0)
		r = mark_all(g, &roots.rescues, OWNER_REST);
	if (r == 0)
		r = mark_all(g, &roots.rest, OWNER_REST);
	return r < 0 ? r : gc_count(g);
}

static int choose_grace(struct gc *g, uint32_t *ret_days)
{
	struct settings settings;
	int r;

	if (g->options->grace_days >= 0) {
		*ret_days = (uint32_t)g->options->grace_days;
		return 0;
	}
	r = settings_read(g->store, g->diag, &settings);
	if (r == 0)
		*ret_days = settings.grace_days;
	return r;
}

/* --- afterwards ---------------------------------------------------------- */

/* What a server may just be making is young and has a name of its own. */
static bool is_making(int fd, const char *name)
{
	struct stat st;

	return strncmp(name, ".new-", 5) == 0 &&
	       fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       clock_now().tv_sec - st.st_ctim.tv_sec <= MAKING_SECONDS;
}

static int empty_trash(struct gc *g)
{
	const struct dirent *e;
	DIR *d;
	int worst = io_open_names(g->store->fd, "trash", O_NOFOLLOW, &d);

	if (worst < 0)
		return worst;
	while ((e = readdir(d))) {
		int r = 0;

		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 && !is_making(dirfd(d), e->d_name))
			r = io_remove_tree(dirfd(d), e->d_name);
		worst = r < 0 ? r : worst;
	}
	(void)closedir(d);
	if (worst < 0)
		diag_add(g->diag, "%s/trash: %s", g->store->path,
			 err_text(worst));
	return worst;
}

/* Tells the processes that have removed segments open. After the unlinks: who
 * looked before would find nothing to let go of. */
static int tell_readers(struct gc *g)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct index_gc gc = {0};
	int r = index_txn_begin(g->store->index, true, &t);

	if (r == 0)
		r = index_get_gc(&t, &gc);
	if (r < 0)
		return r;
	gc.generation++;
	r = index_put_gc(&t, &gc);
	return r < 0 ? r : index_txn_commit(&t);
}

/* Nothing can be copied: what is in the middle of a copy is given up, and the
 * segments are left where they are with less in them. Not a failure: what was
 * deleted is deleted. */
static int compact_in_place(struct gc *g)
{
	const uint64_t lost = g->writer.fd < 0 ? 0
					       : writer_end(&g->writer) -
							 g->writer.committed;
	int r;

	g->appended -= MIN(g->appended, lost);
	buf_clear(&g->moves);
	writer_close(&g->writer);
	g->writing = false;
	r = gc_punch(g);
	diag_add(g->notes, "the disk is too full to rewrite segments: run gc "
			   "again when there is room");
	/* LMDB gives up when its meta page was what could not be written. */
	return r == -EIO ? -ENOSPC : r;
}

/* Compacts what is left. What takes no room comes first. */
static int compact(struct gc *g)
{
	int r = writer_open(g->store->segments, g->store->index,
			    batch_seam_int.segment_bytes, &g->writer);

	if (r < 0)
		return r;
	g->writing = true;
	g->writer.fresh = true;
	r = gc_drop_empty(g);
	if (r == 0 && g->options->compress)
		r = gc_compress(g);
	if (r == 0) {
		gc_choose(g);
		r = gc_rewrite(g);
	}
	if (gc_is_full(r))
		r = compact_in_place(g);
	g->result->freed -= MIN(g->appended, g->result->freed);
	if (r == 0 && g->removed)
		r = tell_readers(g);
	return r;
}

/* Says what a collection would free. */
static void estimate(struct gc *g)
{
	size_t n;
	const struct gc_segment *all = gc_segments(g, &n);

	gc_choose(g);
	for (size_t i = 0; i < n; i++) {
		if (!all[i].chosen)
			continue;
		g->result->segments++;
		g->result->freed += all[i].end - MIN(all[i].end, all[i].live);
	}
}

static int free_leases(struct gc *g)
{
	size_t n = 0;
	int r = g->options->dry_run ? store_lease_count_stray(g->store, &n)
				    : store_lease_sweep(g->store, &n);

	g->result->leases = n;
	return r;
}

static int collect(struct gc *g, struct gate *gate)
{
	uint32_t grace_days;
	int r = choose_grace(g, &grace_days);

	if (r == 0)
		r = gate_close_int(g->store, g->options->waiting,
				   g->options->ctx, gate);
	/* A repair that it has waited for may have replaced what says which
	 * files are needed. */
	if (r == 0)
		r = index_check_current(g->store->index);
	if (r == 0)
		r = mark(g, grace_days);
	if (r == 0)
		r = gc_sweep_files(g);
	if (r == 0)
		r = free_leases(g);
	if (r == 0 && g->options->dry_run) {
		estimate(g);
		return 0;
	}
	if (r == 0)
		r = gc_delete(g);
	if (r == 0)
		r = gate_open_int(gate);
	if (r == 0)
		r = compact(g);
	if (r == 0 && g->options->trash)
		r = empty_trash(g);
	return r;
}

int store_gc(struct store *s, const struct gc_options *options,
	     struct diag *notes, struct diag *diag,
	     struct gc_result *ret_result)
{
	_cleanup_(gate_leave_int) struct gate gate = {-1, -1, -1};
	struct gc_result result = {0};
	_cleanup_(gc_fini) struct gc g = {
		.store = s,
		.options = options,
		.notes = notes,
		.diag = diag,
		.result = &result,
	};
	int r;

	if (index_is_read_only(s->index) && !options->dry_run)
		return -EROFS;
	r = collect(&g, &gate);
	if (r < 0)
		return r;
	*ret_result = result;
	return g.damage;
}
