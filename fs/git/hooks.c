/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - hooks see what they would at a commit in the origin: its
 * repository, the files, and an index with what is about to be committed.
 *
 * That index is a temporary one, made by git of the new tree, so the objects
 * are written before hooks run; when one refuses, nothing leads to them and a
 * gc takes them away. The hooks are the origin's, never the environment's.
 */
#include "git/hooks_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "git/outside.h"

enum { MESSAGE_BYTES = 16 << 20, ROOM = PATH_MAX + 64 };

struct hooks {
	struct gittip *t;
	char folder[PATH_MAX]; /* temporary; "" when there is none */
	char git_dir[ROOM], work_tree[ROOM], index[ROOM];
	char message[ROOM];
};

static void hooks_freep(struct hooks **h)
{
	if (*h && (*h)->folder[0])
		(void)!io_remove_tree(AT_FDCWD, (*h)->folder);
	free(*h);
}

static int hooks_new(struct gittip *t, struct hooks **ret_hooks)
{
	struct hooks *h = calloc(1, sizeof *h);
	int r;

	if (!h)
		return -ENOMEM;
	*ret_hooks = h;
	h->t = t;
	r = io_temp_dir("hooks", h->folder, sizeof h->folder);
	if (r < 0)
		return r;
	(void)snprintf(h->git_dir, sizeof h->git_dir, "GIT_DIR=%s",
		       git_repository_path(h->t->odb.origin));
	(void)snprintf(h->work_tree, sizeof h->work_tree, "GIT_WORK_TREE=%s",
		       h->t->work->view);
	(void)snprintf(h->index, sizeof h->index, "GIT_INDEX_FILE=%s/index",
		       h->folder);
	(void)snprintf(h->message, sizeof h->message, "%s/COMMIT_EDITMSG",
		       h->folder);
	return 0;
}

/* Runs a program in the view with the origin's repository. */
static int run(struct hooks *h, const char *const *argv, struct buf *said)
{
	const char *const set[] = {h->git_dir, h->work_tree, h->index, NULL};
	const struct gitoutside p = {
		.argv = argv, .set = set, .in = -1, .dir = h->t->work->view};

	return gitoutside_run(&p, NULL, said);
}

static int make_index(struct hooks *h, const git_oid *tree)
{
	_cleanup_buf_ struct buf said = {0};
	char hex[GIT_OID_HEXSZ + 1];
	const char *argv[] = {"git", "read-tree", hex, NULL};
	int r;

	git_oid_tostr(hex, sizeof hex, tree);
	r = run(h, argv, &said);
	if (r == 0)
		return 0;
	return diag_fail(h->t->odb.diag, r < 0 ? r : -ECANCELED,
			 "hooks: git cannot make an index for them: %s",
			 r == -ENOENT ? "it is not installed"
			 : r < 0      ? err_text(r)
				      : "read-tree failed");
}

/* Finds a hook that can be run; false: there is none. */
static bool find_hook(struct hooks *h, const char *name, char path[ROOM])
{
	git_config *config = NULL;
	git_buf named = {0};
	int n = -1;

	if (git_repository_config_snapshot(&config, h->t->odb.origin) == 0 &&
	    git_config_get_path(&named, config, "core.hookspath") == 0)
		n = snprintf(path, ROOM, "%s/%s", named.ptr, name);
	else
		n = snprintf(path, ROOM, "%shooks/%s",
			     git_repository_commondir(h->t->odb.origin), name);
	git_buf_dispose(&named);
	git_config_free(config);
	return n > 0 && n < ROOM && access(path, X_OK) == 0;
}

static int run_hook(struct hooks *h, const char *name, const char *arg)
{
	_cleanup_buf_ struct buf said = {0};
	char path[ROOM];
	const char *argv[] = {path, arg, NULL};
	const char *text;
	int r;

	if (!find_hook(h, name, path))
		return 0;
	r = run(h, argv, &said);
	if (r == 0)
		return 0;
	diag_add(h->t->odb.diag, "the hook %s has refused", name);
	text = said.len ? buf_str(&said) : NULL;
	if (text)
		diag_add(h->t->odb.diag, "%.*s", (int)strcspn(text, "\n"),
			 text);
	return -ECANCELED;
}

int githooks_before(struct gittip *t, const git_oid *tree, struct buf *message)
{
	_cleanup_(hooks_freep) struct hooks *h = NULL;
	int r = hooks_new(t, &h);

	if (r < 0)
		return diag_fail(t->odb.diag, r, "hooks: %s", err_text(r));
	r = gitodb_finish_first(&t->odb);
	if (r == 0)
		r = make_index(h, tree);
	if (r == 0)
		r = run_hook(h, "pre-commit", NULL);
	if (r == 0)
		r = io_write_file(AT_FDCWD, h->message, message->data,
				  message->len, false);
	if (r == 0)
		r = run_hook(h, "commit-msg", h->message);
	if (r < 0)
		return r;
	buf_clear(message);
	return io_read_file(AT_FDCWD, h->message, MESSAGE_BYTES, message);
}

void githooks_after(struct gittip *t)
{
	_cleanup_(hooks_freep) struct hooks *h = NULL;

	if (hooks_new(t, &h) == 0)
		(void)!run_hook(h, "post-commit", NULL);
}
