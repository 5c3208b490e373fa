/* SPDX-License-Identifier: MIT */
/*
 * How: an fsync waits for the disk, and others must not wait with it. The
 * thread that has read it hands the reading over to a second one, which the
 * first fsync of a session starts, waits for the disk itself and answers: so
 * nobody is woken on the way of the fsync, and waking the other thread happens
 * while the disk works. An fsync that is read meanwhile joins the list; one
 * commit serves all that wait when it begins.
 *
 * Whoever reads has everything of the session that is not under its lock.
 */
#include "fuse/ops_int.h"

#include <errno.h>
#include <stdlib.h>

struct waiting {
	struct waiting *next;
	fuse_req_t req;
};

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *fi)
{
	struct session *s = op_begin(req);
	struct waiting *w = NULL;

	if (!env_is_synced(s->env))
		w = malloc(sizeof *w);
	if (!w) {
		reply_status(req, env_sync(s->env));
		return;
	}
	*w = (struct waiting){.req = req};
	reply_later(req);
	mutex_lock(&s->lock);
	*s->waiting_tail = w;
	s->waiting_tail = &w->next;
	/* else the one that syncs takes this along */
	if (!s->syncing)
		s->syncing = s->sync_here = true;
	mutex_unlock(&s->lock);
}

static struct waiting *take_waiting(struct session *s)
{
	struct waiting *w;

	mutex_lock(&s->lock);
	w = s->waiting;
	s->waiting = NULL;
	s->waiting_tail = &s->waiting;
	if (!w)
		s->syncing = false;
	mutex_unlock(&s->lock);
	return w;
}

void session_sync(struct session *s)
{
	struct waiting *w;

	while ((w = take_waiting(s))) {
		int err = env_sync(s->env);

		while (w) {
			struct waiting *next = w->next;

			reply_synced(w->req, err);
			free(w);
			w = next;
		}
	}
}
