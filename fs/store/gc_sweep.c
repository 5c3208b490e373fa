/* SPDX-License-Identifier: MIT */
/*
 * From marks to what is to be done: rows that go, files that go, segments that
 * are worth rewriting. All but the choice happens while no writer is in.
 *
 * Rows go in two steps. What names other objects goes in one transaction, then
 * the rest, in parts that fit into memory. So at no time a row is there whose
 * object names one that is gone: who finds a tree may rely on all below it.
 *
 * LMDB writes each page that changes to another place, so on a full disk large
 * transactions fail. Then smaller ones are made, down to a single row, which
 * the index has blocks for (headroom.c); the pages that they free let the next
 * ones be larger. Killed between them, a tree may be left whose children are
 * gone: no snapshot has it, and the first of them has ended the epoch, so what
 * an import remembers of it counts for nothing (scan.c).
 *
 * A segment is rewritten when less than three quarters of it are live. Beyond
 * that, the emptiest are, until what is left over is a twentieth of the store:
 * each rewriting then costs a lot of copying for little.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "store/gc_int.h"

enum {
	ROWS_PER_COMMIT = 1 << 17,
	ROWS_WHEN_FULL = 1 << 12,
	GROW_AFTER = 4, /* commits */
	WASTE_PARTS = 20,
};

/* --- live bytes ---------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
	const struct gc_segment *x = a;
	const struct gc_segment *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static struct gc_segment *find_segment(const struct gc *g, uint32_t number)
{
	const struct gc_segment key = {.number = number};
	size_t n;
	struct gc_segment *all = gc_segments(g, &n);

	return n > 0 ? bsearch(&key, all, n, sizeof key, compare_numbers)
		     : NULL;
}

static int list_segments(struct gc *g)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	_cleanup_buf_ struct buf list = {0};
	struct index_segment s;
	int r = index_txn_begin(g->store->index, false, &t);

	if (r == 0)
		r = index_list_segments(&t, &list);
	for (size_t i = 0; r == 0 && i < list.len; i += sizeof s) {
		struct gc_segment out;

		memcpy(&s, list.data + i, sizeof s);
		out = (struct gc_segment){.number = s.number, .end = s.end};
		buf_put(&g->segments, &out, sizeof out);
	}
	return r < 0 ? r : buf_error(&g->segments);
}

int gc_count(struct gc *g)
{
	struct gc_result *res = g->result;
	int r = list_segments(g);

	for (size_t i = 0; r == 0 && i < g->mark.count; i++) {
		const struct mark_object *o = &g->mark.objects[i];
		const uint64_t bytes = segment_record_bytes(o->stored_len);
		struct gc_segment *s = find_segment(g, o->segment);

		if (!s || o->offset + bytes > s->end)
			return diag_fail(g->diag, -EFSCORRUPTED,
					 "the index of %s is damaged: cowfs "
					 "fsck tells more",
					 g->store->path);
		if (o->owner == MARK_NONE) {
			res->objects++;
			continue;
		}
		s->live += bytes;
		res->live_objects++;
		res->live_bytes += bytes;
	}
	return r;
}

/* --- deleting rows ------------------------------------------------------- */

static bool is_leaf(const struct oid *id)
{
	const enum oid_kind kind = oid_kind(id);

	return kind == OID_BLOB || kind == OID_XSET || kind == OID_LINKS;
}

/* Deletes unmarked rows from *at on, at most max, in one transaction. After an
 * error *at says nothing. */
static int delete_some(struct gc *g, bool leaves, size_t max, size_t *at)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	const struct mark_object *o = g->mark.objects;
	size_t done = 0;
	size_t i = *at;
	int r = 0;

	for (; r == 0 && i < g->mark.count && done < max; i++) {
		if (o[i].owner != MARK_NONE || is_leaf(&o[i].id) != leaves)
			continue;
		if (done++ == 0)
			r = index_txn_begin(g->store->index, true, &t);
		if (r == 0)
			r = index_delete_object(&t, &o[i].id);
	}
	*at = i;
	return r < 0 || done == 0 ? r : index_txn_commit(&t);
}

