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
#include "cli/warm.h"

/* The options, in the order of the table. */
enum {
	RUN_NEW,
	RUN_ROOTFS,
	RUN_AT,
	RUN_RW,
	RUN_RO,
	RUN_HIDE,
	RUN_ENV,
	RUN_ENV_FILE,
	RUN_SECRET,
	RUN_USER,
	RUN_NET,
	RUN_PORT,
	RUN_ALLOW_HOST,
	RUN_NESTED,
	RUN_MEMORY,
	RUN_CPUS,
	RUN_PIDS,
	RUN_TIMEOUT,
	RUN_DETACH,
	RUN_WARM,
	RUN_ARTIFACT,
	RUN_ARTIFACTS,
};

/* Who runs, by the lists of a root. */
struct run_root {
	uid_t uid;
	gid_t gid;
	char *name;	    /* NULL: it has none */
	char *home, *shell; /* absolute paths in there */
};

/* A sandbox's description, and what it points to. */
struct run_spec {
	struct box_spec spec;
	bool any_net; /* nobody has said which network */
	struct ports_row ports;
	char *at, *cwd;
	struct box_path *paths;
	char **texts;	   /* of paths */
	const char **allow;
	struct warm_home home;
	struct run_root root;
	struct buf hidden; /* strings, each ending in NUL */
	const char **hidden_list;
};

void run_spec_fini(struct run_spec *s);
/* From the command line and what the server says of the environment. */
_must_check_ int run_spec_make(const struct call *c, const struct remote_env *e,
			       struct run_spec *ret_spec);
/* Finds the HOME of its commands, made for cmd's user where there is none; with
 * the option --warm it has the caller's caches. */
_must_check_ int run_spec_home(const struct call *c, int *fd,
			       const struct box_command *cmd,
			       struct run_spec *s);
/* Adds what must not be seen: other environments, origins, sockets. */
_must_check_ int run_spec_hide(const struct call *c, int *fd,
			       struct run_spec *s);

/* --- run_env.c ----------------------------------------------------------- */

/* Mounts what ref names, an environment or a new one of a snapshot, with these
 * ports (NULL: as they are); env is then all that SHOW tells. fd: to the
 * server. */
_must_check_ int run_env_mount(const struct call *c, int *fd, const char *ref,
			       const struct ports_wish *ports,
			       struct remote_env *ret_env);
/* Connects, finds the environment that an argument names, and mounts it where
 * it is kept. */
_must_check_ int run_env_find(const struct call *c, const char *arg, int *fd,
			      struct remote_env *ret_env);
/* Ends it by a command like any other, whose output goes to standard error;
 * artifacts: where they are copied before, absolute, or NULL. false: it has not
 * succeeded. */
_must_check_ bool run_env_umount(const struct call *c, const char *name,
				 const char *artifacts);

/* --- run_root.c ---------------------------------------------------------- */

/* Finds the user of --user, or the caller, in the lists of the root that is
 * mounted there. */
_must_check_ int run_root_user(const struct call *c, const char *mount,
			       const char *user, struct run_root *ret_root);
void run_root_fini(struct run_root *root);

/* --- run_net.c ----------------------------------------------------------- */

/* Which network: by the options, or what is kept with the environment. */
_must_check_ int run_net_find(const struct call *c,
			      const struct ports_row *kept, struct run_spec *s);
/* Joins the sandbox, or starts it; then spec.net is what it has, and ports what
 * is leased for it. fd: to the server. */
_must_check_ int run_box_open(const struct call *c, int *fd, struct run_spec *s,
			      struct box *ret_box);

/* --- run_vars.c ---------------------------------------------------------- */

/* The variables that options set, and what of them is secret. */
_must_check_ int run_vars_own(const struct call *c, struct buf *ret_own,
			      struct mask *ret_secrets);
/* All variables of a command: the clean list, what the sandbox sets, and own,
 * which goes before. */
void run_vars(const struct run_spec *s, uid_t uid, const struct buf *own,
	      struct buf *ret_vars);

#endif
