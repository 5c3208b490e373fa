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

struct rescue {
	const char *ref;
	const char *message;
	struct gittip tip;
	git_signature *who;
	git_oid staged; /* the index as a tree */
	git_oid files;
	git_oid commit;
};

static void rescue_fini(struct rescue *s)
{
	gittip_close(&s->tip);
	git_signature_free(s->who);
}

static int put_commit(struct rescue *s, const struct gitcommit *c,
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
static int put_state(struct rescue *s, struct gitkeep *k, git_oid *ret_id)
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

static int gather(struct rescue *s)
{
	_cleanup_gitkeep_ struct gitkeep k = {.tip = &s->tip};
	git_oid parents[2];
	struct gitcommit c = {
		.parents = parents,
		.author = s->who,
		.committer = s->who,
		.message = s->message,
	};
	int r = gittip_index(&s->tip, &s->staged);

	if (r == 0)
		r = gittip_files(&s->tip, &s->files);
	if (r == 0)
		r = gitkeep_collect(&k);
	if (r < 0)
		return r;
	if (k.has_head)
		parents[c.parent_count++] = k.head;
	c.tree = s->files;
	r = put_state(s, &k, &parents[c.parent_count]);
	c.parent_count++;
	return r < 0 ? r : put_commit(s, &c, &s->commit);
}

/* Sets the ref, and looks. */
static int set_ref(struct rescue *s)
{
	const struct gitref_move move = {
		.ref = s->ref,
		.to = &s->commit,
		.who = s->who,
		.why = "cowfs rescue",
	};
	struct gitodb *o = &s->tip.odb;
	git_oid now;
	int r = gitref_set(o->origin, &move, o->diag);

	if (r == 0)
		r = gitref_find(o->origin, s->ref, o->diag, &now);
	if (r < 0)
		return r;
	if (r || !git_oid_equal(&now, &s->commit))
		return diag_fail(o->diag, -EIO,
				 "%s: it is not what was written", s->ref);
	return 0;
}

static int publish(struct rescue *s)
{
	const struct gitref_move back = {
		.ref = s->ref, .from = &s->commit, .who = s->who, .why = ""};
	struct gitodb *o = &s->tip.odb;
	int r = gitodb_finish(o);

	if (r == 0)
		r = gitodb_verify(o);
	if (r < 0)
		return r;
	r = set_ref(s);
	if (r == 0)
		gitodb_release(o);
	else /* what failed must not leave a ref that nobody knows */
		(void)!gitref_set(o->origin, &back, NULL);
	return r;
}

int gitrescue_write(const struct gitwork *work, const char *ref,
		    const char *message, struct diag *diag,
		    char ret_commit[GIT_HEX_BYTES])
{
	_cleanup_(rescue_fini) struct rescue s = {.ref = ref,
						  .message = message};
	git_oid there;
	int r = gittip_open(&s.tip, work, diag, diag);

	if (r < 0)
		return r;
	r = gitref_find(s.tip.odb.origin, ref, diag, &there);
	if (r == 0)
		return diag_fail(diag, -EEXIST, "%s: there is one already",
				 ref);
	if (r == 1)
		r = gitsign_default(s.tip.odb.view, "COMMITTER", &s.who);
	if (r == 0)
		r = gather(&s);
	if (r == 0)
		r = publish(&s);
	if (r == 0)
		git_oid_tostr(ret_commit, GIT_HEX_BYTES, &s.commit);
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
