/* SPDX-License-Identifier: MIT */
/*
 * lib.c - the one place where libgit2's codes become errno.
 *
 * libgit2 is started by the first repository that is opened, so that commands
 * that need none do not pay for it. It is never shut down: the process ends.
 *
 * Extensions: libgit2 refuses a repository with one that it does not know.
 * Three are declared known because nothing depends on them here: partialClone
 * (objects that are missing are errors when they are asked for, as in a damaged
 * repository), worktreeConfig (settings of one work tree are not read) and
 * preciousObjects (nothing is deleted). SHA-256 names and reftable are not.
 */
#include "git/lib_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "git/safe.h"

int gitlib_start(struct diag *diag)
{
	static const char *known[] = {"partialclone", "worktreeconfig",
				      "preciousobjects"};
	static bool started;
	int r;

	if (started)
		return 0;
	r = git_libgit2_init();
	if (r < 0)
		return gitlib_fail(diag, r, "libgit2");
	(void)git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
	r = git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, known, ARRAY_SIZE(known));
	if (r < 0)
		return gitlib_fail(diag, r, "libgit2");
	started = true;
	return 0;
}

static int code_to_errno(int code, int class)
{
	switch (code) {
	case GIT_ENOTFOUND:
		return -ENOENT;
	case GIT_EEXISTS:
		return -EEXIST;
	case GIT_EAMBIGUOUS:
		return -ENOTUNIQ;
	case GIT_EINVALIDSPEC:
		return -EINVAL;
	case GIT_EBUFS:
		return -ENOMEM;
	case GIT_ELOCKED:
	case GIT_EMODIFIED:
		return -EBUSY;
	case GIT_EOWNER:
		return -EPERM;
	default:
		break;
	}
	if (class == GIT_ERROR_NOMEMORY)
		return -ENOMEM;
	if (class == GIT_ERROR_OS && errno > 0)
		return -errno;
	if (class == GIT_ERROR_ZLIB || class == GIT_ERROR_ODB)
		return -EFSCORRUPTED;
	return -EIO;
}

int gitlib_fail(struct diag *diag, int code, const char *what)
{
	const git_error *e = git_error_last();
	const int err = code_to_errno(code, e ? e->klass : 0);

	diag_add(diag, "%s: %s", what,
		 e && e->message ? e->message : err_text(err));
	return err;
}

/* Who owns the directory, and ".git" in it, decides whether it may be worked
 * in. */
static int check_owner(const char *path, struct diag *diag)
{
	_cleanup_buf_ struct buf inner = {0};
	struct stat st, git;
	const char *text;

	buf_printf(&inner, "%s/.git", path);
	text = buf_str(&inner);
	if (stat(path, &st) < 0)
		return diag_fail(diag, -errno, "%s: %s", path, err_text(errno));
	if (text && lstat(text, &git) == 0 && gitsafe_is_owner(st.st_uid))
		st = git;
	if (gitsafe_is_owner(st.st_uid) || gitsafe_is_trusted(path))
		return 0;
	diag_add(diag, "%s: the repository belongs to user %u", path,
		 (unsigned)st.st_uid);
	return diag_fail(diag, -EPERM,
			 "if you trust it: git config --global --add "
			 "safe.directory %s",
			 path);
}

int gitlib_open(const char *path, struct diag *diag, git_repository **ret_repo)
{
	const git_error *e;
	int r = gitlib_start(diag);

	if (r == 0)
		r = check_owner(path, diag);
	if (r < 0)
		return r;
	r = git_repository_open_ext(ret_repo, path,
				    GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);
	if (r >= 0)
		return 0;
	if (r == GIT_ENOTFOUND)
		return diag_fail(diag, -ENOENT, "%s: not a git repository",
				 path);
	e = git_error_last();
	if (e && e->message && strstr(e->message, "extension")) {
		gitlib_fail(diag, r, path);
		return -EOPNOTSUPP;
	}
	return gitlib_fail(diag, r, path);
}
