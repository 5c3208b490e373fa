/* SPDX-License-Identifier: MIT */
/*
 * files.c - the files of the work tree on top of the index's tree, as `git add
 * --all` would stage them.
 *
 * Only paths that may differ are looked at: those in the list of changes, and
 * what was not committed when the snapshot was made (standing.c). For each, the
 * file that is there now decides; so a path too many costs a look and nothing
 * else. What is gone is taken away first, since a directory may be where a file
 * was, and the other way.
 *
 * A directory with a .git that is not in the index is a repository of its own.
 * git holds of it the commit that it is at, as of a submodule.
 */
#include "git/tip_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

enum { NAMED_MAX = 20 }; /* notes that name a path, of one kind */

struct edit {
	char *path;
	bool gone;
	uint32_t mode;
	git_oid id;
};

struct files {
	struct gittip *t;
	struct gitpaths wanted;
	const char **paths;
	struct edit *edits;
	size_t count;
	struct buf own;	  /* the repository of its own met last; or empty */
	struct buf plain; /* the last directory that is none, nor in one */
	size_t named;
};

static void files_fini(struct files *f)
{
	buf_fini(&f->wanted.text);
	buf_fini(&f->own);
	buf_fini(&f->plain);
	for (size_t i = 0; i < f->count; i++)
		free(f->edits[i].path);
	free(f->paths);
	free(f->edits);
}

/* A path makes one edit at most. */
static int edit_add(struct files *f, const char *path, uint32_t mode,
		    const git_oid *id)
{
	struct edit *e = &f->edits[f->count];

	e->path = strdup(path);
	if (!e->path)
		return -ENOMEM;
	e->gone = !id;
	e->mode = mode;
	if (id)
		e->id = *id;
	f->count++;
	return 0;
}

/* The path is no file any more. */
static int put_gone(struct files *f, const char *path)
{
	return edit_add(f, path, 0, NULL);
}

/* --- which paths ---------------------------------------------------------- */

static bool is_git(const char *path)
{
	return !strncmp(path, ".git", 4) && (!path[4] || path[4] == '/');
}

static void want(struct files *f, const char *path, size_t len)
{
	if (!is_git(path) && strcmp(path, ".") != 0)
		gitpaths_add(&f->wanted, path, len);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Collects the paths, sorted, each once. */
static int collect(struct files *f)
{
	const struct gitchanges *c = f->t->work->changes;
	size_t kept = 0, n;
	const char *at;
	int r;

	for (size_t i = 0; i < c->count; i++) {
		const struct gitchange *row = &c->rows[i];

		want(f, gitchange_path(c, row), row->path_len);
		if (row->old_path_len)
			want(f, gitchange_old_path(c, row), row->old_path_len);
	}
	r = gittip_standing(f->t, &f->wanted);
	if (r == 0)
		r = buf_error(&f->wanted.text);
	if (r < 0)
		return r;
	n = f->wanted.count;
	f->paths = malloc((n + 1) * sizeof *f->paths);
	f->edits = calloc(n + 1, sizeof *f->edits);
	if (!f->paths || !f->edits)
		return -ENOMEM;
	at = (const char *)f->wanted.text.data;
	for (size_t i = 0; i < n; i++) {
		f->paths[i] = at;
		at += strlen(at) + 1;
	}
	qsort(f->paths, n, sizeof *f->paths, compare);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(f->paths[i], f->paths[i - 1]) != 0)
			f->paths[kept++] = f->paths[i];
	f->wanted.count = kept;
	return 0;
}

/* --- names that git refuses ----------------------------------------------- */

/* ".git", also as file systems without case or with short names have it. */
static bool is_refused_name(const char *name, size_t len)
{
	static const char *const words[] = {".git", "git~1"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const size_t n = strlen(words[i]);
		size_t at = n;

		if (len < n || strncasecmp(name, words[i], n) != 0)
			continue;
		while (at < len && (name[at] == ' ' || name[at] == '.'))
			at++;
		if (at == len || name[at] == ':' || name[at] == '\\')
			return true;
	}
	return false;
}

static bool is_refused(const char *path)
{
	while (*path) {
		const size_t n = strcspn(path, "/");

		if (is_refused_name(path, n))
			return true;
		path += n + (path[n] == '/');
	}
	return false;
}

/* --- repositories of their own -------------------------------------------- */

static bool is_below(const struct buf *dir, const char *path)
{
	return dir->len && !strncmp(path, (const char *)dir->data, dir->len) &&
	       path[dir->len] == '/';
}

static int remember(struct buf *dir, const char *path, size_t len)
{
	buf_clear(dir);
	buf_put(dir, path, len);
	return buf_error(dir);
}

