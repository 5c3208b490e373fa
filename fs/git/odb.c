/* SPDX-License-Identifier: MIT */
/*
 * odb.c - objects are copied by what leads to them, and a way ends at what the
 * origin has: it has then what that leads to as well.
 *
 * What it has may be on its way out: nothing led there, and a gc that has begun
 * deletes it. git's rule is to make such an object young again, as gc spares
 * what is younger than two weeks; so its file's time is set, or that of the
 * packs when it is in one. What is new lies in a pack that gc leaves alone
 * (pack.c). Nothing protects from gc --prune=now but being quick; git says the
 * same of itself.
 *
 * libgit2 looks for an object that it does not know in packs that came
 * meanwhile, at each question. Most questions are for new objects, so that is
 * done once, at the beginning.
 */
#include "git/odb_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/io.h"
#include "git/entries_int.h"

enum {
	TREE_DEPTH = 2048,
	YOUNG_SEC = 24 * 3600,
	MODE_DIGITS = 7,
	CHECK_BYTES = 64 << 20
};

struct met {
	struct hnode node;
	git_oid id;
};

/* --- opening -------------------------------------------------------------- */

static bool is_partial(git_repository *repo)
{
	git_config *config = NULL;
	git_config_entry *e = NULL;
	bool found = git_repository_config_snapshot(&config, repo) == 0 &&
		     git_config_get_entry(&e, config,
					  "extensions.partialclone") == 0;

	git_config_entry_free(e);
	git_config_free(config);
	return found;
}

/* Has libgit2 look for the files where we mount, and not where a config says
 * that they are. (1.5 leaks the path when it is told what it knows.) */
static int use_workdir(git_repository *repo, const char *path)
{
	const char *now = git_repository_workdir(repo);
	struct stat a, b;

	if (now && stat(now, &a) == 0 && stat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return 0;
	return git_repository_set_workdir(repo, path, 0);
}

static int open_both(struct gitodb *o, const char *origin, const char *view)
{
	int r = gitlib_start(o->diag);

	if (r < 0)
		return r;
	/* before a repository is opened: it asks then */
	(void)git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, 1);
	r = gitlib_open(origin, o->diag, &o->origin);
	if (r < 0)
		return r;
	r = gitlib_open(view, o->diag, &o->view);
	if (r < 0)
		return r;
	r = use_workdir(o->view, view);
	if (r == 0)
		r = git_repository_odb(&o->there, o->origin);
	if (r == 0)
		r = git_repository_odb(&o->here, o->view);
	return r < 0 ? gitlib_fail(o->diag, r, origin) : 0;
}

int gitodb_open(struct gitodb *o, const char *origin, const char *view,
		struct diag *diag)
{
	int r;

	*o = (struct gitodb){.diag = diag};
	r = open_both(o, origin, view);
	if (r < 0)
		return r;
	if (asprintf(&o->objects, "%sobjects",
		     git_repository_commondir(o->origin)) < 0)
		return -ENOMEM;
	o->partial = is_partial(o->view);
	return gitpack_begin(o->objects, diag, &o->pack);
}

void gitodb_close(struct gitodb *o)
{
	struct hmap_cursor c = {0};
	struct hnode *h;

	gitpack_free(TAKE_PTR(o->pack));
	gitpack_free(TAKE_PTR(o->before));
	while ((h = hmap_each(&o->met, &c)))
		free(container_of(h, struct met, node));
	hmap_fini(&o->met);
	git_odb_free(TAKE_PTR(o->there));
	git_odb_free(TAKE_PTR(o->here));
	git_repository_free(TAKE_PTR(o->origin));
	git_repository_free(TAKE_PTR(o->view));
	free(TAKE_PTR(o->objects));
}

/* --- what the origin has -------------------------------------------------- */

static uint64_t hash_of(const git_oid *id)
{
	return bytes_load_u64(id->id);
}

static bool has_met(const struct gitodb *o, const git_oid *id)
{
	for (struct hnode *h = hmap_first(&o->met, hash_of(id)); h;
	     h = hmap_next(h))
		if (git_oid_equal(&container_of(h, struct met, node)->id, id))
			return true;
	return false;
}

/* Notes that the origin has it; that this fails costs a second look. */
static void meet(struct gitodb *o, const git_oid *id)
{
	struct met *m = calloc(1, sizeof *m);

	if (!m)
		return;
	m->id = *id;
	if (hmap_insert(&o->met, &m->node, hash_of(id)) < 0)
		free(m);
}

/* Makes it young; it may lie in an alternate, which gc does not touch. */
static void freshen(struct gitodb *o, const git_oid *id)
{
	_cleanup_free_ char *path = NULL;
	char hex[GIT_OID_HEXSZ + 1];

	git_oid_tostr(hex, sizeof hex, id);
	if (asprintf(&path, "%s/%.2s/%s", o->objects, hex, hex + 2) < 0)
		path = NULL;
	if (!path || utimensat(AT_FDCWD, path, NULL, 0) < 0)
		o->touch_packs = true;
}

