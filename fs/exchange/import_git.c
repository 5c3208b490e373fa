/* SPDX-License-Identifier: MIT */
/*
 * import_git.c - a live repository of git.
 *
 * git writes objects before what names them, and moves objects only from loose
 * files into packs and from packs into newer packs. So when refs, HEAD, index
 * and reflogs are read first and objects after them, every name in the
 * snapshot has its object, whatever runs meanwhile:
 *
 *   1. HEAD, refs, packed-refs, reftable; again until nothing vanished and the
 *      files that stand for many refs stayed the same. (git pack-refs writes
 *      packed-refs, then deletes the loose ones: in this order a ref that is
 *      packed meanwhile is read in one place or the other.)
 *   2. other heads, index, reflogs
 *   3. everything else but objects; work trees have heads and an index there,
 *      submodules whole repositories
 *   4. objects, see import_gitodb.c
 *
 * A linked work tree has HEAD, index and the state of a merge or rebase alone,
 * and shares all else; here both become one repository. The places of the
 * other work trees are left out: they are the origin's.
 *
 * A directory that holds HEAD, refs and objects is a repository, wherever it
 * lies. Locks and half-written files are left out only below a .git: their
 * writer is not part of the snapshot, and a lock that nobody releases makes
 * the copy unusable.
 */
#include "exchange/import_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/err.h"

static const char *const ref_names[] = {"HEAD", "refs", "packed-refs",
					"reftable"};
/* A change of one of these means that refs moved from file to file. */
static const char *const watched_names[] = {"HEAD", "packed-refs", "reftable",
					    "reftable/tables.list"};

struct watch {
	struct stat st[ARRAY_SIZE(watched_names)];
};

bool import_is_gitdir(const struct import_list *l)
{
	return import_list_find(l, "HEAD") && import_list_find(l, "objects") &&
	       import_list_find(l, "refs");
}

static bool has_prefix(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name);
	size_t m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

bool import_is_git_lock(const char *name, bool is_dir)
{
	if (is_dir) /* where a push waits for its hooks */
		return has_prefix(name, "tmp_objdir-");
	return has_suffix(name, ".lock") || !strcmp(name, "gc.pid") ||
	       has_prefix(name, "tmp_obj_") || has_prefix(name, "tmp_pack_") ||
	       has_prefix(name, "tmp_idx_") || has_prefix(name, "tmp_rev_") ||
	       has_prefix(name, "tmp_mtimes_") ||
	       (has_prefix(name, ".tmp-") && strstr(name, "-pack"));
}

static void watch_read(int fd, struct watch *w)
{
	memset(w, 0, sizeof *w);
	for (size_t i = 0; i < ARRAY_SIZE(watched_names); i++)
		if (fstatat(fd, watched_names[i], &w->st[i],
			    AT_SYMLINK_NOFOLLOW) < 0)
			memset(&w->st[i], 0, sizeof w->st[i]);
}

static bool watch_same(const struct watch *a, const struct watch *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(watched_names); i++) {
		const struct stat *x = &a->st[i];
		const struct stat *y = &b->st[i];

		if (x->st_ino != y->st_ino || x->st_size != y->st_size ||
		    x->st_mtim.tv_sec != y->st_mtim.tv_sec ||
		    x->st_mtim.tv_nsec != y->st_mtim.tv_nsec)
			return false;
	}
	return true;
}

/* What of a shared directory a linked work tree has alone. */
static const struct {
	const char *folder;
	const char *names[3];
} own_names[] = {
	{"refs", {"bisect", "worktree", "rewritten"}},
	{"logs", {"HEAD"}},
	{"info", {"sparse-checkout"}},
};

static bool is_own_name(size_t folder, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_names[folder].names); i++)
		if (own_names[folder].names[i] &&
		    !strcmp(own_names[folder].names[i], name))
			return true;
	return false;
}

/* Takes those names of a directory that are a linked work tree's, or those
 * that are not. */
static int half_read(struct importer *imp, int fd, size_t folder, bool own,
		     struct import_set *set)
{
	_cleanup_import_list_ struct import_list list = {.count = 0};
	struct stat st;
	int r = import_list(imp, fd, &st, &list);