/* Whether the directory of that path is a repository of its own: 1 or 0. */
static int is_own(struct files *f, const char *dir)
{
	_cleanup_buf_ struct buf inner = {0};
	struct stat st;
	const char *text;
	int r;

	buf_printf(&inner, "%s/.git", dir);
	text = buf_str(&inner);
	if (!text)
		return -ENOMEM;
	r = gitview_stat(&f->t->view, text, &st);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : S_ISDIR(st.st_mode) || S_ISREG(st.st_mode);
}

/* Whether a directory on the way to a path is one, or a submodule; f->own is
 * that directory then. */
static int find_own(struct files *f, const char *path)
{
	const struct gitentries *g = &f->t->index;
	size_t from = 0;

	if (is_below(&f->own, path))
		return 1;
	buf_clear(&f->own);
	if (is_below(&f->plain, path))
		from = f->plain.len + 1;
	for (const char *slash = strchr(path + from, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		const size_t len = (size_t)(slash - path);
		const struct gitentry *e = gitentries_find(g, path, len);
		int r = e && e->mode == GITMODE_LINK;

		if (!r && !gitentries_has_below(g, path, len)) {
			r = remember(&f->own, path, len);
			if (r == 0)
				r = is_own(f, buf_str(&f->own));
			if (r == 0)
				buf_clear(&f->own);
		}
		if (r > 0)
			r = remember(&f->own, path, len);
		else if (r == 0)
			r = remember(&f->plain, path, len);
		if (r < 0 || f->own.len)
			return r < 0 ? r : 1;
	}
	return 0;
}

static void name_one(struct files *f, const char *path, const char *what)
{
	if (f->named++ < NAMED_MAX)
		diag_add(f->t->notes, "%s: %s", path, what);
}

/* Finds the commit that the repository at a path is at. 1: it has none. */
static int find_commit(struct files *f, const char *path, git_oid *ret_id)
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	_cleanup_buf_ struct buf whole = {0};
	const char *text;

	buf_printf(&whole, "%s/%s", f->t->work->view, path);
	text = buf_str(&whole);
	if (!text)
		return -ENOMEM;
	return git_repository_open_ext(
		       &repo, text, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) < 0 ||
	       git_reference_name_to_id(ret_id, repo, "HEAD") < 0;
}

/* A directory that is a submodule (e) or a repository of its own. */
static int put_link(struct files *f, const char *path, const struct gitentry *e)
{
	git_oid id;
	int r = find_commit(f, path, &id);

	if (r < 0)
		return r;
	if (r) {
		if (!e)
			name_one(f, path,
				 "a repository without a commit: left out");
		return 0;
	}
	if (e && !memcmp(e->name, id.id, GITINDEX_NAME_BYTES))
		return 0;
	name_one(f, path,
		 e ? "a submodule at another commit: its commits stay there"
		   : "a repository of its own: only which commit it is at");
	return edit_add(f, path, GITMODE_LINK, &id);
}

/* --- files ---------------------------------------------------------------- */

static bool same_time(uint32_t sec, uint32_t nsec, const struct timespec *t)
{
	return sec == (uint32_t)t->tv_sec && nsec == (uint32_t)t->tv_nsec;
}

/* Whether git would take the file for unchanged, by its stat data alone. */
static bool is_unchanged(const struct gittip *t, const struct gitentry *e,
			 const struct stat *st)
{
	const struct timespec *written = &t->index_time;
	bool racy = st->st_mtim.tv_sec > written->tv_sec ||
		    (st->st_mtim.tv_sec == written->tv_sec &&
		     st->st_mtim.tv_nsec >= written->tv_nsec);

	if (e->stage || e->intent_to_add || racy || !e->st.ino ||
	    (e->mode & S_IFMT) != (st->st_mode & S_IFMT) ||
	    (S_ISREG(st->st_mode) && !t->no_file_mode &&
	     ((e->mode ^ st->st_mode) & S_IXUSR)))
		return false;
	return same_time(e->st.mtime_sec, e->st.mtime_nsec, &st->st_mtim) &&
	       same_time(e->st.ctime_sec, e->st.ctime_nsec, &st->st_ctim) &&
	       e->st.ino == (uint32_t)st->st_ino && e->st.uid == st->st_uid &&
	       e->st.gid == st->st_gid && e->st.size == (uint32_t)st->st_size;
}

/* Whether git has it: in the index, or where that cannot be read in HEAD. */
static int is_tracked(struct files *f, const char *path,
		      const struct gitentry *e)
{
	uint32_t mode;
	git_oid id;
	int r;

	if (e || !f->t->index_error)
		return e != NULL;
	r = treeedit_find(f->t->edit, path, &mode, &id);
	return r == -ENOENT ? 0 : r < 0 ? r : mode != GITMODE_TREE;
}

