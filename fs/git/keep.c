/* SPDX-License-Identifier: MIT */
/*
 * keep.c - refs by libgit2, which knows loose and packed ones; the state of a
 * merge or rebase as the files that git keeps it in.
 *
 * A tip that a ref of the origin is at needs no keeping: the origin keeps it.
 * What is broken (a ref to an object that is missing) is told, and the rest is
 * kept: the store's part of the rescue has the bytes as they are.
 */
#include "git/keep_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/io.h"

enum { STATE_FILE_BYTES = 1 << 20, DEPTH_MAX = 4 };

struct seen {
	struct hnode node;
	git_oid id;
};

void gitkeep_fini(struct gitkeep *k)
{
	struct hmap_cursor c = {0};
	struct hnode *h;

	while ((h = hmap_each(&k->seen, &c)))
		free(container_of(h, struct seen, node));
	hmap_fini(&k->seen);
	buf_fini(&k->refs);
	free(TAKE_PTR(k->tips));
	treeedit_free(TAKE_PTR(k->edit));
}

static bool has_seen(const struct gitkeep *k, const git_oid *id)
{
	for (struct hnode *h = hmap_first(&k->seen, bytes_load_u64(id->id)); h;
	     h = hmap_next(h))
		if (git_oid_equal(&container_of(h, struct seen, node)->id, id))
			return true;
	return false;
}

static int see(struct gitkeep *k, const git_oid *id)
{
	struct seen *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->id = *id;
	r = hmap_insert(&k->seen, &s->node, bytes_load_u64(id->id));
	if (r < 0)
		free(s);
	return r;
}

/* --- tips ----------------------------------------------------------------- */

/* Calls back with each ref; one that is broken as NULL. By name, as one that
 * cannot be read must not hide those after it. */
typedef int (*ref_fn)(struct gitkeep *k, const char *name, git_reference *ref);
static int each_ref(struct gitkeep *k, git_repository *repo, ref_fn fn)
{
	git_reference_iterator *it = NULL;
	const char *name;
	int r = 0;

	if (git_reference_iterator_new(&it, repo) < 0)
		return fn(k, "refs", NULL);
	while (r == 0 && git_reference_next_name(&name, it) == 0) {
		_cleanup_git_reference_ git_reference *ref = NULL;

		if (git_reference_lookup(&ref, repo, name) < 0)
			ref = NULL;
		r = fn(k, name, ref);
	}
	git_reference_iterator_free(it);
	return r;
}

/* Marks where a ref of the origin is; a broken one keeps nothing. */
static int see_ref(struct gitkeep *k, const char *name, git_reference *ref)
{
	_cleanup_git_object_ git_object *commit = NULL;
	const git_oid *id = ref ? git_reference_target(ref) : NULL;
	int r;

	if (!id || has_seen(k, id))
		return 0;
	r = see(k, id);
	if (r == 0 && !strncmp(name, "refs/tags/", 10) &&
	    git_reference_peel(&commit, ref, GIT_OBJECT_COMMIT) == 0 &&
	    !has_seen(k, git_object_id(commit)))
		r = see(k, git_object_id(commit));
	return r;
}

static int add_tip(struct gitkeep *k, const git_oid *id)
{
	int r;

	if (has_seen(k, id))
		return 0;
	r = gitodb_copy(&k->tip->odb, id);
	if (r == 0)
		r = see(k, id);
	if (r < 0)
		return r;
	if (GROW(k->tips, k->tip_count, k->tip_cap, 16) < 0)
		return -ENOMEM;
	k->tips[k->tip_count++] = *id;
	return 0;
}

/* Puts bytes as a file of the state's tree. */
static int put_bytes(struct gitkeep *k, const char *path, const void *data,
		     size_t len)
{
	git_oid id;
	int r = gitodb_put(&k->tip->odb, GITPACK_BLOB, data, len, &id);

	return r < 0 ? r : treeedit_set(k->edit, path, GITMODE_FILE, &id);
}

static int put_printf(struct gitkeep *k, const void *data, size_t len,
		      const char *folder, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return put_bytes(k, path, data, len);
}