bool gitodb_has(struct gitodb *o, const git_oid *id)
{
	if (gitpack_has(o->pack, id->id) || has_met(o, id))
		return true;
	if (!git_odb_exists_ext(o->there, id, GIT_ODB_LOOKUP_NO_REFRESH))
		return false;
	meet(o, id);
	freshen(o, id);
	return true;
}

int gitodb_read(struct gitodb *o, const git_oid *id,
		git_odb_object **ret_object)
{
	int r = GIT_ENOTFOUND;

	if (git_odb_exists_ext(o->there, id, GIT_ODB_LOOKUP_NO_REFRESH))
		r = git_odb_read(ret_object, o->there, id);
	if (r < 0)
		r = git_odb_read(ret_object, o->here, id);
	if (r == GIT_ENOTFOUND)
		return -ENOENT;
	if (r < 0) {
		char hex[GIT_OID_HEXSZ + 1];

		git_oid_tostr(hex, sizeof hex, id);
		(void)gitlib_fail(o->diag, r, hex);
		return -EFSCORRUPTED;
	}
	return 0;
}

int gitodb_put(struct gitodb *o, enum gitpack_type type, const void *data,
	       size_t len, git_oid *ret_id)
{
	gitpack_name(type, data, len, ret_id->id);
	if (gitodb_has(o, ret_id))
		return 0;
	return gitpack_put(o->pack, type, data, len, ret_id->id);
}

/* --- copying -------------------------------------------------------------- */

int gittree_next(const uint8_t **at, const uint8_t *end,
		 struct gittree_item *ret_item)
{
	const uint8_t *p = *at, *nul;
	uint32_t mode = 0;
	int digits = 0;

	if (p == end)
		return 0;
	for (; p < end && *p >= '0' && *p <= '7' && digits < MODE_DIGITS; p++) {
		mode = mode << 3 | (uint32_t)(*p - '0');
		digits++;
	}
	if (!digits || p == end || *p++ != ' ')
		return -EFSCORRUPTED;
	nul = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
	if (!nul || nul == p || end - nul - 1 < GIT_OID_RAWSZ)
		return -EFSCORRUPTED;
	ret_item->name = (const char *)p;
	ret_item->name_len = (size_t)(nul - p);
	ret_item->mode = mode;
	git_oid_fromraw(&ret_item->id, nul + 1);
	*at = nul + 1 + GIT_OID_RAWSZ;
	return 1;
}

static int fail_object(struct gitodb *o, const git_oid *id, int err)
{
	char hex[GIT_OID_HEXSZ + 1];

	git_oid_tostr(hex, sizeof hex, id);
	diag_add(o->diag, "object %s of the environment is %s", hex,
		 err == -ENOENT ? "missing" : "damaged");
	return -EFSCORRUPTED;
}

static int put_object(struct gitodb *o, const git_oid *id,
		      git_odb_object *object)
{
	return gitpack_put(o->pack,
			   (enum gitpack_type)git_odb_object_type(object),
			   git_odb_object_data(object),
			   git_odb_object_size(object), id->id);
}

static int copy_tree(struct gitodb *o, const git_oid *id, unsigned depth);

/* A tree or a blob. */
static int copy_item(struct gitodb *o, const git_oid *id, bool is_tree,
		     unsigned depth)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	int r;

	if (gitodb_has(o, id))
		return 0;
	if (is_tree)
		return copy_tree(o, id, depth);
	r = gitodb_read(o, id, &object);
	if (r == -ENOENT && o->partial)
		return 0;
	if (r < 0)
		return fail_object(o, id, r);
	return put_object(o, id, object);
}

static int copy_tree(struct gitodb *o, const git_oid *id, unsigned depth)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	const uint8_t *at, *end;
	struct gittree_item item;
	int r = depth < TREE_DEPTH ? gitodb_read(o, id, &object)
				   : -EFSCORRUPTED;

	if (r == -ENOENT && o->partial)
		return 0;
	if (r < 0)
		return fail_object(o, id, r);
	at = git_odb_object_data(object);
	end = at + git_odb_object_size(object);
	while ((r = gittree_next(&at, end, &item)) > 0) {
		if (item.mode == GITMODE_LINK)
			continue;
		r = copy_item(o, &item.id, item.mode == GITMODE_TREE,
			      depth + 1);
		if (r < 0)
			return r;
	}
	return r < 0 ? fail_object(o, id, r) : put_object(o, id, object);
}

/* Takes the name after a word at the beginning of a line. */
static bool take_line(const char **at, const char *end, const char *word,
		      git_oid *ret_id)
{
	const size_t n = strlen(word);
	const char *p = *at;

	if ((size_t)(end - p) < n + GIT_OID_HEXSZ + 1 ||
	    memcmp(p, word, n) != 0 ||
	    git_oid_fromstrn(ret_id, p + n, GIT_OID_HEXSZ) < 0 ||
	    p[n + GIT_OID_HEXSZ] != '\n')
		return false;
	*at = p + n + GIT_OID_HEXSZ + 1;
	return true;
}