/* Whether an untracked path is left out: 1 or 0. */
static int is_left_out(struct files *f, const char *path, bool is_dir)
{
	if (f->t->tracked)
		return 1;
	return gitignore_check(f->t->ignore, path, is_dir);
}

static uint32_t mode_of(const struct files *f, const struct gitentry *e,
			const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		return GITMODE_SYMLINK;
	if (f->t->no_file_mode)
		return e && S_ISREG(e->mode) ? e->mode : GITMODE_FILE;
	return st->st_mode & S_IXUSR ? GITMODE_PROGRAM : GITMODE_FILE;
}

static int put_file(struct files *f, const char *path, const struct gitentry *e,
		    const struct stat *st)
{
	git_oid id;
	int r = is_tracked(f, path, e);

	if (r == 0) {
		r = is_left_out(f, path, false);
		if (r)
			return r < 0 ? r : 0;
		if (is_refused(path)) {
			name_one(f, path, "a name that git refuses: left out");
			return 0;
		}
	}
	if (r < 0 || (e && is_unchanged(f->t, e, st)))
		return r < 0 ? r : 0;
	r = gittip_intake(f->t, path, st->st_mode, &id);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* gone meanwhile */
	return edit_add(f, path, mode_of(f, e, st), &id);
}

static int put_dir(struct files *f, const char *path, const struct gitentry *e)
{
	int r = 0;

	if (e && e->mode == GITMODE_LINK)
		return put_link(f, path, e);
	if (!gitentries_has_below(&f->t->index, path, strlen(path)))
		r = is_own(f, path);
	if (r > 0)
		r = is_left_out(f, path, true) == 0;
	if (r > 0)
		return put_link(f, path, NULL);
	/* a directory in place of a file? */
	return r == 0 && e ? put_gone(f, path) : r;
}

static int look(struct files *f, const char *path)
{
	const struct gitentry *e =
		gitentries_find(&f->t->index, path, strlen(path));
	struct stat st;
	int r = gitview_stat(&f->t->view, path, &st);

	if (e && (e->skip_worktree || e->assume_unchanged)) {
		f->t->hidden += r == 0 && !is_unchanged(f->t, e, &st);
		return 0;
	}
	if (r == -ENOENT)
		return put_gone(f, path);
	if (r < 0)
		return diag_fail(f->t->odb.diag, r, "%s: %s", path,
				 err_text(r));
	if (S_ISDIR(st.st_mode))
		return put_dir(f, path, e);
	if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		return put_file(f, path, e, &st);
	f->t->special++;
	return put_gone(f, path);
}

static int look_at_all(struct files *f)
{
	_cleanup_buf_ struct buf last = {0};

	for (size_t i = 0; i < f->wanted.count; i++) {
		const char *path = f->paths[i];
		int r = find_own(f, path);

		if (r > 0) {
			path = buf_str(&f->own);
			if (!path)
				return -ENOMEM;
			if (last.data && last.len == f->own.len &&
			    !memcmp(last.data, path, last.len))
				continue; /* once is enough */
			r = remember(&last, path, f->own.len);
		}
		if (r == 0)
			r = look(f, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int apply(struct files *f)
{
	int r = 0;

	for (size_t i = 0; i < f->count && r == 0; i++)
		if (f->edits[i].gone)
			r = treeedit_remove(f->t->edit, f->edits[i].path);
	for (size_t i = 0; i < f->count && r == 0; i++)
		if (!f->edits[i].gone)
			r = treeedit_set(f->t->edit, f->edits[i].path,
					 f->edits[i].mode, &f->edits[i].id);
	return r;
}

static void note_counts(struct files *f)
{
	const struct gittip *t = f->t;

	if (f->named > NAMED_MAX)
		diag_add(t->notes, "and %zu more of these",
			 f->named - NAMED_MAX);
	if (t->special)
		diag_add(t->notes,
			 "left out: %llu that git has no form for (sockets, "
			 "pipes, devices)",
			 (unsigned long long)t->special);
	if (t->hidden)
		diag_add(t->notes,
			 "left as committed: %llu that git is told not to look "
			 "at (assume-unchanged, skip-worktree)",
			 (unsigned long long)t->hidden);
}

int gittip_files(struct gittip *t, git_oid *ret_tree)
{
	_cleanup_(files_fini) struct files f = {.t = t};
	int r = collect(&f);

	if (r == 0)
		r = look_at_all(&f);
	if (r == 0)
		r = apply(&f);
	if (r == 0)
		r = treeedit_write(t->edit, ret_tree);
	if (r == 0)
		note_counts(&f);
	return r;
}
