/* SPDX-License-Identifier: MIT */
/*
 * import_index.c - git's index gets the stat data that an environment shows.
 *
 * A file in an environment has another inode number, another ctime, and
 * mostly another owner's mount than it had in the origin, so git would take
 * every file for changed and read it. What a file will show follows from its
 * place in the tree: the number is its position, the ctime its mtime. So when
 * the whole tree is there, each index is read back from the store, its entries
 * are looked up, and it is stored anew with the trees above it.
 *
 * Which entries are unchanged? Those whose stat data fit the origin's file,
 * as git itself decides, when that file is the one that was taken. Files that
 * may have changed in the second in which the index was written (git calls
 * them racy), that do not fit, or whose times changed since, are compared by
 * the name of their content. What differs gets zeros, and the old size if that
 * tells already: git looks at it. So a copy of a repository (cp -a) gives the
 * same snapshot as the repository.
 *
 * git also takes a file for racy that is as young as the index itself, so the
 * index gets a time a second after its youngest entry where it has none. And
 * a change in an environment must not fall into the second of the entry, since
 * git compares seconds: the import of files that are as young waits it out.
 *
 * The work is remembered by the tree that it was done for: an import of what
 * did not change does none of it.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "git/index.h"

enum {
	WAIT_S = 2, /* for files from a clock that is ahead */
	INDEX_MAX_BYTES = 1 << 30,
	MODE_GITLINK = 0160000,
	NS_PER_S = 1000000000,
};

/* A directory of the work tree on the way to the entry at hand. */
struct level {
	struct import_tree tree;
	uint64_t position;
	size_t path_len; /* of its path in the work tree */
	int fd;		 /* the origin's, or -1 */
	bool asked;	 /* whether fd was opened */
};

struct work {
	struct importer *imp;
	struct level *levels;
	size_t count;
	size_t cap;
	struct buf path;    /* of the last level */
	int64_t index_sec;  /* when the origin's index was written */
	int64_t newest_sec; /* of the entries that are unchanged */
	int64_t newest_own; /* of those that no clock explains otherwise */
	int64_t now_sec;
};

/* --- the place of an entry ---------------------------------------------- */

static void level_drop(struct work *w)
{
	struct level *l = &w->levels[--w->count];

	buf_fini(&l->tree.bytes);
	attr_closep(&l->fd);
}

static void work_fini(struct work *w)
{
	while (w->count)
		level_drop(w);
	free(w->levels);
	buf_fini(&w->path);
}

static int level_push(struct work *w, const struct oid *id, uint64_t position,
		      int fd)
{
	struct level *l;
	int r;

	if (GROW(w->levels, w->count, w->cap, 16) < 0)
		return -ENOMEM;
	l = &w->levels[w->count++];
	*l = (struct level){.position = position,
			    .path_len = w->path.len,
			    .fd = fd,
			    .asked = fd >= 0};
	r = import_tree_get(w->imp, id, &l->tree);
	return r;
}