/* Keeps what an object's name leads to; name is that of its ref. */
static int keep(struct gitkeep *k, const char *name, const git_oid *id,
		git_oid *ret_peeled)
{
	_cleanup_git_odb_object_ git_odb_object *object = NULL;
	_cleanup_free_ char *path = NULL;
	int r = gitodb_read(&k->tip->odb, id, &object);

	*ret_peeled = *id;
	if (r < 0)
		return r;
	if (git_odb_object_type(object) == GIT_OBJECT_COMMIT)
		return add_tip(k, id);
	if (git_odb_object_type(object) == GIT_OBJECT_TAG) {
		_cleanup_git_object_ git_object *tag = NULL, *target = NULL;

		r = put_printf(k, git_odb_object_data(object),
			       git_odb_object_size(object), "tags", name);
		if (r < 0)
			return r;
		if (git_object_lookup(&tag, k->tip->odb.view, id,
				      GIT_OBJECT_TAG) < 0 ||
		    git_object_peel(&target, tag, GIT_OBJECT_ANY) < 0)
			return -EFSCORRUPTED;
		return keep(k, name, git_object_id(target), ret_peeled);
	}
	r = gitodb_copy(&k->tip->odb, id);
	if (r == 0 && asprintf(&path, "objects/%s", name) < 0) {
		path = NULL;
		r = -ENOMEM;
	}
	return r < 0 ? r
		     : treeedit_set(k->edit, path,
				    git_odb_object_type(object) ==
						    GIT_OBJECT_TREE
					    ? GITMODE_TREE
					    : GITMODE_FILE,
				    id);
}

/* What is broken is told; what fails otherwise ends it. */
static int soften(struct gitkeep *k, int err, const char *name)
{
	if (err != -EFSCORRUPTED && err != -ENOENT)
		return err;
	diag_add(k->tip->notes, "%s: what it leads to is damaged: left out",
		 name);
	return 0;
}

static int keep_ref(struct gitkeep *k, const char *name, git_reference *ref)
{
	char hex[GIT_OID_HEXSZ + 1];
	const git_oid *id = ref ? git_reference_target(ref) : NULL;
	git_oid peeled;
	int r = 0;

	if (!ref)
		return soften(k, -EFSCORRUPTED, name);
	if (!id) {
		buf_printf(&k->refs, "%s ref: %s\n", name,
			   git_reference_symbolic_target(ref));
		return 0;
	}
	peeled = *id;
	if (!has_seen(k, id))
		r = keep(k, name, id, &peeled);
	if (r < 0)
		return soften(k, r, name);
	buf_printf(&k->refs, "%s %s", name, git_oid_tostr(hex, sizeof hex, id));
	if (!git_oid_equal(id, &peeled))
		buf_printf(&k->refs, " %s",
			   git_oid_tostr(hex, sizeof hex, &peeled));
	buf_put_u8(&k->refs, '\n');
	return 0;
}

/* What a reflog names: all of it, or what the origin does not have. HEAD's came
 * from there and may name thousands of commits. */
static int keep_log(struct gitkeep *k, const char *ref, bool all)
{
	git_reflog *log = NULL;
	git_oid peeled;
	int r = 0;

	if (git_reflog_read(&log, k->tip->odb.view, ref) < 0)
		return 0;
	for (size_t i = 0; i < git_reflog_entrycount(log) && r == 0; i++) {
		const git_reflog_entry *e = git_reflog_entry_byindex(log, i);
		const git_oid *id = git_reflog_entry_id_new(e);

		if (!git_oid_is_zero(id) &&
		    (all || !gitodb_has(&k->tip->odb, id)))
			r = soften(k, keep(k, ref, id, &peeled), ref);
	}
	git_reflog_free(log);
	return r;
}

/* --- small files of .git -------------------------------------------------- */

static bool is_state_name(const char *name)
{
	static const char *const names[] = {
		"HEAD",		"MERGE_MSG",  "MERGE_MODE",   "MERGE_RR",
		"SQUASH_MSG",	"AUTO_MERGE", "sequencer",    "rebase-merge",
		"rebase-apply", "BISECT_LOG", "BISECT_START", "BISECT_TERMS",
		"BISECT_NAMES", "shallow"};
	const size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return n > 5 && !strcmp(name + n - 5, "_HEAD");
}

