/* SPDX-License-Identifier: MIT */
/*
 * rescue.c - one commit that has the files, beside one that has the rest.
 *
 * A ref keeps alive what it leads to: a commit's tree and its parents. So each
 * tip of the environment (branches, HEAD, stashes, what MERGE_HEAD and the like
 * name) becomes a parent of the second commit, unless a ref of the origin is
 * at it. Objects that cannot be a parent go into that commit's tree: an
 * annotated tag as a blob of its bytes (its target is a parent), a tag of a
 * tree or blob as an entry. With many tips there is a chain of such commits.
 */
#include "git/rescue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/keep_int.h"
#include "git/ref_int.h"
#include "git/sign_int.h"
#include "git/tip_int.h"

struct gitrescue {
	struct gittip tip;
	git_signature *who;
	git_oid staged; /* the index as a tree */
	git_oid files;
	git_oid parents[2]; /* HEAD if there is one, and the state */
	size_t parent_count;
};

void gitrescue_close(struct gitrescue *g)
{
	if (!g)
		return;
	gittip_close(&g->tip);
	git_signature_free(g->who);
	free(g);
}

void gitrescue_closep(struct gitrescue **g)
{
	gitrescue_close(*g);
	*g = NULL;
}

static int put_commit(struct gitrescue *s, const struct gitcommit *c,
		      git_oid *ret_id)
{
	_cleanup_buf_ struct buf bytes = {0};
	int r;

	gitcommit_encode(c, &bytes);
	r = buf_error(&bytes);
	return r < 0 ? r
		     : gitodb_put(&s->tip.odb, GITPACK_COMMIT, bytes.data,
				  bytes.len, ret_id);
}

/* The commit of what is not files; its tree is made of what was kept. */
static int put_state(struct gitrescue *s, struct gitkeep *k, git_oid *ret_id)
{
	struct gitcommit c = {
		.author = s->who,
		.committer = s->who,
		.message = "state\n",
	};
	size_t done = 0;
	int r = gitkeep_tree(k, &s->staged, &c.tree);

	do {
		const size_t part =
			MIN(k->tip_count - done, (size_t)GITKEEP_PARENTS);
		git_oid parents[GITKEEP_PARENTS + 1];

		if (r < 0)
			return r;
		c.parent_count = 0;
		if (done)
			parents[c.parent_count++] = *ret_id;
		for (size_t i = 0; i < part; i++)
			parents[c.parent_count++] = k->tips[done + i];
		c.parents = parents;
		r = put_commit(s, &c, ret_id);
		done += part;
	} while (r == 0 && done < k->tip_count);
	return r;
}

static int gather(struct gitrescue *s)
{
	_cleanup_gitkeep_ struct gitkeep k = {.tip = &s->tip};
	int r = gitsign_default(s->tip.odb.view, "COMMITTER", &s->who);

	if (r == 0)
		r = gittip_index(&s->tip, &s->staged);
	if (r == 0)
		r = gittip_files(&s->tip, &s->files);
	if (r == 0)
		r = gitkeep_collect(&k);
	if (r < 0)
		return r;
	if (k.has_head)
		s->parents[s->parent_count++] = k.head;
	r = put_state(s, &k, &s->parents[s->parent_count]);
	s->parent_count++;
	return r;
}

int gitrescue_gather(const struct gitwork *work, struct diag *diag,
		     struct gitrescue **ret)
{
	_cleanup_gitrescue_ struct gitrescue *s = calloc(1, sizeof *s);
	int r = s ? gittip_open(&s->tip, work, diag, diag) : -ENOMEM;

	if (r == 0)
		r = gather(s);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

/* Sets the ref, and looks. */
static int set_ref(struct gitodb *o, const struct gitref_move *move)
{
	git_oid now;
	int r = gitref_set(o->origin, move, o->diag);

	if (r == 0)
		r = gitref_find(o->origin, move->ref, o->diag, &now);
	if (r < 0)
		return r;
	if (r || !git_oid_equal(&now, move->to))
		return diag_fail(o->diag, -EIO,
				 "%s: it is not what was written", move->ref);
	return 0;
}

static int publish(struct gitrescue *s, const char *ref, const git_oid *commit)
{
	const struct gitref_move there = {
		.ref = ref, .to = commit, .who = s->who, .why = "cowfs rescue"};
	const struct gitref_move back = {
		.ref = ref, .from = commit, .who = s->who, .why = ""};
	struct gitodb *o = &s->tip.odb;
	int r = gitodb_finish(o);

	if (r == 0)
		r = gitodb_verify(o);
	if (r < 0)
		return r;
	r = set_ref(o, &there);
	if (r == 0)
		gitodb_release(o);
	else /* what failed must not leave a ref that nobody knows */
		(void)!gitref_set(o->origin, &back, NULL);
	return r;
}

int gitrescue_publish(struct gitrescue *g, const char *ref, const char *message,
		      char ret_commit[GIT_HEX_BYTES])
{
	const struct gitcommit c = {
		.tree = g->files,
		.parents = g->parents,
		.parent_count = g->parent_count,
		.author = g->who,
		.committer = g->who,
		.message = message,
	};
	struct diag *diag = g->tip.odb.diag;
	git_oid commit, there;
	int r = gitref_find(g->tip.odb.origin, ref, diag, &there);

	if (r == 0)
		return diag_fail(diag, -EEXIST, "%s: there is one already",
				 ref);
	if (r == 1)
		r = put_commit(g, &c, &commit);
	if (r == 0)
		r = publish(g, ref, &commit);
	if (r == 0)
		git_oid_tostr(ret_commit, GIT_HEX_BYTES, &commit);
	return r;
}

/* Opens the origin; 1: it is gone. */
static int open_origin(const char *origin, struct diag *diag,
		       git_repository **ret_repo)
{
	int r = gitlib_start(diag);

	if (r < 0)
		return r;
	if (access(origin, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	return gitlib_open(origin, diag, ret_repo);
}

int gitrescue_find(const char *origin, const char *ref, const char *message,
		   struct diag *diag, char ret_commit[GIT_HEX_BYTES])
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	_cleanup_git_commit_ git_commit *commit = NULL;
	git_oid now;
	int r = open_origin(origin, diag, &repo);

	if (r == 0)
		r = gitref_find(repo, ref, diag, &now);
	if (r)
		return r == -ENOENT ? 1 : r;
	if (git_commit_lookup(&commit, repo, &now) < 0 ||
	    strcmp(git_commit_message(commit), message) != 0)
		return 1;
	git_oid_tostr(ret_commit, GIT_HEX_BYTES, &now);
	return 0;
}

int gitrescue_drop(const char *origin, const char *ref, const char *commit,
		   struct diag *diag)
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	_cleanup_git_signature_ git_signature *who = NULL;
	struct gitref_move move = {.ref = ref, .why = ""};
	git_oid id, now;
	int r = open_origin(origin, diag, &repo);

	if (r > 0)
		return 0;
	if (r == 0 && git_oid_fromstr(&id, commit) < 0)
		return diag_fail(diag, -EINVAL, "%s: not a commit", commit);
	if (r == 0)
		r = gitref_find(repo, ref, diag, &now);
	if (r)
		return r < 0 && r != -ENOENT ? r : 0;
	r = gitsign_default(repo, "COMMITTER", &who);
	move.from = &id;
	move.who = who;
	return r < 0 ? r : gitref_set(repo, &move, diag);
}