	for (size_t i = 0; i < list.count && r >= 0; i++)
		if (is_own_name(folder, list.names[i].name) == own)
			r = import_set_entry(imp, set, fd, &list.names[i]);
	return r < 0 ? import_settle(imp, r) : 0;
}

/* Takes a directory that is shared but for some names. */
static int merged_read(struct importer *imp, const struct import_gitdir *g,
		       size_t folder, struct import_set *set)
{
	_cleanup_(import_set_fini) struct import_set in = {.items = {0}};
	const char *name = own_names[folder].folder;
	struct import_node node = {.link_begin = 0};
	_cleanup_close_ int shared = -1, own = -1;
	const size_t path_len = import_path_push(imp, name);
	struct stat st;
	int r = 0;

	shared = import_openat(imp, g->fd, name, O_RDONLY | O_DIRECTORY);
	own = import_openat(imp, g->own, name, O_RDONLY | O_DIRECTORY);
	if (shared >= 0)
		r = half_read(imp, shared, folder, false, &in);
	if (r == 0 && own >= 0)
		r = half_read(imp, own, folder, true, &in);
	if (r < 0)
		return r;
	import_path_pop(imp, path_len);
	if (fstat(shared >= 0 ? shared : own, &st) < 0)
		return 0; /* there is neither */
	node.link_begin = imp->member_count;
	r = import_set_put_tree(imp, &in, &st, &node.e);
	node.link_end = imp->member_count;
	return r < 0 ? r : import_set_put(imp, set, name, &node);
}

static bool is_merged(const char *name, size_t *ret_folder)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++) {
		*ret_folder = i;
		if (!strcmp(own_names[i].folder, name))
			return true;
	}
	return false;
}

/* --- refs ------------------------------------------------------------------
 */

static int ref_read(struct importer *imp, const struct import_gitdir *g,
		    const char *which, struct import_set *set)
{
	const struct import_name name = {.name = which, .type = DT_UNKNOWN};
	int fd = g->fd;
	struct stat st;
	size_t folder;

	if (g->own >= 0 && is_merged(which, &folder))
		return merged_read(imp, g, folder, set);
	if (g->own >= 0 && !strcmp(which, "HEAD"))
		fd = g->own;
	if (fstatat(fd, which, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return 0;
	return import_set_entry(imp, set, fd, &name);
}

static int refs_once(struct importer *imp, const struct import_gitdir *g,
		     struct import_set *set)
{
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(ref_names); i++) {
		struct import_item *old = import_set_find(set, ref_names[i]);

		if (old)
			import_set_drop(imp, set, old);
		r = ref_read(imp, g, ref_names[i], set);
		if (r < 0)
			return r;
	}
	return 0;
}

static int refs_read(struct importer *imp, const struct import_gitdir *g,
		     struct import_set *set)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t locks = imp->locks.count;
	struct watch before, after;
	int r;

	for (int i = 0; i < IMPORT_GIT_TRIES; i++) {
		uint64_t gone = imp->gone;

		imp->locks.count = locks; /* each pass meets them again */
		watch_read(g->fd, &before);
		r = refs_once(imp, g, set);
		if (r < 0)
			return r;
		watch_read(g->fd, &after);
		if (imp->gone == gone && watch_same(&before, &after))
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return diag_fail(imp->diag, -EBUSY,
			 "%s: the repository does not settle: its refs keep "
			 "moving",
			 import_path(imp));
}

static bool is_ref_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ref_names); i++)
		if (!strcmp(name, ref_names[i]))
			return true;
	return false;
}

static bool is_early(const char *name)
{
	return has_suffix(name, "_HEAD") || has_prefix(name, "index") ||
	       has_prefix(name, "sharedindex.") || !strcmp(name, "logs");
}

