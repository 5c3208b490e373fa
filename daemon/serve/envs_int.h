/* SPDX-License-Identifier: MIT */
/*
 * envs_int.h - which environments are mounted where.
 *
 * A name is acquired by one operation at a time; the next waits. Operations on
 * different names run in parallel. Kept environments are only folders and have
 * no entry here.
 *
 * Contract
 *   Ownership   the registry owns entries; what an entry points to belongs to
 *               whoever has acquired it
 *   Threads     any; fields of an entry are changed by the one who acquired
 *               it, through envs_publish and envs_clear
 *   Errors      -ETIMEDOUT: another operation takes too long; -ESHUTDOWN: the
 *               server is ending
 */
#ifndef COWFS_SERVE_ENVS_INT_H
#define COWFS_SERVE_ENVS_INT_H

#include "base/buf.h"
#include "base/name.h"
#include "env/env.h"
#include "serve/keeper_int.h"

struct envs;
struct session;

enum envs_state {
	ENVS_NONE, /* not mounted */
	ENVS_MOUNTED,
	ENVS_DETACHED, /* no path any more, but a copy elsewhere lives */
};

struct envs_mount {
	enum envs_state state;
	char path[KEEPER_PATH_BYTES]; /* as the user gave it */
	char real[KEEPER_PATH_BYTES];
	uint32_t major;
	uint32_t minor;
	uint32_t keeper_id; /* of the request that mounted */
	bool remove;	    /* the mount point goes at unmount */
	bool read_only;
	bool told;	 /* the log knows that its ttl is over */
	uint64_t due_ns; /* when its ttl is over (monotonic); 0: never */
	uint64_t try_ns; /* not before */
	struct env *env;
	struct session *session;
};

struct envs_entry {
	struct envs_entry *next;
	struct envs *envs;
	char name[NAME_MAX_ENV + 1];
	bool busy;
	unsigned waiters;
	struct envs_mount mount;
};

_must_check_ int envs_new(struct envs **ret_envs);
void envs_free(struct envs *e);

/* Acquires a name, waiting up to wait_ms for another operation on it. */
_must_check_ int envs_acquire(struct envs *e, const char *name,
			      unsigned wait_ms, struct envs_entry **ret_entry);
void envs_release(struct envs_entry *entry);
/* Sets and empties what an acquired entry says. */
void envs_publish(struct envs_entry *entry, const struct envs_mount *m);
void envs_clear(struct envs_entry *entry);

/* Sets when the ttl of an acquired entry is over; 0: never. */
void envs_set_due(struct envs_entry *entry, uint64_t due_ns);

/* What is known of a name. */
struct envs_look {
	enum envs_state state;
	char path[KEEPER_PATH_BYTES]; /* "" when it is not mounted */
	bool read_only;
	uint64_t due_ns;
	struct env_use use; /* of what is mounted */
};

/* Copies it, without waiting for operations. */
void envs_peek(struct envs *e, const char *name, struct envs_look *ret_look);
/* Appends the names whose ttl is over and on which nobody works, each ending
 * in NUL; they are not named again before next_ns. */
void envs_due(struct envs *e, uint64_t now_ns, uint64_t next_ns,
	      struct buf *out);
/* Appends the names of what is mounted, each ending in NUL. */
void envs_names(struct envs *e, struct buf *out);
/* Says whether the entry is mounted and no operation works on it. */
bool envs_is_resting(struct envs_entry *entry);
/* How many are mounted; a HOME is no environment of its own. */
size_t envs_count(struct envs *e);
/* Refuses every later envs_acquire, if nothing is mounted or in work. Says
 * whether it did. */
bool envs_shut(struct envs *e);
/* When the registry became empty (monotonic ns); UINT64_MAX: it is not. */
uint64_t envs_idle_since(struct envs *e);

#endif
