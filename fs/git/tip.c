/* SPDX-License-Identifier: MIT */
/*
 * tip.c - the environment is opened, and its index becomes a tree.
 *
 * An index has a cache of the trees of its directories. Where that is valid
 * for a directory nothing below is looked at; elsewhere entries become nodes
 * of a tree that is built anew. So an index in which a hundred files were
 * staged costs as many directories, and one without a cache all of them, but
 * no file.
 */
#include "git/tip_int.h"

#include <string.h>

#include "base/err.h"

enum { INDEX_BYTES = 1 << 30 };

/* --- opening -------------------------------------------------------------- */

static void read_file_mode(struct gittip *t)
{
	git_config *config = NULL;
	int has = 1;

	if (git_repository_config_snapshot(&config, t->odb.view) < 0)
		return;
	if (git_config_get_bool(&has, config, "core.filemode") == 0)
		t->no_file_mode = !has;
	git_config_free(config);
}

static int read_index(struct gittip *t, struct diag *why)
{
	static const char name[] = ".git/index";
	struct stat st;
	int r = gitview_stat(&t->view, name, &st);

	if (r == 0)
		r = gitview_read(&t->view, name, INDEX_BYTES, &t->index.raw);
	if (r == 0)
		r = gitentries_read(&t->index, why);
	if (r == 0)
		t->index_time = st.st_mtim;
	return r;
}

int gittip_open(struct gittip *t, const struct gitwork *work, struct diag *diag,
		struct diag *notes)
{
	struct stat st;
	int r;

	*t = (struct gittip){.work = work, .notes = notes};
	t->odb.diag = diag;
	r = gitview_open(&t->view, work->view);
	if (r < 0)
		return diag_fail(diag, r, "%s: %s", work->view, err_text(r));
	r = gitview_stat(&t->view, ".git", &st);
	if (r == -ENOENT || (r == 0 && !S_ISDIR(st.st_mode)))
		return diag_fail(diag, -ENOENT,
				 "%s: it has no git repository of its own",
				 work->env);
	if (r == 0)
		r = gitodb_open(&t->odb, work->origin, work->view, diag);
	if (r == 0)
		r = gitignore_make(t->odb.view, work->view, &t->ignore);
	if (r < 0)
		return r;
	read_file_mode(t);
	t->index_error = read_index(t, &t->index_why);
	if (t->index_error)
		gitentries_forget(&t->index);
	gittip_look_for_attributes(t);
	return 0;
}

void gittip_close(struct gittip *t)
{
	treeedit_free(TAKE_PTR(t->edit));
	gitignore_close(TAKE_PTR(t->ignore));
	gitentries_fini(&t->index);
	diag_fini(&t->index_why);
	gitview_close(&t->view);
	gitodb_close(&t->odb);
}

/* --- the index as a tree -------------------------------------------------- */

struct build {
	struct gittip *t;
	struct buf path;
};

/* Entries of one path begin at i: sets what it is, and returns the next. */
static int put_entry(struct build *b, size_t *i)
{
	const struct gitentries *g = &b->t->index;
	const struct gitentry *first = &g->list[*i], *e = first;
	const char *path = gitentry_path(g, first);
	git_oid id;

	while (++*i < g->count && g->list[*i].path_len == first->path_len &&
	       !strcmp(gitentry_path(g, &g->list[*i]), path))
		if (e->stage != 2)
			e = &g->list[*i];
	if (e->intent_to_add)
		return 0;
	git_oid_fromraw(&id, e->name);
	return treeedit_set(b->t->edit, path, e->mode, &id);
}

/* Where the entries below a directory end; path ends in its slash. */
static size_t find_end(struct build *b, const char *path, size_t len)
{
	buf_clear(&b->path);
	buf_put(&b->path, path, len);
	if (b->path.failed)
		return 0;
	b->path.data[len - 1] = '/' + 1;
	return gitentries_seek(&b->t->index, (char *)b->path.data, len);
}

static bool is_valid(struct build *b, const struct gitcached *c, size_t count)
{
	git_oid id;

	if (c->count < 0 || (uint64_t)c->count != count)
		return false;
	git_oid_fromraw(&id, c->tree);
	return git_odb_exists_ext(b->t->odb.here, &id,
				  GIT_ODB_LOOKUP_NO_REFRESH) ||
	       gitodb_has(&b->t->odb, &id);
}

static int put_tree(struct build *b, const char *path, size_t len,
		    const uint8_t *name)
{
	const char *text;
	git_oid id;

	buf_clear(&b->path);
	buf_put(&b->path, path, len);
	text = buf_str(&b->path);
	git_oid_fromraw(&id, name);
	return text ? treeedit_set(b->t->edit, text, GITMODE_TREE, &id)
		    : -ENOMEM;
}

/* Entries begin..end share a directory: the first len bytes of their paths. */
static int build_dir(struct build *b, size_t begin, size_t end, size_t len,
		     const struct gitcached *cached)
{
	const struct gitentries *g = &b->t->index;
	int r = 0;

	for (size_t i = begin; i < end && r == 0;) {
		const struct gitentry *e = &g->list[i];
		const char *path = gitentry_path(g, e);
		const char *slash = strchr(path + len, '/');
		const struct gitcached *kid = NULL;
		size_t dir_len, next;

		if (!slash) {
			r = put_entry(b, &i);
			continue;
		}
		dir_len = (size_t)(slash - path);
		if (!slash[1]) { /* a directory of a sparse index */
			r = put_tree(b, path, dir_len, e->name);
			i++;
			continue;
		}
		next = find_end(b, path, dir_len + 1);
		if (next <= i)
			return b->path.failed ? -ENOMEM : -EFSCORRUPTED;
		if (cached)
			kid = gitcached_child(g, cached, path + len,
					      dir_len - len);
		if (kid && is_valid(b, kid, next - i))
			r = put_tree(b, path, dir_len, kid->tree);
		else
			r = build_dir(b, i, next, dir_len + 1, kid);
		i = next;
	}
	return r;
}

static int build_index(struct gittip *t)
{
	struct build b = {.t = t};
	const struct gitcached *root =
		t->index.cached_count ? t->index.cached : NULL;
	git_oid id;
	int r;

	if (root && is_valid(&b, root, t->index.count)) {
		git_oid_fromraw(&id, root->tree);
		return treeedit_new(&t->odb, &id, &t->edit);
	}
	r = treeedit_new(&t->odb, NULL, &t->edit);
	if (r == 0)
		r = build_dir(&b, 0, t->index.count, 0, root);
	buf_fini(&b.path);
	return r;
}

/* In place of an index that cannot be read. */
static int build_head(struct gittip *t)
{
	_cleanup_git_object_ git_object *tree = NULL;

	if (git_revparse_single(&tree, t->odb.view, "HEAD^{tree}") < 0)
		return treeedit_new(&t->odb, NULL, &t->edit);
	return treeedit_new(&t->odb, git_object_id(tree), &t->edit);
}

int gittip_index(struct gittip *t, git_oid *ret_tree)
{
	int r = t->index_error ? build_head(t) : build_index(t);

	return r < 0 || !ret_tree ? r : treeedit_write(t->edit, ret_tree);
}
