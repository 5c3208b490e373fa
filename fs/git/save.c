/* SPDX-License-Identifier: MIT */
/*
 * save.c - first the tree, then the objects, then the branch.
 *
 * Nothing is written into the origin before it is known that the branch may
 * move; objects come before the ref that leads to them, and the ref is the last
 * step.
 *
 * Where the branch may move: forwards, to a commit that has the old one among
 * its ancestors; and from where our own last save left it, since what is not
 * committed is a new commit each time, beside the one before. Which save was
 * the last stands in the branch's reflog, with what tells this environment from
 * others that had the same name. Everything else is somebody's work.
 */
#include "git/save.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/count_int.h"
#include "git/head.h"
#include "git/hooks_int.h"
#include "git/ref_int.h"
#include "git/sign_int.h"
#include "git/tip_int.h"

enum { REF_BYTES = 300, WHY_BYTES = 200 };

struct saving {
	const struct gitwork *work;
	const struct gitsave_options *o;
	struct gitsave_result *result;
	struct diag *diag;
	struct gittip tip;
	char ref[REF_BYTES];
	char why[WHY_BYTES]; /* of the reflog */
	bool has_head, has_old;
	git_oid head, head_tree;
	git_oid old; /* where the branch is */
	git_oid tree;
	git_oid commit; /* where it goes */
	git_signature *author, *committer;
};

void gitsave_result_fini(struct gitsave_result *r)
{
	diag_fini(&r->notes);
}

static void saving_fini(struct saving *s)
{
	gittip_close(&s->tip);
	git_signature_free(s->author);
	git_signature_free(s->committer);
}

/* --- before --------------------------------------------------------------- */

static int name_branch(struct saving *s)
{
	char *branch = s->result->branch;
	const size_t room = sizeof s->result->branch;
	const int n =
		s->o->branch ? snprintf(branch, room, "%s", s->o->branch)
			     : snprintf(branch, room, "cowfs/%s", s->work->env);

	if (n < 0 || (size_t)n >= room || !githead_is_branch(branch))
		return diag_fail(s->diag, -EINVAL,
				 "%s: not a name for a branch; give one with "
				 "--branch",
				 branch);
	(void)snprintf(s->ref, sizeof s->ref, "refs/heads/%s", branch);
	(void)snprintf(s->why, sizeof s->why, "cowfs save: %s %s", s->work->env,
		       s->o->stamp ? s->o->stamp : "");
	return 0;
}

static int find_tree(git_repository *repo, const git_oid *commit,
		     git_oid *ret_tree)
{
	_cleanup_git_commit_ git_commit *c = NULL;
	int r = git_commit_lookup(&c, repo, commit);

	if (r == 0)
		git_oid_cpy(ret_tree, git_commit_tree_id(c));
	return r;
}

static int find_head(struct saving *s)
{
	int r = git_reference_name_to_id(&s->head, s->tip.odb.view, "HEAD");

	if (r == GIT_ENOTFOUND &&
	    git_repository_head_unborn(s->tip.odb.view) == 1) {
		git_oid_fromstr(&s->head_tree, GITTREE_EMPTY_HEX);
		return 0;
	}
	if (r == 0)
		r = find_tree(s->tip.odb.view, &s->head, &s->head_tree);
	s->has_head = r == 0;
	return r < 0 ? gitlib_fail(s->diag, r, "HEAD of the environment") : 0;
}

static int find_old(struct saving *s)
{
	int r = gitref_check(s->tip.odb.origin, s->ref, s->diag);

	if (r == 0)
		r = gitref_find(s->tip.odb.origin, s->ref, s->diag, &s->old);
	s->has_old = r == 0;
	return r < 0 ? r : 0;
}

static int find_who(struct saving *s)
{
	int r = s->o->author ? gitsign_parse(s->o->author, s->diag, &s->author)
			     : gitsign_default(s->tip.odb.view, "AUTHOR",
					       &s->author);

	return r < 0 ? r
		     : gitsign_default(s->tip.odb.view, "COMMITTER",
				       &s->committer);
}

