/* SPDX-License-Identifier: MIT */
/*
 * rescue_ref.c - the ref of a rescue whose record does not know it yet.
 *
 * A record has the ref's name from the beginning, and its commit when the
 * environment is destroyed. Where umount was killed in between there is no
 * commit in the record, and maybe a ref in the origin: it is looked for there,
 * and known by the message of its commit, which names rescue and environment.
 */
#include "cli/rescue.h"

#include <stdio.h>

bool rescue_has_commit(const struct rescue *r)
{
	return r->git_ref[0] && r->git_commit[0];
}

void rescue_message(const char *env, const char *rescue,
		    char ret_message[RESCUE_MESSAGE_BYTES])
{
	(void)snprintf(ret_message, RESCUE_MESSAGE_BYTES,
		       "cowfs: rescue of %s as %s\n", env, rescue);
}

int rescue_find_commit(const struct rescue *r, struct diag *diag,
		       char ret_commit[GIT_HEX_BYTES])
{
	char message[RESCUE_MESSAGE_BYTES];

	if (!r->git_ref[0] || r->git_commit[0])
		return 1;
	rescue_message(r->env, r->name, message);
	return gitrescue_find(r->git_dir, r->git_ref, message, diag,
			      ret_commit);
}
