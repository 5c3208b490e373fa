/* SPDX-License-Identifier: MIT */
/*
 * check.h - the rules of docs/format.md about environments, checked.
 *
 * For fsck, which runs in a command's process and needs no server. Nothing is
 * changed but by env_mend and env_clear_unborn.
 *
 * Contract
 *   Ownership   texts are lent for the duration of the callback
 *   Threads     any
 *   Errors      of reading; damage is told, and no error
 */
#ifndef COWFS_ENV_CHECK_H
#define COWFS_ENV_CHECK_H

#include "store/store.h"

#include <stdbool.h>

enum env_state {
	ENV_SOUND,
	ENV_BUSY,     /* mounted: whoever has it checked it at its open */
	ENV_TORN,     /* a tail that is no whole frame: env_mend cuts it */
	ENV_LOST,     /* it cannot be opened */
	ENV_ROOTLESS, /* its snapshot is not in the store */
};

struct env_checked {
	enum env_state state;
	bool has_snapshot; /* the file `env` could be read */
	struct oid snapshot;
};

typedef void (*env_check_fn)(void *ctx, const char *rule, const char *text);

/* Checks STORE/envs/NAME; fn is told of each rule that is broken. */
_must_check_ int env_check(struct store *s, const char *name, env_check_fn fn,
			   void *ctx, struct env_checked *ret);
/* Opens it for changes and closes it, which cuts a torn tail. */
_must_check_ int env_mend(struct store *s, const char *name);
/* Says whether this is what the machine's death has left of an environment that
 * was new and never committed: nothing. */
bool env_is_unborn(struct store *s, const char *name);
/* Moves all of these to trash/; also beside a server. */
_must_check_ int env_clear_unborn(struct store *s);

#endif