static int open_all(struct saving *s)
{
	int r = name_branch(s);

	if (r == 0)
		r = gittip_open(&s->tip, s->work, s->diag, &s->result->notes);
	if (r < 0)
		return r;
	s->tip.tracked = s->o->tracked;
	if (s->tip.index_error && s->tip.index_error != -ENOENT) {
		const char *why = diag_line(&s->tip.index_why, 0);

		return diag_fail(s->diag, -EFSCORRUPTED,
				 "%s: its git index cannot be read: %s",
				 s->work->env,
				 why ? why : err_text(s->tip.index_error));
	}
	r = find_head(s);
	if (r == 0)
		r = find_old(s);
	return r < 0 ? r : find_who(s);
}

/* --- may it move ---------------------------------------------------------- */

/* Whether all that the old tip leads to stays. */
static int is_forward(struct saving *s)
{
	int r;

	if (!s->has_head)
		return 0;
	if (git_oid_equal(&s->head, &s->old))
		return 1;
	/* the environment need not have the tip, nor the origin our commits */
	r = git_odb_add_disk_alternate(s->tip.odb.here, s->tip.odb.objects);
	if (r == 0)
		r = git_graph_descendant_of(s->tip.odb.view, &s->head, &s->old);
	return r < 0 ? gitlib_fail(s->diag, r, s->result->branch) : r;
}

static int check_move(struct saving *s)
{
	int r;

	if (!s->has_old ||
	    gitref_was_moved_by(s->tip.odb.origin, s->ref, &s->old, s->why))
		return 0;
	r = is_forward(s);
	if (r)
		return r < 0 ? r : 0;
	diag_add(s->diag,
		 "%s: the branch has commits that the environment has not",
		 s->result->branch);
	return diag_fail(s->diag, -EBUSY,
			 "choose another branch (--branch), or merge it in the "
			 "environment");
}

/* --- the commit ----------------------------------------------------------- */

/* What is going on in the environment; NULL: nothing. */
static const char *describe_state(git_repository *repo)
{
	switch (git_repository_state(repo)) {
	case GIT_REPOSITORY_STATE_MERGE:
		return "a merge";
	case GIT_REPOSITORY_STATE_REVERT:
	case GIT_REPOSITORY_STATE_REVERT_SEQUENCE:
		return "a revert";
	case GIT_REPOSITORY_STATE_CHERRYPICK:
	case GIT_REPOSITORY_STATE_CHERRYPICK_SEQUENCE:
		return "a cherry-pick";
	case GIT_REPOSITORY_STATE_BISECT:
		return "a bisection";
	case GIT_REPOSITORY_STATE_REBASE:
	case GIT_REPOSITORY_STATE_REBASE_INTERACTIVE:
	case GIT_REPOSITORY_STATE_REBASE_MERGE:
		return "a rebase";
	case GIT_REPOSITORY_STATE_APPLY_MAILBOX:
	case GIT_REPOSITORY_STATE_APPLY_MAILBOX_OR_REBASE:
		return "the applying of patches";
	default:
		return NULL;
	}
}

static void make_message(struct saving *s, struct buf *out)
{
	const char *state = describe_state(s->tip.odb.view);

	if (s->o->message)
		buf_printf(out, "%s", s->o->message);
	else
		buf_printf(out, "Work of the environment %s", s->work->env);
	if (out->len && out->data[out->len - 1] != '\n')
		buf_put_u8(out, '\n');
	if (!state)
		return;
	buf_printf(out, "\nSaved in the middle of %s.\n", state);
	diag_add(&s->result->notes, "saved in the middle of %s", state);
}

/* Whether the branch has just that already, from the save before. */
static bool is_same(struct saving *s)
{
	_cleanup_git_commit_ git_commit *c = NULL;

	if (!s->has_old ||
	    git_commit_lookup(&c, s->tip.odb.origin, &s->old) < 0 ||
	    !git_oid_equal(git_commit_tree_id(c), &s->tree))
		return false;
	if (!s->has_head)
		return git_commit_parentcount(c) == 0;
	return git_commit_parentcount(c) == 1 &&
	       git_oid_equal(git_commit_parent_id(c, 0), &s->head);
}

