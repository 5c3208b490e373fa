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

static int refs_once(struct importer *imp, int fd, struct import_set *set)
{
	struct stat st;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(ref_names); i++) {
		struct import_name name = {.name = ref_names[i],
					   .type = DT_UNKNOWN};
		struct import_item *old = import_set_find(set, name.name);

		if (old)
			import_set_drop(imp, set, old);
		if (fstatat(fd, name.name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		    errno == ENOENT)
			continue;
		r = import_set_entry(imp, set, fd, &name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int refs_read(struct importer *imp, int fd, struct import_set *set)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t locks = imp->locks.count;
	struct watch before, after;
	int r;

	for (int i = 0; i < IMPORT_GIT_TRIES; i++) {
		uint64_t gone = imp->gone;

		imp->locks.count = locks; /* each pass meets them again */
		watch_read(fd, &before);
		r = refs_once(imp, fd, set);
		if (r < 0)
			return r;
		watch_read(fd, &after);
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

/* Takes what comes before the objects: the early names, then the others. */
static int names_read(struct importer *imp, int fd,
		      const struct import_list *list, struct import_set *set)
{
	int r;

	for (int early = 1; early >= 0; early--) {
		for (size_t i = 0; i < list->count; i++) {
			const struct import_name *n = &list->names[i];

			if (is_ref_name(n->name) ||
			    !strcmp(n->name, "objects") ||
			    is_early(n->name) != early)
				continue;
			r = import_set_entry(imp, set, fd, n);
			if (r < 0)
				return r;
		}
	}
	return 0;
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

int import_gitdir(struct importer *imp, int fd, const struct import_list *list,
		  const struct stat *st, struct tree_entry *e)
{
	_cleanup_(import_set_fini) struct import_set set = {
		.items = {.count = 0}};
	int r;

	r = refs_read(imp, fd, &set);
	if (r < 0)
		return r;
	r = names_read(imp, fd, list, &set);
	if (r < 0)
		return r;
	r = objects_read(imp, fd, &set);
	if (r < 0)
		return r;
	return import_set_put_tree(imp, &set, st, e);
}