/* A file like MERGE_HEAD names commits, a line each. */
static int keep_named(struct gitkeep *k, const char *name, struct buf *bytes)
{
	const char *at = buf_str(bytes);
	const size_t n = strlen(name);
	git_oid id, peeled;
	int r = 0;

	if (n < 5 || strcmp(name + n - 5, "_HEAD") != 0)
		return 0;
	while (at && *at && r == 0) {
		if (strlen(at) >= GIT_OID_HEXSZ &&
		    git_oid_fromstrn(&id, at, GIT_OID_HEXSZ) == 0)
			r = soften(k, keep(k, name, &id, &peeled), name);
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return r;
}

static int keep_dir(struct gitkeep *k, const char *path, int depth);

static int keep_file(struct gitkeep *k, const char *path, const char *name,
		     int depth)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct stat st;
	int r = gitview_stat(&k->tip->view, path, &st);

	if (r == 0 && S_ISDIR(st.st_mode))
		return depth < DEPTH_MAX ? keep_dir(k, path, depth + 1) : 0;
	if (r == 0)
		r = gitview_read(&k->tip->view, path, STATE_FILE_BYTES, &bytes);
	if (r == -ENOENT || r == -EFBIG)
		return 0;
	if (r == 0)
		r = put_printf(k, bytes.data, bytes.len, "git",
			       path + strlen(".git/"));
	return r < 0 ? r : keep_named(k, name, &bytes);
}

/* Keeps the names of .git that are state, and all of a directory below. */
static int keep_dir(struct gitkeep *k, const char *path, int depth)
{
	_cleanup_free_ char *below = NULL;
	const struct dirent *e;
	const char *name;
	DIR *dir = NULL;
	int up, r;

	r = gitview_parent(&k->tip->view, path, &up, &name);
	if (r == 0)
		r = io_open_names(up, name, O_NOFOLLOW, &dir);
	if (r != 0)
		return r == -ENOENT ? 0 : r;
	while (r == 0 && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (!depth && !is_state_name(e->d_name)))
			continue;
		free(TAKE_PTR(below));
		if (asprintf(&below, "%s/%s", path, e->d_name) < 0) {
			below = NULL;
			r = -ENOMEM;
		} else {
			r = keep_file(k, below, e->d_name, depth);
		}
	}
	(void)closedir(dir);
	return r;
}

int gitkeep_collect(struct gitkeep *k)
{
	git_repository *repo = k->tip->odb.view;
	int r = treeedit_new(&k->tip->odb, NULL, &k->edit);

	if (r == 0)
		r = each_ref(k, k->tip->odb.origin, see_ref);
	if (r < 0)
		return r;
	if (git_reference_name_to_id(&k->head, repo, "HEAD") == 0) {
		r = gitodb_copy(&k->tip->odb, &k->head);
		k->has_head = r == 0;
		if (r == 0 && !has_seen(k, &k->head))
			r = see(k, &k->head);
		r = soften(k, r, "HEAD");
	}
	if (r == 0)
		r = each_ref(k, repo, keep_ref);
	if (r == 0)
		r = keep_log(k, "refs/stash", true);
	if (r == 0)
		r = keep_log(k, "HEAD", false);
	if (r == 0)
		r = keep_dir(k, ".git", 0);
	if (r == 0)
		r = keep_file(k, ".git/logs/refs/stash", "stash", 0);
	return r;
}

int gitkeep_tree(struct gitkeep *k, const git_oid *staged, git_oid *ret_tree)
{
	const struct buf *raw = &k->tip->index.raw;
	int r = put_bytes(k, "refs", k->refs.data, k->refs.len);

	if (r == 0 && raw->len)
		r = put_bytes(k, "index.raw", raw->data, raw->len);
	if (r == 0)
		r = treeedit_set(k->edit, "index", GITMODE_TREE, staged);
	return r < 0 ? r : treeedit_write(k->edit, ret_tree);
}
