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
#include "serve/leases_int.h"
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
	struct leases *leases;
	int events; /* eventfd that wakes the main thread */
	int64_t started_sec;
	bool stop; /* atomic: CTL_STOP was accepted */
	bool lost; /* atomic: the keeper has died */
	bool held; /* atomic: somebody still has a private view open */
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
/* Has the kernel write back what only it knows of a mounted environment. */
_must_check_ int diff_write_back(struct server *s, const struct envs_mount *m);
int snapshot_handle(struct server *s, const struct ctl_peer *peer,
		    const struct msg *request, struct msg *done,
		    struct diag *diag);
int view_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag);
int freeze_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag);
int restore_handle(struct server *s, const struct ctl_peer *peer,
		   const struct msg *request, struct msg *done,
		   struct diag *diag);
int limits_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag);
int publish_handle(struct server *s, const struct ctl_peer *peer,
		   const struct msg *request, struct msg *done,
		   struct diag *diag);

/* --- publish.c ----------------------------------------------------------- */

/* The network and ports that a request asks for. */
struct publish_wish {
	bool has_net, has_ports;
	enum env_net net;
	struct env_ports ports;
};

/* Returns 0, or a code with lines in diag. */
_must_check_ int publish_read(const struct msg *m,
			      struct publish_wish *ret_wish, struct diag *diag);
void publish_merge(const struct publish_wish *w, struct env_info *info);
/* Leases what an acquired environment with this info needs; returns a code. */
_must_check_ int publish_lease(struct server *s, const char *name,
			       const struct env_info *info, struct diag *diag);
/* The same, and what cannot be had is only written into the log. */
void publish_renew(struct server *s, const char *name,
		   const struct env_info *info);
/* Changes those of an acquired environment, mounted or not; returns a code. */
_must_check_ int publish_change(struct server *s, const char *name,
				const struct publish_wish *w,
				struct diag *diag);
/* Adds network, ports and, of all leases, its own to a row. */
void publish_put(const struct buf *leases, const char *name,
		 const struct env_info *info, struct msg *m);

int home_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag);

/* --- mount.c ------------------------------------------------------------- */

/* Mounts an acquired environment, or HOME, whose folder exists. Returns a code.
 */
_must_check_ int mount_open(struct server *s, struct envs_entry *entry,
			    struct env_info *info, uint64_t flags,
			    struct diag *diag);

/* --- homes.c ------------------------------------------------------------- */

/* Where the HOME of that name is mounted. */
void homes_point(const struct server *s, const char *home, char *path,
		 size_t size);
/* Unmounts the HOME of an acquired environment if it is mounted, and nobody
 * uses either: of the environment that may have been checked. Returns 0 or a
 * code; ret_home: for homes_close. */
_must_check_ int homes_end(struct server *s, const struct envs_entry *entry,
			   bool checked, struct diag *diag,
			   struct env **ret_home);
/* Ends the processes outside of its sandbox that use its HOME; adds a line for
 * each. The sandbox has ended. */
_must_check_ int homes_kill(struct server *s, const struct envs_entry *entry,
			    pid_t asker, struct msg *done, struct diag *diag);
/* Unmounts the HOME of one that is not mounted any more, unless it is in use.
 */
void homes_drop(struct server *s, const struct envs_entry *entry);
/* Closes it: on stable storage when its environment is still there. NULL is
 * allowed. */
void homes_close(struct server *s, const char *env, struct env *home);

/* --- limits.c ------------------------------------------------------------ */

enum { LIMITS_BYTES = 1, LIMITS_INODES = 2, LIMITS_TTL = 4 };

/* The bounds that a request asks for: those in `set`. */
struct limits_wish {
	unsigned set;
	struct env_limits to;
};

/* Returns 0, or a code with lines in diag. */
_must_check_ int limits_read(const struct msg *m, struct limits_wish *ret_wish,
			     struct diag *diag);
