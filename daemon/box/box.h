/* SPDX-License-Identifier: MIT */
/*
 * box.h - the sandbox of an environment, and commands in it.
 *
 * An environment has at most one sandbox: name spaces and a view of the machine
 * in which the environment appears at its origin's path and everything else of
 * the host is read-only or hidden. It is made by bubblewrap for the first
 * command and lives, held by a first process of ours (init.c), until box_end.
 * Commands are children of whoever calls box_spawn, and enter it by setns(2).
 *
 * Contract
 *   Ownership   strings are lent; box_close closes what box_open opened and
 *               ends nothing
 *   Durability  none: a sandbox ends with the machine
 *   Threads     one; box_end: any
 *   Errors      diag has "what: why" first, then what to do
 */
#ifndef COWFS_BOX_BOX_H
#define COWFS_BOX_BOX_H

#include "base/diag.h"
#include "box/record.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum box_net {
	BOX_NET_HOST,	 /* the host's */
	BOX_NET_NONE,	 /* a loopback of its own */
	BOX_NET_PRIVATE, /* the same, with a proxy to the world */
};

enum box_share { BOX_RO, BOX_RW, BOX_HIDE };

/* A path of the host that the user wants to be there, or not. */
struct box_path {
	enum box_share share;
	const char *path; /* absolute */
};

/* Of STORE/envs/NAME/box: the folder with a socket for each published port. */
#define BOX_RUN "run"

/* BOX_PROXY: the port of a private network's proxy, in there. */
enum { BOX_PORTS_MAX = 64, BOX_PROXY = 31280 };

/* Of all processes of a sandbox together; 0: none. */
struct box_limits {
	uint64_t memory; /* bytes */
	uint64_t pids;
	uint64_t cpus_milli; /* thousandths of a processor */
};

/* What a sandbox is like; fixed when it starts. */
struct box_spec {
	const char *store; /* absolute path */
	const char *env;   /* the environment's name */
	const char *mount; /* where it is mounted */
	const char *at;	   /* where it appears inside; absolute */
	/* It is the root of the sandbox, and of the host is there only what
	 * paths names; at is "/". */
	bool rootfs;
	const char *home;  /* of whoever calls; absolute */
	/* The private one that takes its place; NULL: a folder of the sandbox's
	 */
	const char *home_view;
	enum box_net net;
	const char *const *allow; /* hosts of the private one: proxy_judge */
	size_t allow_count;
	bool nested; /* may have name spaces and mounts of its own */
	struct box_limits limits;
	/* Published ports, where the network is private, and the address of the
	 * host's loopback where they are to be. */
	const uint16_t *ports;
	size_t port_count;
	uint32_t address; /* in the host's byte order */
	const struct box_path *paths;
	size_t path_count;
	/* Paths that nobody in there may see: origins, mounts, sockets. Those
	 * that do not exist are ignored. */
	const char *const *hidden;
	size_t hidden_count;
};

struct box {
	int pidfd;  /* of its first process; 0: none */
	int folder; /* of the environment's sandbox; 0: none */
	pid_t pid;
	bool nested, rootfs; /* as in its spec */
};

#define _cleanup_box_ _cleanup_(box_close)

/* Finds the environment's sandbox. -ESRCH: none runs; -EBUSY: one that is not
 * like this. spec's hidden paths are not looked at. */
_must_check_ int box_join(const struct box_spec *spec, struct diag *diag,
			  struct box *ret_box);
/* The same, and starts it when none runs. */
_must_check_ int box_open(const struct box_spec *spec, struct diag *diag,
			  struct box *ret_box);
void box_close(struct box *b);
/* Whether its sandbox, which could not be entered, has ended or is about to;
 * waits a second for that. */
bool box_is_over(const struct box *b);

/* Opens STORE/envs/ENV, or a folder in it: below is "" or "/NAME". */
_must_check_ int box_env_open(const char *store, const char *env,
			      const char *below);

