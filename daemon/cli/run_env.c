/* SPDX-License-Identifier: MIT */
/*
 * run_env.c - the environment that commands run in: mounted before, and for
 * those who made one for themselves, gone after.
 */
#include "cli/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask_show(const struct call *c, int *fd, const char *name,
		    struct remote_env *ret_env)
{
	_cleanup_msg_ struct msg done = {0};
	int code = remote_show(c, fd, name, &done);

	if (!code)
		remote_read_env(&done, ret_env);
	return code;
}

int run_env_mount(const struct call *c, int *fd, const char *ref,
		  const struct ports_wish *ports, struct remote_env *ret_env)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	char name[REMOTE_NAME_BYTES];
	int code;

	msg_begin(&request, CTL_MOUNT);
	msg_put_str(&request, CTL_TAG_REF, ref);
	if (ports)
		ports_ask(&request, ports);
	code = remote_call(c, fd, &request, NULL, NULL, &done);
	if (code)
		return code;
	remote_read_env(&done, ret_env);
	memcpy(name, ret_env->name, sizeof name);
	return ask_show(c, fd, name, ret_env);
}

int run_env_find(const struct call *c, const char *arg, int *fd,
		 struct remote_env *ret_env)
{
	char name[REMOTE_NAME_BYTES];
	int code = remote_connect_env(c, arg, REMOTE_WITHIN, fd, name);

	if (!code)
		code = ask_show(c, fd, name, ret_env);
	if (!code && !strcmp(ret_env->state, "kept"))
		code = run_env_mount(c, fd, name, NULL, ret_env);
	if (!code && strcmp(ret_env->state, "mounted") != 0)
		code = call_fail(c, CODE_BUSY, "%s: it is %s", name,
				 ret_env->state);
	return code;
}

bool run_env_umount(const struct call *c, const char *name,
		    const char *artifacts)
{
	const char *const argv[] = {"cowfs",
				    "--store",
				    c->store,
				    "umount",
				    name,
				    artifacts ? "--artifacts" : NULL,
				    artifacts,
				    NULL};
	sigset_t none;
	int state;
	pid_t pid = fork();

	if (pid == 0) {
		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)chdir("/");
		(void)dup2(STDERR_FILENO, STDOUT_FILENO);
		(void)execv("/proc/self/exe", (char *const *)argv);
		_exit(CODE_FAILED);
	}
	while (pid > 0 && waitpid(pid, &state, 0) < 0)
		if (errno != EINTR)
			return false;
	return pid > 0 && WIFEXITED(state) && !WEXITSTATUS(state);
}
