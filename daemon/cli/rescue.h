/* SPDX-License-Identifier: MIT */
/*
 * rescue.h - a kept environment is rescued, and only then destroyed.
 *
 * Contract
 *   Ownership   rescued_fini frees what was returned
 *   Threads     one; before store_open (serve.h)
 *   Errors      exit codes; the error has been said on standard error, and the
 *               environment is there as before
 */
#ifndef COWFS_CLI_RESCUE_H
#define COWFS_CLI_RESCUE_H

#include "cli/leave.h"
#include "cli/remote.h"
#include "git/rescue.h"
#include "store/rescues.h"

enum { RESCUE_REF_BYTES = 128, RESCUE_MESSAGE_BYTES = 256 };

struct rescued {
	char name[REMOTE_NAME_BYTES];
	char git_dir[RESCUE_TEXT_MAX + 1]; /* the origin's repository, or "" */
	char git_ref[RESCUE_REF_BYTES];
	bool in_git;	   /* the origin has its part */
	struct diag notes; /* of git */
	struct buf left;   /* a list as in rescues.h */
	uint64_t changes;  /* paths */
};

void rescued_fini(struct rescued *r);
/* Rescues and destroys an environment that is not mounted; *fd is a connection
 * as in remote_call. */
_must_check_ int rescue_env(const struct call *c, int *fd, const char *env,
			    const struct leave_policy *policy,
			    struct rescued *ret);
/* Says where it is, and what is not in it. */
void rescue_tell(const struct call *c, const char *env,
		 const struct rescued *r);
/* Says of a list what is left out, a line each; at most `most` (0: all). */
void rescue_tell_left(const struct call *c, const char *what,
		      const struct buf *list, size_t most);

/* --- rescue_ref.c: the ref in the origin ---------------------------------- */

/* Whether the record says that the origin has it. */
bool rescue_has_commit(const struct rescue *r);
/* The message of the ref's commit. */
void rescue_message(const char *env, const char *rescue,
		    char ret_message[RESCUE_MESSAGE_BYTES]);
/* Looks in the origin where the record does not know. 1: it knows, or there is
 * none. */
_must_check_ int rescue_find_commit(const struct rescue *r, struct diag *diag,
				    char ret_commit[GIT_HEX_BYTES]);

#endif