/* Commits and tags that are to be looked at. */
struct queue {
	git_oid *ids;
	size_t count, cap;
};

static void queue_fini(struct queue *q)
{
	free(q->ids);
}

static int queue_add(struct queue *q, const git_oid *id)
{
	if (GROW(q->ids, q->count, q->cap, 64) < 0)
		return -ENOMEM;
	q->ids[q->count++] = *id;
	return 0;
}

static int copy_commit(struct gitodb *o, struct queue *q, const git_oid *id,
		       git_odb_object *object)
{
	const char *at = git_odb_object_data(object);
	const char *end = at + git_odb_object_size(object);
	git_oid other;
	int r;

	if (!take_line(&at, end, "tree ", &other))
		return fail_object(o, id, -EFSCORRUPTED);
	r = copy_item(o, &other, true, 0);
	while (r == 0 && take_line(&at, end, "parent ", &other))
		r = queue_add(q, &other);
	o->commits++;
	return r < 0 ? r : put_object(o, id, object);
}

static int copy_tag(struct gitodb *o, struct queue *q, const git_oid *id,
		    git_odb_object *object)
{
	const char *at = git_odb_object_data(object);
	const char *end = at + git_odb_object_size(object);
	git_oid other;
	int r;

	if (!take_line(&at, end, "object ", &other))
		return fail_object(o, id, -EFSCORRUPTED);
	r = queue_add(q, &other);
	return r < 0 ? r : put_object(o, id, object);
}

static int copy_any(struct gitodb *o, struct queue *q, const git_oid *id)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	int r;

	if (gitodb_has(o, id))
		return 0;
	r = gitodb_read(o, id, &object);
	if (r < 0)
		return fail_object(o, id, r);
	switch (git_odb_object_type(object)) {
	case GIT_OBJECT_COMMIT:
		return copy_commit(o, q, id, object);
	case GIT_OBJECT_TAG:
		return copy_tag(o, q, id, object);
	case GIT_OBJECT_TREE:
		return copy_item(o, id, true, 0);
	default:
		return put_object(o, id, object);
	}
}

int gitodb_copy(struct gitodb *o, const git_oid *id)
{
	_cleanup_(queue_fini) struct queue q = {.count = 0};
	int r = queue_add(&q, id);

	while (r == 0 && q.count) {
		const git_oid next = q.ids[--q.count];

		r = copy_any(o, &q, &next);
	}
	return r;
}

/* --- the end -------------------------------------------------------------- */

/* Makes packs young that are older than a day: gc counts in weeks. */
static void freshen_packs(struct gitodb *o)
{
	_cleanup_free_ char *path = NULL;
	const int64_t now = clock_now().tv_sec;
	const struct dirent *e;
	struct stat st;
	DIR *dir;

	if (asprintf(&path, "%s/pack", o->objects) < 0) {
		path = NULL;
		return;
	}
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		const char *dot = strrchr(e->d_name, '.');

		if (dot && !strcmp(dot, ".pack") &&
		    fstatat(dirfd(dir), e->d_name, &st, 0) == 0 &&
		    st.st_mtim.tv_sec < now - YOUNG_SEC)
			(void)utimensat(dirfd(dir), e->d_name, NULL, 0);
	}
	if (dir)
		(void)closedir(dir);
}

int gitodb_finish(struct gitodb *o)
{
	int r = gitpack_finish(o->pack);

	if (r < 0)
		return r;
	if (o->touch_packs)
		freshen_packs(o);
	r = git_odb_refresh(o->there);
	return r < 0 ? gitlib_fail(o->diag, r, o->objects) : 0;
}

/* Reads one object as the origin has it; libgit2 makes its name anew. */
static int check_object(void *ctx, const uint8_t *name)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	struct gitodb *o = ctx;
	git_object_t type;
	size_t size;
	git_oid id;
	int r;

	git_oid_fromraw(&id, name);
	r = git_odb_read_header(&size, &type, o->there, &id);
	if (r == 0 && size <= CHECK_BYTES)
		r = git_odb_read(&object, o->there, &id);
	return r < 0 ? gitlib_fail(o->diag, r, "what was written") : 0;
}

int gitodb_finish_first(struct gitodb *o)
{
	int r = gitodb_finish(o);

	if (r < 0)
		return r;
	o->before = TAKE_PTR(o->pack);
	return gitpack_begin(o->objects, o->diag, &o->pack);
}

int gitodb_verify(struct gitodb *o)
{
	int r = o->before ? gitpack_each(o->before, check_object, o) : 0;

	return r ? r : gitpack_each(o->pack, check_object, o);
}

void gitodb_release(struct gitodb *o)
{
	if (o->before)
		gitpack_release(o->before);
	gitpack_release(o->pack);
}
