/* SPDX-License-Identifier: MIT */
/*
 * Who may be in the store at once: writers of objects together, or one gc.
 *
 * A writer that finds an object in the store does not write it again, so
 * nothing may be deleted between that look and its commit: each holds
 * STORE/lock shared, gc takes it alone for as long as it marks and deletes.
 * flock is not fair: with a stream of imports gc would never get it. So
 * everybody passes a gate before, the flock of the folder segments/: a writer
 * holds it shared for the moment of taking the lock, gc holds it alone while it
 * waits and works.
 *
 * fsck looks at rows first and at segments afterwards, which gc may have
 * removed by then: it shares the flock of the file `format`, which gc has alone
 * from beginning to end.
 *
 * Not everybody who needs gc kept out writes objects: a server that turns a
 * snapshot into an environment takes STORE/lock without the gate, so that it
 * waits for the work of a gc only and never for the imports that gc waits for.
 */
#include "store/store_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/io.h"

/* Opens and locks, as io_lock. */
static int lock_name(struct store *s, const char *name, int op)
{
	_cleanup_close_ int fd =
		openat(s->fd, name,
		       O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int r;

	if (fd < 0)
		return -errno;
	r = io_lock(fd, op);
	return r < 0 ? r : TAKE_FD(fd);
}

int gate_enter_int(struct store *s, int *ret_lock)
{
	_cleanup_close_ int gate = lock_name(s, "segments", LOCK_SH);
	int lock;

	if (gate < 0)
		return gate;
	lock = lock_name(s, "lock", LOCK_SH);
	if (lock < 0)
		return lock;
	*ret_lock = lock;
	return 0;
}

int store_pin(struct store *s, int *ret_pin)
{
	int lock = lock_name(s, "lock", LOCK_SH);

	if (lock < 0)
		return lock;
	*ret_pin = lock;
	return 0;
}

bool store_is_collecting(struct store *s)
{
	_cleanup_close_ int gate = lock_name(s, "segments", LOCK_SH | LOCK_NB);

	return gate == -EBUSY;
}

/* Takes a lock alone, and says when it has to wait for it. */
static int lock_alone(struct store *s, const char *name,
		      void (*waiting)(void *), void *ctx)
{
	int fd = lock_name(s, name, LOCK_EX | LOCK_NB);

	if (fd != -EBUSY)
		return fd;
	if (waiting)
		waiting(ctx);
	return lock_name(s, name, LOCK_EX);
}

int gate_close_int(struct store *s, void (*waiting)(void *), void *ctx,
		   struct gate *ret_gate)
{
	/* First, so that imports do not wait for a check, too. */
	_cleanup_close_ int checks = lock_alone(s, "format", waiting, ctx);
	_cleanup_close_ int gate = -1;
	int lock;

	if (checks < 0)
		return checks;
	gate = lock_alone(s, "segments", waiting, ctx);
	if (gate < 0)
		return gate;
	lock = lock_alone(s, "lock", waiting, ctx);
	if (lock < 0)
		return lock;
	*ret_gate = (struct gate){.gate = TAKE_FD(gate),
				  .lock = lock,
				  .checks = TAKE_FD(checks)};
	return 0;
}

int gate_open_int(struct gate *g)
{
	/* Not atomic. Another gc waits at the gate; whoever takes the lock
	 * without it may come between, which gc_move.c allows for. */
	int r = io_lock(g->lock, LOCK_SH);

	if (r < 0)
		return r;
	(void)close(TAKE_FD(g->gate));
	return 0;
}

void gate_leave_int(struct gate *g)
{
	if (g->gate >= 0)
		(void)close(TAKE_FD(g->gate));
	if (g->lock >= 0)
		(void)close(TAKE_FD(g->lock));
	if (g->checks >= 0)
		(void)close(TAKE_FD(g->checks));
}
