/* SPDX-License-Identifier: MIT */
/*
 * standing.c - what was not committed when the snapshot was made, found without
 * looking at each of its files.
 *
 * The list of changes begins at the snapshot. What was modified or untracked in
 * the origin's work tree by then is in no row of it, and belongs to the
 * environment's work all the same. Two questions find it:
 *
 * 1. Which entries of the index may differ from their files? An import sets an
 *    entry's stat data to those of the view when the file is the one that the
 *    index has, and to zero when it is not, or is not known to be. What it sets
 *    is a mark: no device, an inode, and both times the same. (A device where
 *    the x bit differs: content alone is the index's.) An entry with the mark
 *    whose path did not change since is that file's. All others (zero, or
 *    written by git later) are looked at by the caller, who compares stat data
 *    first, as git does.
 *
 * 2. Which files are in no entry? Entries with the mark, and the directories on
 *    their way, were all in the snapshot. Its trees have the number of inodes
 *    below each directory. Where that equals the number of marked entries and
 *    their directories there is nothing else, and no look inside is needed;
 *    where it does not, the names of that one directory are compared, and so
 *    on. An ignored directory is not entered.
 *
 * This holds for snapshots that an import made. One that was made of an
 * environment has marks from before that environment's changes: no mark counts
 * then, and all is compared. An import's record names the machine.
 */
#include "git/tip_int.h"

#include <string.h>

#include "base/err.h"
#include "object/snap.h"
#include "object/tree.h"
#include "store/store.h"

struct walk {
	struct gittip *t;
	struct gitpaths *out;
	bool *present; /* for each entry: it has the mark, and did not change */
	struct buf path;
};

void gitpaths_add(struct gitpaths *p, const char *path, size_t len)
{
	buf_put(&p->text, path, len);
	buf_put_u8(&p->text, 0);
	p->count++;
}

static bool has_mark(const struct gitentry *e)
{
	return !e->stage && !e->intent_to_add && !e->st.dev && e->st.ino &&
	       e->st.mtime_sec && e->st.ctime_sec == e->st.mtime_sec &&
	       e->st.ctime_nsec == e->st.mtime_nsec;
}

/* --- entries -------------------------------------------------------------- */

static int has_host(void *ctx, const struct snapshot_info *info)
{
	*(bool *)ctx = info->host && *info->host;
	return 0;
}

/* Whether an import made the snapshot. */
static bool is_imported(const struct gitwork *work)
{
	bool is = false;

	return work->store && !oid_is_null(&work->snapshot) &&
	       store_snapshot(work->store, &work->snapshot, has_host, &is) ==
		       0 &&
	       is;
}

static int entries_look(struct walk *w)
{
	struct gittip *t = w->t;
	const bool sure = is_imported(t->work);

	for (size_t i = 0; i < t->index.count; i++) {
		const struct gitentry *e = &t->index.list[i];
		const char *path = gitentry_path(&t->index, e);
		int changed = 0;

		if (sure && has_mark(e)) {
			changed = gitchanges_has(t->work->changes, path,
						 e->path_len);
			if (changed < 0)
				return changed;
			w->present[i] = !changed;
		}
		if (changed || (w->present[i] && e->mode != GITMODE_LINK) ||
		    e->skip_worktree || e->assume_unchanged)
			continue;
		gitpaths_add(w->out, path, e->path_len);
	}
	return buf_error(&w->out->text);
}

/* --- files that are in no entry ------------------------------------------- */

/* How many inodes below a directory the entries from begin on account for. */
static uint64_t count_present(const struct walk *w, size_t begin, size_t end,
			      size_t dir_len)
{
	const struct gitentries *g = &w->t->index;
	const char *before = NULL;
	size_t before_len = 0;
	uint64_t n = 0;

	for (size_t i = begin; i < end; i++) {
		const struct gitentry *e = &g->list[i];
		const char *path = gitentry_path(g, e);
		size_t same = dir_len;

		if (!w->present[i])
			continue;
		while (before && same < before_len && same < e->path_len &&
		       path[same] == before[same])
			same++;
		n++;
		for (size_t at = same; at < e->path_len; at++)
			n += path[at] == '/' && at > dir_len;
		before = path;
		before_len = e->path_len;
	}
	return n;
}

/* The entries below the path at hand. */
static void range_below(struct walk *w, size_t *ret_begin, size_t *ret_end)
{
	const struct gitentries *g = &w->t->index;
	const size_t len = w->path.len;

	buf_put_u8(&w->path, '/');
	*ret_begin = *ret_end = 0;
	if (w->path.failed)
		return;
	*ret_begin = gitentries_seek(g, (char *)w->path.data, len + 1);
	w->path.data[len] = '/' + 1;
	*ret_end = gitentries_seek(g, (char *)w->path.data, len + 1);
	w->path.len = len;
}

