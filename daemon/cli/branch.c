/* SPDX-License-Identifier: MIT */
/*
 * branch.c - HEAD is moved by libgit2 where that is all, and by git where files
 * have to be written: filters, sparse checkouts and line ends are its own.
 *
 * git runs without the variables by which a caller's repository could be taken
 * for the environment's (a hook of git may have called us), and without the
 * repository's hooks: nobody asked for these. Of what it writes on standard
 * error the first line that says what is wrong becomes ours.
 */
#include "cli/branch.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/head.h"
#include "git/outside.h"

int branch_check(const struct call *c, const char *branch)
{
	if (githead_is_branch(branch))
		return CODE_DONE;
	return call_fail(c, CODE_USAGE, "%s: not a name for a branch",
			 *branch ? branch : "an empty name");
}

/* The line that says what is wrong, or the first one. */
static const char *find_reason(struct buf *said)
{
	char *text = (char *)(uintptr_t)buf_str(said);
	char *reason = text;

	for (char *line = text; line && *line;) {
		char *end = line + strcspn(line, "\n");
		bool more = *end;

		*end = '\0';
		if (!strncmp(line, "error: ", 7) ||
		    !strncmp(line, "fatal: ", 7))
			return line + 7;
		line = end + more;
	}
	return reason && *reason ? reason : "git failed";
}

static int check_out(const struct call *c, const char *path, const char *branch)
{
	_cleanup_buf_ struct buf said = {0};
	const char *argv[] = {"git",
			      "-C",
			      path,
			      "-c",
			      "core.hooksPath=/dev/null",
			      "checkout",
			      "-q",
			      "--no-guess",
			      branch,
			      "--",
			      NULL};
	const struct gitoutside git = {.argv = argv, .in = -1};
	int r = gitoutside_run(&git, NULL, &said);

	if (r == 0)
		return CODE_DONE;
	if (r == -ENOENT)
		return call_fail(c, CODE_FAILED,
				 "%s: it has other files, and git is not "
				 "installed to check them out",
				 branch);
	return call_fail(c, CODE_FAILED, "%s: %s", branch,
			 r < 0 ? err_text(r) : find_reason(&said));
}

int branch_switch(const struct call *c, const char *path, const char *branch,
		  bool make)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = make ? githead_create(path, branch, &diag)
		     : githead_switch(path, branch, &diag);

	if (r == 1)
		return check_out(c, path, branch);
	if (r == 0)
		return CODE_DONE;
	(void)call_fail_err(c, r, &diag, branch);
	if (r == -ENOENT && !make && !diag_line(&diag, 1))
		call_hint("--new-branch %s makes one", branch);
	return r == -EBUSY ? CODE_BUSY : CODE_FAILED;
}