/* Writes the real path of a path of which an end may be missing, and the length
 * of what exists. */
_must_check_ int box_resolve(const char *path, char **ret_real,
			     size_t *ret_exists);

/* A command. */
struct box_command {
	char *const *argv;
	char *const *vars; /* its whole environment; PATH finds it */
	const char *cwd;
	const char *home; /* a private one, that becomes the user's; or NULL */
	bool has_user;	  /* run as another one; for root */
	uid_t uid;
	gid_t gid;
	int fds[2]; /* standard output and error; 0: this process's */
};

enum box_fault {
	BOX_OURS,    /* it did not come to the command */
	BOX_NO_FILE, /* there is no such command */
	BOX_NO_EXEC, /* it cannot be executed */
};

/* Starts it as a child of this process, with its standard descriptors. On
 * failure ret_fault says whose fault it is. */
_must_check_ int box_spawn(const struct box *b, const struct box_command *cmd,
			   struct diag *diag, pid_t *ret_pid,
			   enum box_fault *ret_fault);

struct box_wait {
	uint64_t timeout_ms;   /* 0: none */
	struct record *record; /* handed on meanwhile, and ended; or NULL */
};

/* Signals that box_wait hands on have to be blocked before box_spawn. */
void box_block_signals(void);
/* Waits for the end of a command, hands signals on to it, stops and goes on
 * with it. Returns its exit code, 128 + N for a signal. */
_must_check_ int box_wait(pid_t pid, struct box_wait *wait);

/* How it was ended. */
struct box_ended {
	bool was_there;
	size_t processes; /* beside the first */
};

/* Ends the sandbox of an environment: SIGTERM to every process in it, however
 * it hides, and SIGKILL to what is left grace_ms later. Returns when nothing of
 * it is left; -EBUSY: something does not end. Does nothing when there is none.
 * No sandbox starts for an environment meanwhile. */
_must_check_ int box_end(const char *store, const char *env, unsigned grace_ms,
			 struct box_ended *ret_ended);
/* Sends a signal to every process of the sandbox. Returns how many there are
 * beside the first. -ESRCH: there is no sandbox. */
_must_check_ ssize_t box_signal(const char *store, const char *env, int sig);
/* Appends the process ids (pid_t each) of the sandbox, its first process first.
 * -ESRCH: there is none. */
_must_check_ int box_processes(const char *store, const char *env,
			       struct buf *pids);

/* Whether control groups of a sandbox are left; box_end removes them. */
bool box_has_groups(const char *store, const char *env);

/* What the processes of a sandbox take together, without the first. */
struct box_usage {
	uint64_t processes;
	uint64_t memory; /* bytes */
	uint64_t cpu_ms; /* of the living, and whom they have waited for */
};
/* Nothing where there is no sandbox. */
_must_check_ int box_usage(const char *store, const char *env,
			   struct box_usage *ret_usage);

/* Whether text is HOST, HOST:PORT, *.DOMAIN or *. */
bool proxy_is_rule(const char *text);

/* The variables that a command sees: the clean list from the caller's, with
 * what a sandbox sets. Each entry of the buffer ends in NUL. */
void box_vars(const struct box_spec *spec, uid_t uid, struct buf *ret_vars);
/* Sets one of them; NULL: takes it away. */
void box_vars_set(struct buf *vars, const char *name, const char *value);
/* Returns pointers to the entries, NULL at the end; the caller frees the
 * array. NULL: out of memory. */
char **box_vars_list(struct buf *vars);

/* What they say of ports. */
struct box_ports {
	const uint16_t *v; /* that a server is to listen at, the first first */
	size_t count;
	const char *host;  /* in COWFS_URL */
	uint16_t database; /* 0: not said */
};
/* Sets PORT, COWFS_PORT_0..., COWFS_URL, PGPORT. */
void box_ports_vars(const struct box_ports *p, struct buf *vars);
enum box_warm {
	BOX_WARM_NO,
	BOX_WARM_ASKED, /* when its owner names it */
	BOX_WARM_YES,
};

