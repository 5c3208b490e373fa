/* SPDX-License-Identifier: MIT */
/*
 * db.h - what `cowfs db` is made of: finding a cluster and its programs,
 * running its server in the sandbox, bringing its data back.
 *
 * Contract
 *   Ownership   cmd_db.c makes and frees it; freeing ends no server
 *   Threads     one
 *   Errors      exit codes of exitcode.h; the error has been said
 */
#ifndef COWFS_CLI_DB_H
#define COWFS_CLI_DB_H

#include "cli/run.h"

/* The options, in the order of the table. */
enum { DB_PORT, DB_ROLE, DB_DATABASE };

struct db {
	const struct call *c;
	int fd; /* to the server */
	struct remote_env env;
	int top;  /* the mount */
	int lock; /* of box_db_lock */
	bool has_record;
	struct box_db record;
	/* A cluster. */
	int data;	    /* its directory */
	char dir[PATH_MAX]; /* the same, below the environment's root */
	unsigned version;
	char bin[PATH_MAX]; /* of its version's programs */
	uid_t uid;	    /* who runs it */
	gid_t gid;
	/* The sandbox. */
	struct box box;
	char at[PATH_MAX]; /* where the environment appears in it */
};

/* Finds the environment, mounted, and locks its database. */
_must_check_ int db_open(struct db *d, const char *name);

/* --- db_kind.c ----------------------------------------------------------- */

/* Sets dir and data: arg, or the directory of the record, or the only one that
 * there is. */
_must_check_ int db_find_dir(struct db *d, const char *arg);
/* Sets version and bin. */
_must_check_ int db_find_programs(struct db *d);
/* Sets uid and gid, and makes the data theirs where root owns it. */
_must_check_ int db_find_user(struct db *d);

/* --- db_server.c --------------------------------------------------------- */

/* The sandbox: the one that runs, or a new one. */
_must_check_ int db_enter(struct db *d);
/* Whether a server runs on the directory in the sandbox, on record or not. */
bool db_has_server(const struct db *d);
/* Starts the server of dir and writes the record; port 0: chosen. One that runs
 * there and is not on record is taken over if `db` has started it. */
_must_check_ int db_start(struct db *d, unsigned port);
/* Stops the server of the record; rough: as its data is not wanted. */
_must_check_ int db_stop(struct db *d, bool rough);

/* --- db_reset.c ---------------------------------------------------------- */

/* Makes the directory what it is in the snapshot. */
_must_check_ int db_restore(struct db *d);

#endif
