/* SPDX-License-Identifier: MIT */
/*
 * sign_int.h - who writes a commit, and its bytes.
 *
 * Contract
 *   Ownership   git_signature_free frees a signature
 *   Threads     one: reads the environment
 *   Errors      -EINVAL: not a name with an address; diag says it
 */
#ifndef COWFS_GIT_SIGN_INT_H
#define COWFS_GIT_SIGN_INT_H

#include "git/lib_int.h"

GIT_LIB_CLEANUP(git_signature)
#define _cleanup_git_signature_ _cleanup_(git_signature_freep)

/* "Name <address>", now. */
_must_check_ int gitsign_parse(const char *text, struct diag *diag,
			       git_signature **ret_who);
/* Whom git would name: GIT_WHO_NAME and GIT_WHO_EMAIL ("AUTHOR" or
 * "COMMITTER"), the config; else the user of this machine. */
_must_check_ int gitsign_default(git_repository *repo, const char *who,
				 git_signature **ret_who);

struct gitcommit {
	git_oid tree;
	const git_oid *parents;
	size_t parent_count;
	const git_signature *author, *committer;
	const char *message; /* a newline is added when it has none */
};
/* Appends the bytes of a commit. */
void gitcommit_encode(const struct gitcommit *c, struct buf *out);

#endif