enum { BOX_NEVER_MAX = 48 };

/* The name of their snapshots: BOX_CACHE_REF ":" and a cache's name. */
#define BOX_CACHE_REF "cache"

/* A folder of a tool, or a setting. */
struct box_cache {
	const char *name; /* what users call it; may be NULL */
	const char *variable; /* NULL: another row's */
	const char *before; /* stands before the path; may be NULL */
	const char *path;   /* below HOME; NULL: before is the value */
	bool by_user;	    /* its name goes on with the user's number */
	enum box_warm warm; /* whether environments may begin with a copy */
	/* What of it, NULL at the end; NULL: everything. */
	const char *const *only;
	const char *const *never; /* patterns as of import; may be NULL */
};

/* Returns number i of the table; NULL: there are no more. */
const struct box_cache *box_cache_at(size_t i);
/* Finds one by its name, or returns NULL. */
const struct box_cache *box_cache_find(const char *name);
/* Lists what is never taken along; ret_globs has BOX_NEVER_MAX places. */
size_t box_cache_never(const struct box_cache *c, const char **ret_globs);
/* Writes where a user's tool looks for it, below HOME. */
_must_check_ int box_cache_path(const struct box_cache *c, uid_t uid,
				char *path, size_t size);
/* Writes where the caller has it: as its variable says, or below home. */
_must_check_ int box_cache_place(const struct box_cache *c, const char *home,
				 char *path, size_t size);

/* Sets those that keep the caches of tools in a HOME. */
void box_caches(const char *home, struct buf *vars);
/* Of those variables the ones that name no path: in a HOME that is new, tools
 * would ask the network each time whether they are the newest, and wait. */
void box_switches(struct buf *vars);
/* Makes an environment's HOME where it is missing, or takes the view that is
 * one, with the folders in it that tools do not make. -ENOENT: no such
 * environment. -EXDEV: a cache's folder leads out of it; ret_path: which. */
_must_check_ int box_caches_make(const char *store, const char *env,
				 const char *view, const char **ret_path);

/* The database server of an environment, as its record tells. No text has a
 * newline. */
struct box_db {
	char dir[PATH_MAX]; /* of its data, below the environment's root */
	char mount[4352];   /* where that was */
	char role[64];	    /* who may connect */
	char database[64];  /* or "" */
	unsigned port;
	uid_t uid;
	gid_t gid;
	pid_t pid;	/* 0: stopped */
	uint64_t start; /* as in base/proc.h */
};

/* Where a server's socket is in a sandbox. */
#define BOX_DB_SOCKETS "/tmp/cowfs-db"

/* Reads, writes the record. -ENOENT: there is none. */
_must_check_ int box_db_read(const char *store, const char *env,
			     struct box_db *ret_db);
_must_check_ int box_db_write(const char *store, const char *env,
			      const struct box_db *db);
/* Whether the server of a record runs. */
bool box_db_runs(const struct box_db *db);
/* Keeps others from starting, stopping or resetting a database until it is
 * closed. -EBUSY: somebody does. */
_must_check_ int box_db_lock(const char *store, const char *env);
/* Opens the file that a server's messages go to, to append and read. */
_must_check_ int box_db_log(const char *store, const char *env);
/* Sets the variables by which clients find it. top is where the environment's
 * root is, host an address or a folder of sockets. */
void box_db_vars(const struct box_db *db, const char *top, const char *host,
		 struct buf *vars);

/* What a running sandbox is like. */
struct box_look {
	char at[PATH_MAX]; /* where the environment appears */
	enum box_net net;
};
/* Finds the environment's sandbox whatever it is like, if it is one of the
 * mount as it is now. -ESRCH: there is none. */
_must_check_ int box_join_any(const struct box_spec *spec, struct box *ret_box,
			      struct box_look *ret_look);

#endif
