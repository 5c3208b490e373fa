/* SPDX-License-Identifier: MIT */
/*
 * head.c - HEAD is moved to another branch without a checkout.
 *
 * Two branches with the same tree have the same files and the same index, so
 * that a symbolic ref and a line in the reflog are all the difference. Where
 * trees differ, files have to be written by the rules of filters, sparse
 * checkout, line ends and submodules: that is git's own work, not done here.
 */
#include "git/head.h"

#include <errno.h>

#include "git/lib_int.h"

static int ref_of(const char *branch, struct buf *ret_ref, struct diag *diag)
{
	if (!githead_is_branch(branch))
		return diag_fail(diag, -EINVAL, "%s: not a name for a branch",
				 *branch ? branch : "BRANCH");
	buf_printf(ret_ref, "refs/heads/%s", branch);
	return buf_str(ret_ref) ? 0 : -ENOMEM;
}

bool githead_is_branch(const char *branch)
{
	int valid = 0;

	return gitlib_start(NULL) == 0 &&
	       git_branch_name_is_valid(&valid, branch) == 0 && valid;
}

/* Opens it, unless something is going on there. */
static int open_idle(const char *path, struct diag *diag,
		     git_repository **ret_repo)
{
	int r = gitlib_open(path, diag, ret_repo);

	if (r < 0)
		return r;
	if (git_repository_state(*ret_repo) != GIT_REPOSITORY_STATE_NONE)
		return diag_fail(diag, -EBUSY,
				 "%s: a merge, rebase or the like is going on",
				 path);
	return 0;
}

static int set_head(git_repository *repo, const char *ref, struct diag *diag)
{
	int r = git_repository_set_head(repo, ref);

	return r < 0 ? gitlib_fail(diag, r, ref) : 0;
}

/* The name of the tree that HEAD or a branch has. */
static int tree_of(git_repository *repo, const char *ref, git_oid *ret_id)
{
	_cleanup_git_reference_ git_reference *found = NULL;
	_cleanup_git_object_ git_object *tree = NULL;
	int r = git_reference_lookup(&found, repo, ref);

	if (r == 0)
		r = git_reference_peel(&tree, found, GIT_OBJECT_TREE);
	if (r == 0)
		git_oid_cpy(ret_id, git_object_id(tree));
	return r;
}

int githead_switch(const char *path, const char *branch, struct diag *diag)
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	_cleanup_buf_ struct buf ref = {0};
	git_oid have, want;
	int r = ref_of(branch, &ref, diag);

	if (r == 0)
		r = open_idle(path, diag, &repo);
	if (r < 0)
		return r;
	r = tree_of(repo, buf_str(&ref), &want);
	if (r == GIT_ENOTFOUND)
		return diag_fail(diag, -ENOENT, "there is no branch %s",
				 branch);
	if (r < 0)
		return gitlib_fail(diag, r, branch);
	if (tree_of(repo, "HEAD", &have) < 0 || !git_oid_equal(&have, &want))
		return 1; /* or HEAD has no commit yet */
	return set_head(repo, buf_str(&ref), diag);
}

int githead_create(const char *path, const char *branch, struct diag *diag)
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	_cleanup_git_reference_ git_reference *made = NULL;
	_cleanup_git_object_ git_object *commit = NULL;
	_cleanup_buf_ struct buf ref = {0};
	int r = ref_of(branch, &ref, diag);

	if (r == 0)
		r = open_idle(path, diag, &repo);
	if (r < 0)
		return r;
	r = git_reference_lookup(&made, repo, buf_str(&ref));
	if (r == 0)
		return diag_fail(diag, -EEXIST, "there is a branch %s already",
				 branch);
	if (git_repository_head_unborn(repo) == 1)
		return set_head(repo, buf_str(&ref), diag);
	r = git_revparse_single(&commit, repo, "HEAD^{commit}");
	if (r == 0)
		r = git_branch_create(&made, repo, branch,
				      (const git_commit *)commit, 0);
	if (r < 0)
		return gitlib_fail(diag, r, branch);
	return set_head(repo, buf_str(&ref), diag);
}
