/* SPDX-License-Identifier: MIT */
/*
 * session_int.h - the state of one connection, shared by the door's files.
 *
 * A session has one thread that reads, and a second one from the first fsync on
 * (fsync.c): one of them reads at a time. Everything that is not protected by
 * the lock belongs to the one that does; the counters may be read by others
 * (relaxed).
 *
 * Contract
 *   Ownership   session_free
 *   Threads     the one that reads, unless noted at the field
 */
#ifndef COWFS_FUSE_SESSION_INT_H
#define COWFS_FUSE_SESSION_INT_H

#include "base/mutex.h"
#include "fuse/pace.h"
#include "fuse/session.h"

#include <fuse_lowlevel.h>
#include <linux/fuse.h>

enum {
	/* The largest READ and WRITE; the kernel's own limit is 256 pages. */
	SESSION_MAX_IO = 1 << 20,
	/* Room for the headers before a WRITE's data: a page. */
	SESSION_HEAD_ROOM = 4096,
};

/* Flags of the raw request that libfuse does not hand on. */
struct raw_flags {
	bool kill_suidgid; /* WRITE: clear setuid, setgid, capabilities */
	bool kill_sgid;	   /* SETXATTR of an ACL: clear setgid */
	bool from_cache;   /* WRITE: pages changed through a mapping */
};

struct session {
	struct env *env;	 /* lent */
	struct fuse_session *se; /* owns the descriptor */
	bool debug, no_births;
	session_end_fn on_end;
	void *ctx;

	/* The request being served. */
	const struct fuse_in_header *head;
	struct raw_flags raw;
	unsigned owed; /* replies that started operations still owe */
	bool patient;  /* a quota's refusal is not final */
	bool refused;  /* so it was: nothing was answered */
	uint64_t last_bad_ino;
	int last_bad_err;

	char *in_map; /* one mapping: the receive buffer, then out */
	char *out;    /* answers are built here, SESSION_MAX_IO */
	struct session_counters count;

	struct pace pace;

	bool sync_here; /* this thread is to serve those that wait */

	pthread_t thread;
	struct mutex lock;
	pthread_cond_t end_cond;
	/* protected by lock */
	bool ended;
	bool reading; /* a thread reads */
	bool syncing; /* a thread serves those that wait */
	bool has_second;
	pthread_t second;
	pthread_cond_t may_read;
	struct waiting *waiting, **waiting_tail; /* fsyncs, in order */
};

/* Adds one to a counter that other threads may read. */
static inline void session_tick(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

#endif