/* What a linked work tree shares, as gitrepository-layout(5) has it. */
static bool is_shared(const char *name)
{
	static const char *const names[] = {
		"branches",   "common",	 "config",   "description",
		"hooks",      "info",	 "lfs",	     "logs",
		"lost-found", "remotes", "rr-cache", "shallow",
		"svn",	      "objects", "refs",     "packed-refs"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* What leads from a work tree to its repository, or the other way. */
static bool is_way(const char *name)
{
	return !strcmp(name, "commondir") || !strcmp(name, "gitdir") ||
	       !strcmp(name, "locked");
}

/* Counts the work trees of the origin, by their places. */
static int leave_linked(struct importer *imp, int fd, const char *name)
{
	_cleanup_import_list_ struct import_list list = {.count = 0};
	_cleanup_close_ int dir =
		import_openat(imp, fd, name, O_RDONLY | O_DIRECTORY);
	const size_t path_len = import_path_push(imp, name);
	struct stat st;
	int r = 0;

	if (dir >= 0)
		r = import_list(imp, dir, &st, &list);
	for (size_t i = 0; i < list.count; i++)
		import_left_out(imp, &imp->linked);
	import_path_pop(imp, path_len);
	return r;
}

static int name_read(struct importer *imp, const struct import_gitdir *g,
		     bool own, const struct import_name *n,
		     struct import_set *set)
{
	size_t folder;

	if (imp->in_git && !strcmp(n->name, "worktrees"))
		return g->own >= 0 ? 0 : leave_linked(imp, g->fd, n->name);
	if (g->own < 0)
		return import_set_entry(imp, set, g->fd, n);
	if (is_merged(n->name, &folder))
		return own ? 0 : merged_read(imp, g, folder, set);
	if (is_shared(n->name) == own || (own && is_way(n->name)))
		return 0;
	return import_set_entry(imp, set, own ? g->own : g->fd, n);
}

/* Takes what comes before the objects: the early names, then the others. */
static int names_read(struct importer *imp, const struct import_gitdir *g,
		      bool own, const struct import_list *list,
		      struct import_set *set)
{
	int r;

	for (int early = 1; early >= 0; early--) {
		for (size_t i = 0; i < list->count; i++) {
			const struct import_name *n = &list->names[i];

			if (is_ref_name(n->name) ||
			    !strcmp(n->name, "objects") ||
			    is_early(n->name) != early)
				continue;
			r = name_read(imp, g, own, n, set);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* Takes what a linked work tree has alone. */
static int own_read(struct importer *imp, const struct import_gitdir *g,
		    struct import_set *set)
{
	_cleanup_import_list_ struct import_list list = {.count = 0};
	struct stat st;
	int r;

	if (g->own < 0)
		return 0;
	r = import_list(imp, g->own, &st, &list);
	return r < 0 ? r : names_read(imp, g, true, &list, set);
}

static int objects_read(struct importer *imp, int fd, struct import_set *set)
{
	struct import_name name = {.name = "objects", .type = DT_UNKNOWN};
	struct import_node node = {.link_begin = imp->member_count};
	size_t path_len = import_path_push(imp, name.name);
	int r = IMPORT_LEFT_OUT;

	if (!import_excluded(imp, name.name, true))
		r = import_gitodb(imp, fd, &node);
	if (r < 0)
		return r;
	import_path_pop(imp, path_len);
	node.link_end = imp->member_count;
	if (r == IMPORT_TAKEN)
		return import_set_put(imp, set, name.name, &node);
	if (r == IMPORT_RETYPED) /* a symlink, perhaps */
		return import_set_entry(imp, set, fd, &name);
	return r;
}

int import_gitdir(struct importer *imp, const struct import_gitdir *where,
		  const struct import_list *list, const struct stat *st,
		  struct tree_entry *e)
{
	_cleanup_(import_set_fini) struct import_set set = {
		.items = {.count = 0}};
	int r;

	r = refs_read(imp, where, &set);
	if (r == 0)
		r = own_read(imp, where, &set);
	if (r == 0)
		r = names_read(imp, where, false, list, &set);
	if (r == 0 && imp->in_git)
		r = import_gitconfig(imp, where, &set);
	if (r == 0 && imp->in_git)
		r = import_githead(imp, where, &set);
	if (r >= 0)
		r = objects_read(imp, where->fd, &set);
	if (r < 0)
		return r;
	return import_set_put_tree(imp, &set, st, e);
}
