/* SPDX-License-Identifier: MIT */
/*
 * server_int.h - what the parts of the server share, and its requests.
 *
 * A handler returns the exit code of the contract, or a negative errno to
 * close the connection without an answer. Lines for the user go into diag:
 * "what: why" first, then what to do.
 *
 * Contract
 *   Ownership   serve.c makes and frees the parts
 *   Threads     handlers run in connection threads, several at once
 */
#ifndef COWFS_SERVE_SERVER_INT_H
#define COWFS_SERVE_SERVER_INT_H

#include "base/mutex.h"
#include "ctl/server.h"
#include "env/env.h"
#include "serve/envs_int.h"
#include "serve/link_int.h"
#include "serve/tend_int.h"
#include "serve/worker_int.h"

enum {
	CODE_DONE = 0,
	CODE_USAGE = 2,
	CODE_FAILED = 3,
	CODE_BUSY = 4,
};

struct server {
	const char *path; /* of the store, as the user gave it */
	struct store *store;
	struct link *link;
	struct worker *worker;
	struct tend *tend;
	struct envs *envs;
	int events; /* eventfd that wakes the main thread */
	int64_t started_sec;
	bool stop; /* atomic: CTL_STOP was accepted */
	bool lost; /* atomic: the keeper has died */
};

typedef int (*server_handler)(struct server *s, const struct ctl_peer *peer,
			      const struct msg *request, struct msg *done,
			      struct diag *diag);

/* The ctl_handler_fn of all requests; ctx is a struct server. */
int handlers_answer(void *ctx, const struct ctl_peer *peer,
		    const struct msg *request, struct msg *done);

int mount_handle(struct server *s, const struct ctl_peer *peer,
		 const struct msg *request, struct msg *done,
		 struct diag *diag);
int umount_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag);
int diff_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag);

/* Acquires an existing environment by the request's NAME. Returns 0, a code
 * with lines in diag, or a negative errno. */
_must_check_ int handlers_acquire(struct server *s, const struct msg *request,
				  struct diag *diag,
				  struct envs_entry **ret_entry);
/* The same for a name; the environment need not exist. */
_must_check_ int handlers_acquire_name(struct server *s, const char *name,
				       struct diag *diag,
				       struct envs_entry **ret_entry);
/* Says whether STORE/envs/NAME is there. */
bool handlers_env_exists(struct server *s, const char *name);

/* Empties the trash; for the worker. */
void umount_empty_trash(void *ctx, void *arg);
/* Unmounts everything for good and keeps it: at SIGTERM. */
void umount_keep_all(struct server *s);
/* The session's end callback: ctx is a struct umount_watch. Notices mounts
 * that end without us (umount by hand, an aborted connection). */
struct umount_watch {
	struct server *server;
	struct envs_entry *entry;
};
void umount_on_end(void *ctx);
/* Frees session and environment of an acquired entry whose connection has
 * ended; the environment is kept. */
void umount_reap(struct server *s, struct envs_entry *entry);

#endif