static int compare_places(const void *a, const void *b)
{
	const struct mark_object *x = a;
	const struct mark_object *y = b;

	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Keeps the marked ones, sorted by place, and tells each segment its own. */
static void keep_live(struct gc *g)
{
	struct mark *m = &g->mark;
	size_t n = 0;

	for (size_t i = 0; i < m->count; i++)
		if (m->objects[i].owner != MARK_NONE)
			m->objects[n++] = m->objects[i];
	m->count = n;
	if (n > 0)
		qsort(m->objects, n, sizeof *m->objects, compare_places);
	for (size_t i = 0; i < n; i++) {
		struct gc_segment *s = find_segment(g, m->objects[i].segment);

		if (s && s->count++ == 0)
			s->first = i;
	}
}

bool gc_is_full(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* Deletes all unmarked rows of a kind, max in one transaction; fewer where the
 * disk has no room for so many. */
static int delete_rows(struct gc *g, bool leaves, size_t max)
{
	size_t part = max;
	size_t at = 0;
	unsigned done = 0;
	int full = 0;
	int r = 0;

	while (r == 0 && at < g->mark.count) {
		size_t next = at;

		r = delete_some(g, leaves, part, &next);
		if (r == 0) {
			at = next;
			if (++done % GROW_AFTER == 0)
				part = part > max / 2 ? max : part * 2;
		} else if (gc_is_full(r) && part > 1) {
			part = MIN(part, (size_t)ROWS_WHEN_FULL * 4) / 4;
			full = r;
			r = 0;
		}
	}
	/* LMDB gives up when its meta page was what could not be written. */
	return r == -EIO && full ? full : r;
}

int gc_delete(struct gc *g)
{
	int r = delete_rows(g, false, SIZE_MAX);

	if (r == 0)
		r = delete_rows(g, true, ROWS_PER_COMMIT);
	if (r == 0)
		keep_live(g);
	return r;
}

int gc_reload(struct gc *g)
{
	int r;

	mark_fini(&g->mark);
	g->mark = (struct mark){.store = NULL};
	buf_clear(&g->segments);
	/* First: a row that comes after it moves the end of its segment. */
	r = list_segments(g);
	if (r == 0)
		r = mark_load(&g->mark, g->store, g->diag);
	for (size_t i = 0; r == 0 && i < g->mark.count; i++)
		g->mark.objects[i].owner = OWNER_REST;
	if (r == 0)
		keep_live(g);
	return r;
}

/* --- what killed writers have left ---------------------------------------- */

static bool is_segment_name(const char *name, uint32_t *ret_number)
{
	const unsigned long number = strtoul(name, NULL, 10);
	char want[SEGMENT_NAME_BYTES];

	if (number > UINT32_MAX)
		return false;
	segment_name((uint32_t)number, want);
	*ret_number = (uint32_t)number;
	return strcmp(name, want) == 0;
}

/* Cuts what a killed writer has left behind the committed end. */
static int cut_tail(struct gc *g, int dirfd, const char *name, uint64_t end,
		    uint64_t size)
{
	_cleanup_close_ int fd = -1;

	if (size <= end || end < SEGMENT_HEADER_BYTES || end % SEGMENT_ALIGN)
		return 0;
	g->result->freed += size - end;
	if (g->options->dry_run)
		return 0;
	fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : io_truncate(fd, end);
}

static int sweep_file(struct gc *g, int dirfd, const char *name)
{
	const struct gc_segment *s;
	uint32_t number = 0;
	struct stat st;

	if (!is_segment_name(name, &number) ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return 0;
	s = find_segment(g, number);
	if (s)
		return cut_tail(g, dirfd, name, s->end, (uint64_t)st.st_size);
	if (!g->options->dry_run && unlinkat(dirfd, name, 0) < 0)
		return -errno;
	g->removed = true;
	g->result->segments++;
	g->result->freed += (uint64_t)st.st_size;
	return 0;
}

int gc_sweep_files(struct gc *g)
{
	const struct dirent *e;
	DIR *d;
	int r = io_open_names(g->store->fd, "segments", 0, &d);

	if (r < 0)
		return r;
	while (r == 0 && (e = readdir(d)))
		r = sweep_file(g, dirfd(d), e->d_name);
	(void)closedir(d);
	return r;
}

/* --- choosing ------------------------------------------------------------ */

static uint64_t payload_of(const struct gc_segment *s)
{
	return s->end - MIN(s->end, (uint64_t)SEGMENT_HEADER_BYTES);
}

static uint64_t waste_of(const struct gc_segment *s)
{
	return payload_of(s) - MIN(s->live, payload_of(s));
}

static int compare_fill(const void *a, const void *b)
{
	const struct gc_segment *const *x = a;
	const struct gc_segment *const *y = b;
	/* Both are below 2^31. */
	const uint64_t p = (*x)->live * payload_of(*y);
	const uint64_t q = (*y)->live * payload_of(*x);

	return p < q ? -1 : p > q;
}

void gc_choose(struct gc *g)
{
	size_t n;
	struct gc_segment *all = gc_segments(g, &n);
	_cleanup_free_ struct gc_segment **sorted =
		calloc(n + 1, sizeof(void *));
	uint64_t waste = 0;
	uint64_t live = 0;

	for (size_t i = 0; i < n; i++) {
		waste += waste_of(&all[i]);
		live += all[i].live;
		all[i].chosen = all[i].live * 4 < payload_of(&all[i]) * 3 ||
				all[i].live == 0;
		if (sorted)
			sorted[i] = &all[i];
	}
	/* Without memory the first rule has to do. */
	if (!sorted)
		return;
	qsort(sorted, n, sizeof(void *), compare_fill);
	for (size_t i = 0; i < n; i++) {
		const uint64_t own = waste_of(sorted[i]);

		if (own > 0 && waste > live / WASTE_PARTS)
			sorted[i]->chosen = true;
		if (sorted[i]->chosen)
			waste -= own;
	}
}
