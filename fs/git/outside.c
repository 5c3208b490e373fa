/* SPDX-License-Identifier: MIT */
/*
 * outside.c - programs with their input and output in pipes.
 *
 * Input is a descriptor that the program reads by itself; its output and what
 * it says about errors are read together, so that neither makes it wait.
 */
#include "git/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/attr.h"

enum { BLOCK_BYTES = 8 << 10, SAID_BYTES = 64 << 10, DESCRIPTORS = 2 };

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

static const char **make_environment(const char *const *set)
{
	size_t n = 0, more = 0, kept = 0;
	const char **made;

	while (environ[n])
		n++;
	while (set && set[more])
		more++;
	made = malloc((n + more + 1) * sizeof *made);
	if (!made)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_local(environ[i]))
			made[kept++] = environ[i];
	for (size_t i = 0; i < more; i++)
		made[kept++] = set[i];
	made[kept] = NULL;
	return made;
}

static int set_files(posix_spawn_file_actions_t *files,
		     const struct gitoutside *p, int out, int err)
{
	int r = 0;

	if (p->dir)
		r = posix_spawn_file_actions_addchdir_np(files, p->dir);
	if (!r && p->in >= 0)
		r = posix_spawn_file_actions_adddup2(files, p->in,
						     STDIN_FILENO);
	else if (!r)
		r = posix_spawn_file_actions_addopen(files, STDIN_FILENO,
						     "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(files, err, STDERR_FILENO);
	return r;
}

static int start(const struct gitoutside *p, int out, int err, pid_t *ret_pid)
{
	_cleanup_free_ const char **variables = make_environment(p->set);
	posix_spawn_file_actions_t files;
	int r;

	if (!variables)
		return -ENOMEM;
	r = posix_spawn_file_actions_init(&files);
	if (r)
		return -r;
	r = set_files(&files, p, out, err);
	if (!r)
		r = posix_spawnp(ret_pid, p->argv[0], &files, NULL,
				 (char *const *)(uintptr_t)p->argv,
				 (char *const *)(uintptr_t)variables);
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* Takes what there is; true at the end. */
static bool take(int fd, struct buf *to, size_t max)
{
	char block[BLOCK_BYTES];
	const ssize_t n = read(fd, block, sizeof block);

	if (n > 0 && to && to->len < max)
		buf_put(to, block, (size_t)n);
	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static int read_both(int out_fd, int err_fd, struct buf *out, struct buf *err)
{
	struct pollfd fds[DESCRIPTORS] = {{.fd = out_fd, .events = POLLIN},
					  {.fd = err_fd, .events = POLLIN}};
	int open_count = DESCRIPTORS;

	while (open_count) {
		if (poll(fds, DESCRIPTORS, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (int i = 0; i < DESCRIPTORS; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (take(fds[i].fd, i ? err : out,
				 i ? SAID_BYTES : SIZE_MAX)) {
				fds[i].fd = -1;
				open_count--;
			}
		}
	}
	return out ? buf_error(out) : 0;
}

int gitoutside_run(const struct gitoutside *p, struct buf *out, struct buf *err)
{
	int o[2] = {-1, -1}, e[2] = {-1, -1}, status = 0;
	pid_t pid = -1;
	int r;

	if (pipe2(o, O_CLOEXEC) < 0)
		return -errno;
	r = pipe2(e, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0)
		r = start(p, o[1], e[1], &pid);
	(void)close(o[1]);
	if (e[1] >= 0)
		(void)close(e[1]);
	if (r == 0)
		r = read_both(o[0], e[0], out, err);
	(void)close(o[0]);
	if (e[0] >= 0)
		(void)close(e[0]);
	if (pid < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}
