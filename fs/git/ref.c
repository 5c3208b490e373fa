/* SPDX-License-Identifier: MIT */
/*
 * ref.c - a ref is locked, looked at and set: nobody comes between.
 *
 * libgit2 compares the old value too, but not when there was none; with the
 * lock of git's own kind both cases are one. Another who holds the lock is
 * waited for a little, as git does.
 *
 * Where a branch is checked out is read from the files that say so, for each
 * work tree: that includes a branch that is being rebased, where HEAD does not
 * name it.
 */
#include "git/ref_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/io.h"

enum { LINE_BYTES = 64 << 10, LOCK_TRIES = 100, LOCK_PAUSE_NS = 10000000 };

int gitref_find(git_repository *repo, const char *ref, struct diag *diag,
		git_oid *ret_id)
{
	_cleanup_git_reference_ git_reference *found = NULL;
	int r = git_reference_lookup(&found, repo, ref);

	if (r == GIT_ENOTFOUND)
		return 1;
	if (r < 0)
		return gitlib_fail(diag, r, ref);
	if (git_reference_type(found) != GIT_REFERENCE_DIRECT)
		return diag_fail(diag, -EBUSY, "%s: it stands for another ref",
				 ref);
	git_oid_cpy(ret_id, git_reference_target(found));
	return 0;
}

/* --- is it in use --------------------------------------------------------- */

static const char *short_name(const char *ref)
{
	static const char heads[] = "refs/heads/";

	return strncmp(ref, heads, sizeof heads - 1) ? ref
						     : ref + sizeof heads - 1;
}

/* Whether a file of one line says that: the line, after what comes before. */
static bool says(int dir, const char *name, const char *before,
		 const char *what)
{
	_cleanup_buf_ struct buf text = {0};
	const char *s;
	size_t n;

	if (io_read_file(dir, name, LINE_BYTES, &text) < 0)
		return false;
	s = buf_str(&text);
	if (!s || strncmp(s, before, strlen(before)) != 0)
		return false;
	s += strlen(before);
	n = strcspn(s, "\r\n");
	return n == strlen(what) && !strncmp(s, what, n);
}

/* Whether the work tree whose directory is open has the branch. */
static bool is_used_in(int dir, const char *ref)
{
	return says(dir, "HEAD", "ref: ", ref) ||
	       says(dir, "rebase-merge/head-name", "", ref) ||
	       says(dir, "rebase-apply/head-name", "", ref) ||
	       says(dir, "BISECT_START", "", short_name(ref));
}

static bool is_used_in_linked(int common, const char *ref)
{
	DIR *dir = NULL;
	const struct dirent *e;
	bool used = false;

	if (io_open_names(common, "worktrees", 0, &dir) < 0)
		return false;
	while (!used && (e = readdir(dir))) {
		_cleanup_close_ int fd = -1;

		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd(dir), e->d_name,
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
		used = fd >= 0 && is_used_in(fd, ref);
	}
	(void)closedir(dir);
	return used;
}

static bool is_used(git_repository *repo, const char *ref)
{
	_cleanup_close_ int common = open(git_repository_commondir(repo),
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (common < 0)
		return false;
	return (!git_repository_is_bare(repo) && is_used_in(common, ref)) ||
	       is_used_in_linked(common, ref);
}

/* Whether there is a ref where the name has a directory; or below it. */
static int check_name(git_repository *repo, const char *ref, struct diag *diag)
{
	_cleanup_free_ char *part = strdup(ref), *below = NULL;
	git_reference_iterator *it = NULL;
	const char *other = NULL;
	int r;

	if (!part || asprintf(&below, "%s/*", ref) < 0)
		return -ENOMEM;
	for (char *slash = strrchr(part, '/'); slash;
	     slash = strrchr(part, '/')) {
		git_oid id;

		*slash = '\0';
		if (strchr(part, '/') &&
		    git_reference_name_to_id(&id, repo, part) == 0)
			return diag_fail(diag, -EBUSY,
					 "%s: there is a branch %s, so there "
					 "can be none below that name",
					 short_name(ref), short_name(part));
	}
	r = git_reference_iterator_glob_new(&it, repo, below);
	if (r == 0)
		r = git_reference_next_name(&other, it);
	if (r == 0)
		diag_add(diag, "%s: there are branches below that name (%s)",
			 short_name(ref), short_name(other));
	git_reference_iterator_free(it);
	return r == 0 ? -EBUSY : 0;
}

int gitref_check(git_repository *repo, const char *ref, struct diag *diag)
{
	if (!is_used(repo, ref))
		return check_name(repo, ref, diag);
	diag_add(diag, "%s: it is checked out in the origin", short_name(ref));
	return diag_fail(diag, -EBUSY,
			 "choose another branch (--branch), or check out "
			 "another one there");
}

/* --- moving --------------------------------------------------------------- */

static int lock(git_transaction *tx, const char *ref)
{
	static const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int r = GIT_ELOCKED;

	for (int i = 0; i < LOCK_TRIES && r == GIT_ELOCKED; i++) {
		if (i)
			(void)nanosleep(&pause, NULL);
		r = git_transaction_lock_ref(tx, ref);
	}
	return r;
}

/* With the lock: is it still where it was, then set it. */
static int move_locked(git_repository *repo, git_transaction *tx,
		       const struct gitref_move *m, struct diag *diag)
{
	git_oid now;
	int r = gitref_find(repo, m->ref, diag, &now);

	if (r < 0)
		return r;
	if (r != (m->from == NULL) ||
	    (m->from && !git_oid_equal(m->from, &now)))
		return diag_fail(diag, -EBUSY, "%s: it has moved meanwhile",
				 short_name(m->ref));
	r = m->to ? git_transaction_set_target(tx, m->ref, m->to, m->who,
					       m->why)
		  : git_transaction_remove(tx, m->ref);
	if (r == 0)
		r = git_transaction_commit(tx);
	return r < 0 ? gitlib_fail(diag, r, m->ref) : 0;
}

int gitref_set(git_repository *repo, const struct gitref_move *m,
	       struct diag *diag)
{
	const bool had_log = git_reference_has_log(repo, m->ref) == 1;
	git_transaction *tx = NULL;
	int r = git_transaction_new(&tx, repo);

	if (r == 0)
		r = lock(tx, m->ref);
	if (r == 0 && m->to && !had_log)
		r = git_reference_ensure_log(repo, m->ref);
	r = r < 0 ? gitlib_fail(diag, r, short_name(m->ref))
		  : move_locked(repo, tx, m, diag);
	git_transaction_free(tx);
	if (r < 0 && m->to && !had_log)
		(void)git_reflog_delete(repo, m->ref);
	return r;
}

bool gitref_was_moved_by(git_repository *repo, const char *ref,
			 const git_oid *to, const char *why)
{
	const git_reflog_entry *last = NULL;
	git_reflog *log = NULL;
	bool is = false;

	if (git_reflog_read(&log, repo, ref) < 0)
		return false;
	if (git_reflog_entrycount(log))
		last = git_reflog_entry_byindex(log, 0);
	if (last && git_reflog_entry_message(last))
		is = git_oid_equal(git_reflog_entry_id_new(last), to) &&
		     !strcmp(git_reflog_entry_message(last), why);
	git_reflog_free(log);
	return is;
}
