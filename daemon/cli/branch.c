/* SPDX-License-Identifier: MIT */
/*
 * branch.c - HEAD is moved by libgit2 where that is all, and by git where files
 * have to be written: filters, sparse checkouts and line ends are its own.
 *
 * git runs without the variables by which a caller's repository could be taken
 * for the environment's (a hook of git may have called us), and without the
 * repository's hooks: nobody asked for these. What it writes on standard error
 * is read to its end, and the first line that says what is wrong becomes ours.
 */
#include "cli/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "git/head.h"

enum { KEPT_BYTES = 8 << 10 };

int branch_check(const struct call *c, const char *branch)
{
	if (githead_is_branch(branch))
		return CODE_DONE;
	return call_fail(c, CODE_USAGE, "%s: not a name for a branch",
			 *branch ? branch : "an empty name");
}

/* Variables that say where a repository is. */
static bool is_local(const char *variable)
{
	static const char *const names[] = {
		"GIT_DIR=",
		"GIT_WORK_TREE=",
		"GIT_INDEX_FILE=",
		"GIT_OBJECT_DIRECTORY=",
		"GIT_COMMON_DIR=",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=",
		"GIT_PREFIX=",
		"GIT_NAMESPACE=",
		"GIT_SHALLOW_FILE=",
		"GIT_GRAFT_FILE=",
		"GIT_IMPLICIT_WORK_TREE=",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(variable, names[i], strlen(names[i])))
			return true;
	return false;
}

static char **make_environment(void)
{
	size_t n = 0, kept = 0;
	char **made;

	while (environ[n])
		n++;
	made = malloc((n + 1) * sizeof *made);
	if (!made)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_local(environ[i]))
			made[kept++] = environ[i];
	made[kept] = NULL;
	return made;
}

/* Starts git with its standard error in a pipe. */
static int start_git(char *const argv[], int err, pid_t *ret_pid)
{
	_cleanup_free_ char **variables = make_environment();
	posix_spawn_file_actions_t files;
	int r;

	if (!variables)
		return -ENOMEM;
	r = posix_spawn_file_actions_init(&files);
	if (r)
		return -r;
	r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
					     O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&files, err,
						     STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&files, err,
						     STDERR_FILENO);
	if (!r)
		r = posix_spawnp(ret_pid, argv[0], &files, NULL, argv,
				 variables);
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* Reads to the end; keeps the beginning. */
static void read_all(int fd, struct buf *kept)
{
	char block[4096];
	ssize_t n;

	while ((n = read(fd, block, sizeof block)) > 0 ||
	       (n < 0 && errno == EINTR))
		if (n > 0 && kept->len < KEPT_BYTES)
			buf_put(kept, block, (size_t)n);
}

/* Runs git; 0, or what it ended with; its words are in said. */
static int run_git(char *const argv[], struct buf *said)
{
	_cleanup_close_ int from = -1;
	int pipes[2], status = 0;
	pid_t pid = -1;
	int r;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	from = pipes[0];
	r = start_git(argv, pipes[1], &pid);
	(void)close(pipes[1]);
	if (r < 0)
		return r;
	read_all(from, said);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
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
	int r = run_git((char *const *)(uintptr_t)argv, &said);

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
