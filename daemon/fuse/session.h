/* SPDX-License-Identifier: MIT */
/*
 * session.h - the kernel door: one FUSE connection served from one thread.
 *
 * The keeper has opened /dev/fuse and mounted; a session takes the descriptor,
 * answers the kernel by calling fs/env, and ends when the kernel ends the
 * connection. It never touches a path.
 *
 * Contract
 *   Ownership   session_start takes fd in every case; the env is lent and must
 *               outlive the session
 *   Durability  see env.h
 *   Threads     any; on_end is called from the session's thread, last
 *   Errors      negative errno
 */
#ifndef COWFS_FUSE_SESSION_H
#define COWFS_FUSE_SESSION_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct env;
struct session;

/* The mount options that a descriptor must have been mounted with, beside
 * fd=, user_id=, group_id= and (for root) allow_other. */
#define SESSION_MOUNT_OPTIONS "rootmode=40000,default_permissions"
#define SESSION_FS_TYPE	      "fuse.cowfs"

struct session_options {
	bool debug;	/* log every request at debug level */
	bool no_births; /* do not tell when files were made */
};

typedef void (*session_end_fn)(void *ctx);

_must_check_ int session_start(struct env *e, int fd,
			       const struct session_options *options,
			       session_end_fn on_end, void *ctx,
			       struct session **ret_session);
/* Waits until the kernel has ended the connection; -ETIMEDOUT. */
_must_check_ int session_wait_end(struct session *s, unsigned timeout_ms);
/* Joins the thread and frees; the connection must have ended. NULL allowed. */
void session_free(struct session *s);

struct session_counters {
	uint64_t requests;
	uint64_t lookups;
	uint64_t reads;
	uint64_t writes;
	uint64_t cached_writes; /* of pages that a mapping changed */
};
/* Returns the version of the libfuse that is built in. */
const char *session_libfuse(void);
void session_count(struct session *s, struct session_counters *ret_counters);

#endif
