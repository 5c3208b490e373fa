/* SPDX-License-Identifier: MIT */
/*
 * remote.h - asking the server, and saying what it answered.
 *
 * Contract
 *   Ownership   the caller closes descriptors and frees messages
 *   Threads     one; before store_open (serve.h)
 *   Errors      exit codes; the error has been said on standard error
 */
#ifndef COWFS_CLI_REMOTE_H
#define COWFS_CLI_REMOTE_H

#include "cli/cmd.h"
#include "cli/limits.h"
#include "cli/ports.h"
#include "ctl/client.h"

enum { REMOTE_NAME_BYTES = 65 }; /* an environment's name with its NUL */

/* Whether there is a store; errno tells why not. */
bool remote_has_store(const struct call *c);
/* Whether it has environments, mounted or not: 1, 0 or an error number. */
_must_check_ int remote_has_envs(const struct call *c);
/* Whether there is an environment's folder; errno tells why not. */
bool remote_has_env(const struct call *c, const char *name);
/* Says why there are none, unless that is in order: what remote_has_envs
 * returned, or something that is no store lies where it should be. */
_must_check_ int remote_check_envs(const struct call *c, int err);
/* Connects, starting the server when none runs. */
_must_check_ int remote_connect(const struct call *c, int *ret_fd);
/* Says that the store is another user's. */
int remote_fail_denied(const struct call *c);
/* Asks; says the lines of an answer that is not "done". ret_done is set on
 * CODE_DONE only. A connection that breaks before anything was received is
 * made once more, so *fd may change; it is -1 when the server was lost. */
_must_check_ int remote_call(const struct call *c, int *fd,
			     const struct msg *request, client_row_fn fn,
			     void *ctx, struct msg *ret_done);

/* Tells of all environments by rows of CTL_LIST: those of the server, or when
 * none runs those of the store; starts none. */
_must_check_ int remote_list(const struct call *c, client_row_fn fn, void *ctx);

/* Says that the server at the other end of fd does not answer, and which
 * process it is; returns code. */
int remote_fail_silent(const struct call *c, int fd, int code);
/* Says the lines of an answer; returns its code. */
int remote_say(const struct call *c, const struct msg *done, int code);

/* One environment, as CTL_LIST and CTL_SHOW tell it. */
struct remote_env {
	char name[REMOTE_NAME_BYTES];
	char state[16];
	char snapshot[64];
	char ref[256];
	char path[4352];
	char source[4352];
	uint64_t created;
	struct limits_row limits;
	struct ports_row ports;
};
/* Reads a text of a row or an answer; what is missing is "". */
void remote_read_str(const struct msg *m, enum ctl_tag tag, char *s,
		     size_t size);
/* Reads a row in that way. */
void remote_read_env(const struct msg *row, struct remote_env *ret_env);

/* Finds an environment in the list by its name; says when it is not there. */
_must_check_ int remote_list_one(const struct call *c, const char *name,
				 struct remote_env *ret_env);

enum remote_match {
	REMOTE_EXACT,  /* a path must be the mount point */
	REMOTE_WITHIN, /* or anything below it */
};
/* Finds the environment that an argument names: itself or its path. */
_must_check_ int remote_find(const struct call *c, int *fd, const char *arg,
			     enum remote_match match,
			     char ret_name[REMOTE_NAME_BYTES]);
/* remote_connect and remote_find; without a store the name is unknown. */
_must_check_ int remote_connect_env(const struct call *c, const char *arg,
				    enum remote_match match, int *ret_fd,
				    char ret_name[REMOTE_NAME_BYTES]);
/* Asks for all that CTL_SHOW tells of an environment. */
_must_check_ int remote_show(const struct call *c, int *fd, const char *name,
			     struct msg *ret_done);

#endif