static int dir_open(struct walk *w, const struct oid *id, struct buf *bytes,
		    struct tree *tree)
{
	int r = store_get(w->t->work->store, id, bytes);

	return r < 0 ? r : tree_open(bytes->data, bytes->len, tree);
}

static bool is_git(const struct tree_entry *e)
{
	return e->name_len == 4 && !memcmp(e->name, ".git", 4);
}

/* Appends a name to the path; returns the length before. */
static size_t push(struct walk *w, const struct tree_entry *e)
{
	const size_t len = w->path.len;

	if (len)
		buf_put_u8(&w->path, '/');
	buf_put(&w->path, e->name, e->name_len);
	return len;
}

static int is_ignored(struct walk *w, bool is_dir)
{
	const char *path = buf_str(&w->path);

	return path ? gitignore_check(w->t->ignore, path, is_dir) : -ENOMEM;
}

static int add_path(struct walk *w)
{
	gitpaths_add(w->out, (char *)w->path.data, w->path.len);
	return buf_error(&w->out->text);
}

static int dir_untracked(struct walk *w, const struct oid *id);

/* A name below a directory without entries. */
static int name_untracked(struct walk *w, const struct tree_entry *e)
{
	const bool is_dir = S_ISDIR(e->mode);
	int r = is_ignored(w, is_dir);

	if (r)
		return r < 0 ? r : 0;
	return is_dir ? dir_untracked(w, &e->content) : add_path(w);
}

static int dir_untracked(struct walk *w, const struct oid *id)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct tree_entry e;
	struct tree tree;
	uint32_t i;
	int r = dir_open(w, id, &bytes, &tree);

	if (r == 0 && tree_lookup(&tree, ".git", 4, &i) == 0)
		return add_path(w); /* a repository in itself */
	for (i = 0; r == 0 && i < tree.count; i++) {
		size_t len;

		tree_entry_at(&tree, i, &e);
		len = push(w, &e);
		r = name_untracked(w, &e);
		w->path.len = len;
	}
	return r;
}

static int dir_compare(struct walk *w, const struct oid *id);

static int name_compare(struct walk *w, const struct tree_entry *e)
{
	const struct gitentries *g = &w->t->index;
	const struct gitentry *entry =
		gitentries_find(g, (char *)w->path.data, w->path.len);
	size_t begin, end;

	/* What the index has has been looked at, but for what is below a
	 * directory in place of a file. */
	if (entry && (entry->mode == GITMODE_LINK || !S_ISDIR(e->mode)))
		return 0;
	if (!S_ISDIR(e->mode))
		return name_untracked(w, e);
	range_below(w, &begin, &end);
	if (begin == end)
		return name_untracked(w, e);
	if (count_present(w, begin, end, w->path.len) == e->below)
		return 0;
	return dir_compare(w, &e->content);
}

static int dir_compare(struct walk *w, const struct oid *id)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct tree_entry e;
	struct tree tree;
	int r = dir_open(w, id, &bytes, &tree);

	for (uint32_t i = 0; r == 0 && i < tree.count; i++) {
		size_t len;

		tree_entry_at(&tree, i, &e);
		if (is_git(&e))
			continue;
		len = push(w, &e);
		r = buf_error(&w->path);
		if (r == 0)
			r = name_compare(w, &e);
		w->path.len = len;
	}
	return r;
}

static int snapshot_compare(struct walk *w)
{
	const struct gitwork *work = w->t->work;
	struct snap snap;
	int r = store_get_snap(work->store, &work->snapshot, &snap);

	if (r == 0)
		r = dir_compare(w, &snap.tree);
	if (r < 0)
		return diag_fail(w->t->odb.diag, r,
				 "the environment's snapshot: %s", err_text(r));
	return 0;
}

int gittip_standing(struct gittip *t, struct gitpaths *out)
{
	_cleanup_free_ bool *present = calloc(t->index.count + 1, sizeof(bool));
	struct walk w = {.t = t, .out = out, .present = present};
	int r;

	if (!present)
		return -ENOMEM;
	r = entries_look(&w);
	if (r == 0 && !t->tracked && t->work->store &&
	    !oid_is_null(&t->work->snapshot))
		r = snapshot_compare(&w);
	buf_fini(&w.path);
	return r;
}