/* The origin's directory of a level; -1 when it is not there any more. */
static int level_fd(struct work *w, size_t i)
{
	struct level *l = &w->levels[i];
	char name[NAME_MAX + 1];
	size_t from, n;
	int above;

	if (l->asked || !i)
		return l->fd;
	l->asked = true;
	above = level_fd(w, i - 1);
	from = w->levels[i - 1].path_len;
	from += from > 0; /* the slash */
	n = l->path_len - from;
	if (above < 0 || n >= sizeof name)
		return -1;
	memcpy(name, w->path.data + from, n);
	name[n] = '\0';
	l->fd = openat(above, name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return l->fd;
}

/* Leaves the levels that are not on the way to path. */
static void levels_leave(struct work *w, const char *path, size_t len)
{
	while (w->count > 1) {
		const size_t n = w->levels[w->count - 1].path_len;

		if (n < len && path[n] == '/' && !memcmp(path, w->path.data, n))
			return;
		level_drop(w);
		w->path.len = w->levels[w->count - 1].path_len;
	}
}

/* Finds an entry of the index in the tree; start is its position. -ENOENT. */
static int find(struct work *w, const char *path, size_t len,
		struct tree_entry *ret_entry, const char **ret_name)
{
	levels_leave(w, path, len);
	for (;;) {
		struct level *top = &w->levels[w->count - 1];
		const size_t from = w->path.len + (w->path.len > 0);
		const char *name = path + from;
		const size_t n = from < len ? strcspn(name, "/") : 0;
		uint32_t i;
		int r = -ENOENT;

		if (n)
			r = tree_lookup(&top->tree.tree, name, n, &i);
		if (r < 0)
			return r;
		tree_entry_at(&top->tree.tree, i, ret_entry);
		ret_entry->start += top->position;
		*ret_name = name;
		if (!name[n])
			return 0;
		if (!S_ISDIR(ret_entry->mode))
			return -ENOENT;
		buf_clear(&w->path);
		buf_put(&w->path, path, from + n);
		r = buf_error(&w->path);
		if (r == 0)
			r = level_push(w, &ret_entry->content, ret_entry->start,
				       -1);
		if (r < 0)
			return r;
	}
}

/* --- is an entry unchanged ---------------------------------------------- */

/* Of values of 32 bits; nanoseconds that git did not note do not count. */
static bool same_time(uint32_t sec, uint32_t nsec, const struct timespec *t)
{
	return sec == (uint32_t)t->tv_sec &&
	       (!nsec || nsec == (uint32_t)t->tv_nsec);
}

/* Says whether git takes the origin's file for unchanged, and that file is
 * the one that was taken. */
static bool fits_origin(struct work *w, const struct gitindex_entry *e,
			const struct tree_entry *t, const char *name)
{
	const int fd = level_fd(w, w->count - 1);
	struct stat st;

	if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return st.st_mtim.tv_sec == t->mtime_sec &&
	       st.st_mtim.tv_nsec == t->mtime_nsec &&
	       (uint64_t)st.st_size == t->size &&
	       same_time(e->st.mtime_sec, e->st.mtime_nsec, &st.st_mtim) &&
	       same_time(e->st.ctime_sec, e->st.ctime_nsec, &st.st_ctim) &&
	       e->st.ino == (uint32_t)st.st_ino && e->st.uid == st.st_uid &&
	       e->st.gid == st.st_gid && e->st.size == (uint32_t)st.st_size &&
	       st.st_mtim.tv_sec < w->index_sec &&
	       st.st_ctim.tv_sec < w->index_sec;
}

/* The bytes of a file on their way into a name. */
struct naming {
	struct gitblob blob;
	bool cr; /* the last byte was one */
	bool crlf;
	bool nul;
	bool keyword;
};

static int add_bytes(void *ctx, const void *data, size_t len)
{
	static const char crlf[] = "\r\n", keyword[] = "$Id";
	struct naming *n = ctx;
	const char *s = data;

	gitblob_add(&n->blob, data, len);
	if (!len)
		return 0;
	n->crlf |= (n->cr && s[0] == '\n') || memmem(s, len, crlf, 2);
	n->nul |= memchr(s, 0, len) != NULL;
	n->keyword |= memmem(s, len, keyword, 3) != NULL;
	n->cr = s[len - 1] == '\r';
	return 0;
}

/* Text that git may change on its way into a blob: line ends, keywords. Equal
 * bytes do not say then that git finds the file unchanged. */
static bool is_convertible(const struct naming *n)
{
	return !n->nul && (n->crlf || n->keyword);
}

/* Says whether the content has the name that the index has: 1 or 0. */
static int fits_content(struct work *w, const struct gitindex_entry *e,
			const struct tree_entry *t)
{
	uint8_t name[GITINDEX_NAME_BYTES];
	struct naming n = {.cr = false};
	int r = 0;

	gitblob_begin(&n.blob, t->size);
	if (S_ISLNK(t->mode))
		gitblob_add(&n.blob, t->target, t->target_len);
	else
		r = import_content(w->imp, t, add_bytes, &n);
	gitblob_end(&n.blob, name);
	if (r < 0)
		return r;
	return !memcmp(name, e->name, sizeof name) && !is_convertible(&n);
}

static bool same_type(uint32_t index_mode, uint32_t mode)
{
	if (index_mode == MODE_GITLINK)
		return S_ISDIR(mode);
	return (S_ISREG(index_mode) && S_ISREG(mode)) ||
	       (S_ISLNK(index_mode) && S_ISLNK(mode));
}

/* --- patching ----------------------------------------------------------- */

static void fill(struct work *w, const struct tree_entry *t,
		 struct gitindex_stat *st)
{
	const uint64_t position = import_links_first(w->imp, t->start);

	*st = (struct gitindex_stat){
		.ctime_sec = (uint32_t)t->mtime_sec,
		.ctime_nsec = t->mtime_nsec,
		.mtime_sec = (uint32_t)t->mtime_sec,
		.mtime_nsec = t->mtime_nsec,
		.ino = (uint32_t)(position + 1),
		.uid = t->uid,
		.gid = t->gid,
		.size = S_ISDIR(t->mode) ? 0 : (uint32_t)t->size,
	};
	if (S_ISDIR(t->mode) || t->mtime_sec < 0)
		return; /* not compared; older than git can say */
	w->newest_sec = MAX(w->newest_sec, t->mtime_sec);
	if (t->mtime_sec <= w->now_sec + WAIT_S)
		w->newest_own = MAX(w->newest_own, t->mtime_sec);
}

static int patch_entry(void *ctx, const struct gitindex_entry *e,
		       struct gitindex_stat *ret_st)
{
	struct work *w = ctx;
	struct tree_entry t;
	const char *name;
	int r;

	if (e->stage || e->intent_to_add)
		return 0;
	r = find(w, e->path, e->path_len, &t, &name);
	if (r == -ENOENT)
		return 0; /* deleted, or not checked out */
	if (r < 0)
		return r;
	if (!same_type(e->mode, t.mode))
		return 0;
	if (e->mode != MODE_GITLINK && !fits_origin(w, e, &t, name)) {
		r = fits_content(w, e, &t);
		if (r == 0 && e->st.size != (uint32_t)t.size)
			ret_st->size = e->st.size; /* enough for git */
		if (r <= 0)
			return r;
	}
	fill(w, &t, ret_st);
	/* git compares the x bit, and no device: fs/git/standing.c does */
	if (S_ISREG(t.mode) && ((e->mode ^ t.mode) & S_IXUSR))
		ret_st->dev = 1;
	return 0;
}

/* Waits until the clock is past the second of the youngest entry. */
static void wait_past(int64_t sec)
{
	struct timespec now = clock_now();

	/* Not for ever: a clock may stand, or be set back. */
	for (int i = 0;
	     i < 2 * WAIT_S && sec >= now.tv_sec && sec <= now.tv_sec + WAIT_S;
	     i++) {
		const struct timespec pause = {
			.tv_nsec = NS_PER_S - now.tv_nsec - (now.tv_nsec == 0)};

		(void)nanosleep(&pause, NULL);
		now = clock_now();
	}
}

/* Says that an index stays as it is. */
static int leave(struct importer *imp, const char *path, const struct diag *why,
		 int err)
{
	const char *line = diag_line(why, 0);

	imp->told_index = true;
	diag_add(imp->notes,
		 "%s is left as it is (%s): the first git status in an "
		 "environment reads files",
		 path, line ? line : err_text(err));
	return 0;
}

/* Opens the work tree, and the origin's directory where that is there. */
static int work_begin(struct work *w, const struct oid *root, int root_fd,
		      const char *path)
{
	_cleanup_(import_tree_fini) struct import_tree tree = {.bytes = {0}};
	struct tree_entry e = {.content = *root};
	int fd;
	int r = 0;

	if (*path)
		r = import_graft_find(w->imp, root, path, &tree, &e);
	if (r < 0)
		return r;
	if (*path && !S_ISDIR(e.mode))
		return -ENOENT;
	fd = openat(root_fd, *path ? path : ".",
		    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	w->now_sec = clock_now().tv_sec;
	return level_push(w, &e.content, e.start, fd);
}

static int patch_repo(struct importer *imp, const struct import_repo *repo,
		      int root_fd, struct oid *root, int64_t *newest)
{
	_cleanup_(work_fini) struct work w = {.imp = imp};
	_cleanup_(import_tree_fini) struct import_tree tree = {.bytes = {0}};
	_cleanup_buf_ struct buf raw = {0}, made = {0};
	_cleanup_diag_ struct diag why = {0};
	struct tree_entry e;
	int r;

	r = import_graft_find(imp, root, repo->index, &tree, &e);
	if (r == -ENOENT || (r == 0 && !S_ISREG(e.mode)))
		return 0;
	if (r == 0)
		r = import_content_get(imp, &e, INDEX_MAX_BYTES, &raw);
	if (r == 0)
		r = work_begin(&w, root, root_fd, repo->work);
	if (r == -ENOENT)
		return 0; /* no work tree there */
	if (r < 0)
		return r;
	if (import_links_shared(imp, e.start)) {
		diag_add(&why, "it has several names");
		return leave(imp, repo->index, &why, 0);
	}
	w.index_sec = e.mtime_sec;
	r = gitindex_patch(raw.data, raw.len, patch_entry, &w, &why, &made);
	if (r == -EFSCORRUPTED || r == -EFSBADCRC || r == -EOPNOTSUPP)
		return leave(imp, repo->index, &why, r);
	if (r == 0)
		r = import_content_put(imp, made.data, made.len, &e);
	if (r < 0)
		return r;
	if (e.mtime_sec <= w.newest_sec) {
		e.mtime_sec = w.newest_sec + 1;
		e.mtime_nsec = 0;
	}
	*newest = MAX(*newest, w.newest_own);
	return import_graft(imp, root, repo->index, &e);
}

int import_indexes(struct importer *imp, int root_fd, struct oid *root)
{
	struct oid made = *root;
	int64_t newest = INT64_MIN;
	int r = 0;

	if (!imp->repo_count || import_memo_get(imp, root, root))
		return 0;
	for (size_t i = 0; i < imp->repo_count && r == 0; i++)
		r = patch_repo(imp, &imp->repos[i], root_fd, &made, &newest);
	if (r < 0)
		return r;
	if (newest != INT64_MIN)
		wait_past(newest);
	if (!imp->told_index)
		import_memo_set(imp, root, &made);
	*root = made;
	return 0;
}
