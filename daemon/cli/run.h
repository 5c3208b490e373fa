/* SPDX-License-Identifier: MIT */
/*
 * run.h - what `cowfs run` is made of: the sandbox it wants, and the variables.
 *
 * Contract
 *   Ownership   *_fini frees; strings of the command line are lent
 *   Threads     one
 *   Errors      exit codes of exitcode.h; the error has been said
 */
#ifndef COWFS_CLI_RUN_H
#define COWFS_CLI_RUN_H

#include "box/box.h"
#include "cli/remote.h"

/* The options, in the order of the table. */
enum {
	RUN_NEW,
	RUN_AT,
	RUN_RW,
	RUN_RO,
	RUN_HIDE,
	RUN_ENV,
	RUN_ENV_FILE,
	RUN_SECRET,
	RUN_USER,
	RUN_NET,
	RUN_ALLOW_HOST,
	RUN_NESTED,
	RUN_MEMORY,
	RUN_CPUS,
	RUN_PIDS,
	RUN_TIMEOUT,
	RUN_DETACH,
};

/* A sandbox's description, and what it points to. */
struct run_spec {
	struct box_spec spec;
	char *at, *cwd;
	struct box_path *paths;
	char **texts;	   /* of paths */
	const char **allow;
	struct buf hidden; /* strings, each ending in NUL */
	const char **hidden_list;
};

void run_spec_fini(struct run_spec *s);
/* From the command line and what the server says of the environment. */
_must_check_ int run_spec_make(const struct call *c, const struct remote_env *e,
			       struct run_spec *ret_spec);
/* Adds what must not be seen: other environments, origins, sockets. */
_must_check_ int run_spec_hide(const struct call *c, int *fd,
			       struct run_spec *s);

/* The variables of the command: the clean list and what options add. */
_must_check_ int run_vars(const struct call *c, const struct box_spec *spec,
			  uid_t uid, struct buf *ret_vars);

#endif