void limits_merge(const struct limits_wish *w, struct env_limits *limits);
/* When a ttl that begins now ends (monotonic ns); 0: never. */
uint64_t limits_due(const struct env_limits *limits);
/* Changes those of an acquired environment, mounted or not; returns a code. */
_must_check_ int limits_change(struct server *s, struct envs_entry *entry,
			       const struct limits_wish *w, struct diag *diag);
/* Adds bounds and use to a row. */
void limits_put(const struct env_limits *limits, const struct envs_look *look,
		struct msg *m);
void limits_put_use(const struct env_use *use, struct msg *m);
/* Has everything unmounted and kept whose ttl is over; waits for nothing. */
void limits_expire(struct server *s);

/* --- handlers.c ---------------------------------------------------------- */

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

/* --- rescue.c ------------------------------------------------------------ */

/* Checks that the rescue which a request names is of the state that a kept
 * environment is in, and notes the request's commit in it. Returns 0, or a code
 * with lines in diag. */
_must_check_ int rescue_check(struct server *s, const char *name,
			      const struct msg *request, struct diag *diag);

/* --- umount.c ------------------------------------------------------------ */

enum { UMOUNT_WAIT_MS = 2000, UMOUNT_KILL_MS = 10000 };

/* Unmounts an acquired entry, waits for the end of its connection, and takes
 * the environment out of it. Returns 0 or a code. */
_must_check_ int umount_end(struct server *s, struct envs_entry *entry,
			    unsigned wait_ms, struct diag *diag,
			    struct env **ret_env);
/* Closes one whose folder is gone, in the background. */
void umount_close(struct server *s, struct env *env);

/* Unmounts an acquired environment and keeps it; returns a code. */
_must_check_ int umount_keep(struct server *s, struct envs_entry *entry,
			     struct diag *diag);
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

/* --- changes.c ----------------------------------------------------------- */

/* What changed. */
struct changes {
	uint64_t paths;
	uint64_t bytes; /* of content that is new or another */
};

_must_check_ int changes_count(struct env *env, struct changes *ret);
/* Says what is thrown away with an environment (NULL: it cannot be read); much
 * is not waited for to be counted. */
void changes_say(struct env *env, const char *name, struct diag *diag);

/* --- boxes.c ------------------------------------------------------------- */

/* Ends the sandbox of an acquired environment; nothing when others use it, too.
 * Returns 0, or a code with lines in diag. ret_checked: whether it has looked
 * for others. */
_must_check_ int boxes_end(struct server *s, const struct envs_entry *entry,
			   struct msg *done, struct diag *diag,
			   bool *ret_checked);
/* Returns a code when somebody who is not in its sandbox uses an acquired
 * environment, and names them. */
_must_check_ int boxes_check_others(struct server *s,
				    const struct envs_entry *entry,
				    struct diag *diag);
/* Ends it in any case: the server ends. */
void boxes_end_last(struct server *s, const char *name);
/* Takes a sandbox's processes out of a list of an environment's users. */
void boxes_take_out(struct server *s, const char *name,
		    struct keeper_reply *reply);
/* Lists who uses a mount and is not in the sandbox; nobody: no text. */
_must_check_ int boxes_others(struct server *s, const struct envs_entry *entry,
			      struct keeper_reply *reply);
/* Calls back for each line of such a list, without its end; pid is 0 for what
 * is no process. Those for which false is returned are taken out. */
typedef bool (*boxes_user_fn)(void *ctx, pid_t pid, const char *line, size_t n);
void boxes_each_user(struct keeper_reply *reply, boxes_user_fn fn, void *ctx);

/* --- outside.c ----------------------------------------------------------- */

/* Ends the processes outside of its sandbox that use an acquired environment,
 * but not asker and what called it; adds a line for each. */
_must_check_ int outside_end(struct server *s, const struct envs_entry *entry,
			     pid_t asker, struct msg *done, struct diag *diag);
/* Says which that would be, and takes them out of a list. */
_must_check_ int outside_would_end(const struct envs_entry *entry, pid_t asker,
				   struct keeper_reply *reply,
				   struct diag *diag);

#endif