static int make_commit(struct saving *s)
{
	_cleanup_buf_ struct buf message = {0}, bytes = {0};
	struct gitcommit c = {
		.tree = s->tree,
		.parents = &s->head,
		.parent_count = s->has_head,
		.author = s->author,
		.committer = s->committer,
	};
	int r;

	make_message(s, &message);
	if (is_same(s)) {
		s->commit = s->old;
		return 0;
	}
	if (s->o->hooks) {
		r = githooks_before(&s->tip, &s->tree, &message);
		if (r < 0)
			return r;
	}
	c.message = buf_str(&message);
	if (!c.message)
		return -ENOMEM;
	gitcommit_encode(&c, &bytes);
	r = buf_error(&bytes);
	if (r == 0)
		r = gitodb_put(&s->tip.odb, GITPACK_COMMIT, bytes.data,
			       bytes.len, &s->commit);
	s->result->made = r == 0;
	return r;
}

/* --- what was saved ------------------------------------------------------- */

/* Counts from the commit that was imported. It is for people: what cannot be
 * counted is no failure. */
static void count(struct saving *s)
{
	struct gitcount c = {.files = 0};
	git_oid base, tree;
	const bool has_base = *s->o->base &&
			      git_oid_fromstr(&base, s->o->base) == 0 &&
			      find_tree(s->tip.odb.origin, &base, &tree) == 0;

	s->result->commits = s->tip.odb.commits + s->result->made;
	if (gitcount_trees(&s->tip.odb, has_base ? &tree : NULL, &s->tree, &c) <
	    0)
		return;
	s->result->files = c.files;
	s->result->insertions = c.insertions;
	s->result->deletions = c.deletions;
}

/* --- the whole ------------------------------------------------------------ */

static int make_trees(struct saving *s)
{
	int r = gittip_index(&s->tip, NULL);

	return r < 0 ? r : gittip_files(&s->tip, &s->tree);
}

static bool has_nothing(const struct saving *s)
{
	char hex[GIT_OID_HEXSZ + 1];

	if (!git_oid_equal(&s->tree, &s->head_tree))
		return false;
	return !s->has_head ||
	       !strcmp(git_oid_tostr(hex, sizeof hex, &s->head), s->o->base);
}

static int gather(struct saving *s)
{
	int r = check_move(s);

	if (r == 0 && s->has_head)
		r = gitodb_copy(&s->tip.odb, &s->head);
	if (r < 0)
		return r;
	if (git_oid_equal(&s->tree, &s->head_tree)) {
		s->commit = s->head;
		return 0;
	}
	return make_commit(s);
}

static int publish(struct saving *s)
{
	const struct gitref_move move = {
		.ref = s->ref,
		.from = s->has_old ? &s->old : NULL,
		.to = &s->commit,
		.who = s->committer,
		.why = s->why,
	};
	int r = gitodb_finish(&s->tip.odb);

	if (r == 0)
		r = gitodb_verify(&s->tip.odb);
	if (r < 0 || (s->has_old && git_oid_equal(&s->old, &s->commit)))
		return r;
	r = gitref_set(s->tip.odb.origin, &move, s->diag);
	s->result->is_new = r == 0;
	return r;
}

static int save(struct saving *s)
{
	int r = open_all(s);

	if (r == 0)
		r = make_trees(s);
	if (r < 0)
		return r;
	if (has_nothing(s))
		return 0;
	r = gather(s);
	if (r == 0)
		r = publish(s);
	if (r < 0)
		return r;
	gitodb_release(&s->tip.odb);
	git_oid_tostr(s->result->commit, sizeof s->result->commit, &s->commit);
	count(s);
	if (s->o->hooks && s->result->is_new)
		githooks_after(&s->tip);
	return 0;
}

int gitsave(const struct gitwork *work, const struct gitsave_options *options,
	    struct diag *diag, struct gitsave_result *ret_result)
{
	_cleanup_(saving_fini) struct saving s = {
		.work = work,
		.o = options,
		.result = ret_result,
		.diag = diag,
	};
	int r;

	s.tip.view.root = s.tip.view.fd = -1;
	*ret_result = (struct gitsave_result){.commits = 0};
	r = save(&s);
	if (r < 0 && !diag_line(diag, 0))
		diag_add(diag, "%s: %s", work->env, err_text(r));
	return r;
}
