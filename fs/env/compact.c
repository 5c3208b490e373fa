/* SPDX-License-Identifier: MIT */
/*
 * How: the journal holds every change, its state only the last ones. When it
 * has become much longer than that, a thread of its own makes a short one
 * beside it, while the environment works:
 *
 *   1. commit everything, the data file too; note where the journal ends (P)
 *   2. replay the journal up to P into a second environment in memory, and
 *      write its state to journal.new as frames, with a commit record behind;
 *      replay that, too: what does not give the same is not used
 *   3. copy the frames that have arrived since P behind them
 *   4. keep commits away, copy what came meanwhile, sync the file
 *   5. with the lock held copy the last few frames and rename the file
 *
 * Only 5 holds anybody up, for some frames and a rename; a commit waits for 4,
 * as it would for another one. Up to the rename the old journal is the one that
 * counts, and records go there; after it the new one says the same. All that
 * was committed before is synced in the new one, and its name is synced with
 * the next commit. A kill leaves journal.new, which the next open removes.
 *
 * The state comes from the journal and not from memory, so it needs no lock,
 * cannot change under the writer, and is the one that a replay gives. What
 * memory has dropped without a record (orphans that the kernel forgot) is left
 * out. Frames are copied under new numbers; commit records count backwards, so
 * what they say stays true.
 */
#include "env/frames_int.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	WORTH_BYTES = 1 << 20,	/* no shorter journal is compacted */
	COPIED_MOST = 8 << 20,	/* of data in commit records */
	INODE_BYTES = 200,	/* what one takes, about */
	FRAME_WANTED = 64 << 10,
	LAST_BYTES = 64 << 10,	/* copied with the lock held */
	ROUNDS = 16,
};

bool compact_is_due(const struct env *e)
{
	const struct journal *j = &e->journal;
	uint64_t own = j->end - j->copied;
	uint64_t state = MAX(j->state, e->inodes.count * INODE_BYTES);

	if (j->fd < 0 || j->broken || e->commits.failed || j->end < j->retry)
		return false;
	return (own > WORTH_BYTES && own > 2 * state) ||
	       j->copied > COPIED_MOST;
}

/* The new journal in the making. */
struct making {
	struct env *e;	   /* the one that is compacted */
	struct env *state; /* what it was at P */
	struct buf orphans; /* numbers that memory had without names at P */
	uint64_t from;	   /* P */
	int fd;
	uint64_t salt, pos, seq;
	uint64_t copied;
	struct frames rest; /* of the old journal */
};

/* --- 2: the state --------------------------------------------------------- */

static void state_free(struct env *p)
{
	if (!p)
		return;
	itable_free_all(p);
	data_close(p);
	journal_close(p);
	base_close(&p->base);
	buf_fini(&p->tx);
	mutex_fini(&p->lock);
	free(p);
}

/* Replays a journal up to a byte, into an environment in memory that only
 * reads; it is to be freed also after an error. */
static int state_load(struct making *m, int journal, uint64_t salt,
		      uint64_t end, struct env **ret_state)
{
	struct env *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	mutex_init(&p->lock);
	p->store = m->e->store;
	p->info.snapshot = m->e->info.snapshot; /* the rest may change */
	p->dirfd = m->e->dirfd; /* lent */
	p->read_only = true;
	p->data.fd = p->journal.fd = -1;
	p->data.next_block = BLOCK_FIRST;
	*ret_state = p;
	r = base_open(&p->base, p->store, &p->info.snapshot);
	if (r < 0)
		return r;
	p->next_ino = p->base.last_ino + 1;
	p->journal.salt = salt;
	p->journal.fd = fcntl(journal, F_DUPFD_CLOEXEC, 0);
	return p->journal.fd < 0 ? -errno : journal_replay_prefix(p, end);
}

/* Writes the frame that is in b. */
static int put_frame(struct making *m, struct buf *b)
{
	int r = buf_error(b);

	if (r < 0)
		return r;
	if (b->len - JOURNAL_FRAME_BYTES > JOURNAL_FRAME_MAX)
		return -E2BIG;
	journal_frame(m->salt, m->seq, b->data, b->len - JOURNAL_FRAME_BYTES);
	r = io_pwrite(m->fd, b->data, b->len, m->pos);
	if (r < 0)
		return r;
	m->pos += b->len;
	m->seq++;
	return 0;
}

/* Writes what is composed when it is enough (or all of it). */
static int flush(struct making *m, size_t enough)
{
	struct buf *b = &m->state->tx;
	int r = 0;

	if (!b->failed && b->len <= JOURNAL_FRAME_BYTES + enough)
		return 0;
	r = put_frame(m, b);
	tx_begin(m->state);
	return r;
}

static int put_xattrs(struct making *m, const struct inode *in)
{
	struct env *p = m->state;
	size_t count = 0;
	const struct xattr *x;
	int r = 0;

	if (!in->xattrs_own)
		return 0;
	r = xattr_gone_base(p, in);
	for (x = in->xattrs; x; x = x->next)
		count++;
	/* replay puts each before those that it has: the last one first */
	for (size_t i = count; i-- > 0 && r >= 0;) {
		x = in->xattrs;
		for (size_t k = 0; k < i; k++)
			x = x->next;
		tx_xattr(p, in->a.ino, x->name, x->value, x->len);
		r = flush(m, FRAME_WANTED);
	}
	return r;
}

static int put_blocks(struct making *m, const struct inode *in)
{
	struct env *p = m->state;
	int r = 0;

	if (in->has_base)
		tx_cut(p, in->a.ino, in->base_size);
	for (size_t i = 0; i < in->leaf_count && r >= 0; i++) {
		const struct leaf *l = in->leaves[i];
		uint64_t at = l->index * ENV_LEAF_BLOCKS, end = at + l->cap;

		while (at < end) {
			struct run run = map_run(in, at, end - at);

			if (run.kind != RUN_BASE)
				tx_map(p, in->a.ino, at, run.count, run.block);
			at += run.count;
		}
		r = flush(m, FRAME_WANTED);
	}
	return r;
}

static int put_inode(struct making *m, const struct inode *in)
{
	struct env *p = m->state;

	/* the base's names show as long as nothing else is said */
	if (S_ISDIR(in->a.mode) && !in->a.nlink &&
	    in->a.ino <= p->base.last_ino)
		tx_opaque(p, in->a.ino);
	tx_inode(p, &in->a);
	if (in->target)
		tx_target(p, in->a.ino, in->target);
	if (S_ISREG(in->a.mode)) {
		int r = put_blocks(m, in);

		if (r < 0)
			return r;
	}
	return put_xattrs(m, in);
}

static int put_names(struct making *m, const struct inode *in)
{
	struct env *p = m->state;
	struct hmap_cursor c = {0};
	struct hnode *n;
	int r = 0;

	if (!in->names || !in->a.nlink)
		return 0;
	while (r >= 0 && (n = hmap_each(&in->names->map, &c))) {
		const struct dent *d = container_of(n, struct dent, node);

		if (d->ino)
			tx_dent(p, in->a.ino, d->name, d->len, d->ino,
				d->cookie);
		else
			tx_gone(p, in->a.ino, d->name, d->len);
		r = flush(m, FRAME_WANTED);
	}
	tx_cookie(p, in->a.ino, in->names->next_cookie);
	return r;
}

typedef int (*put_fn)(struct making *m, const struct inode *in);

static int put_each(struct making *m, put_fn put)
{
	struct hmap_cursor c = {0};
	struct hnode *n;
	int r = 0;

	while (r >= 0 && (n = hmap_each(&m->state->inodes, &c))) {
		r = put(m, container_of(n, struct inode, node));
		if (r >= 0)
			r = flush(m, FRAME_WANTED);
	}
	return r;
}

static bool is_orphan_of(const struct making *m, uint64_t ino)
{
	for (size_t i = 0; i + 8 <= m->orphans.len; i += 8)
		if (bytes_load_u64(m->orphans.data + i) == ino)
			return true;
	return false;
}

/* Drops what the kernel has forgotten: there was no record of that. */
static void drop_reaped(struct making *m)
{
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&m->state->inodes, &c))) {
		struct inode *in = container_of(n, struct inode, node);

		if (!in->a.nlink && !is_orphan_of(m, in->a.ino))
			itable_drop(m->state, in);
	}
}

static int put_state(struct making *m)
{
	struct env *p = m->state;
	char id[BOOT_ID_BYTES + 1];
	int r = boot_id(id);

	if (r < 0)
		return r;
	drop_reaped(m);
	tx_begin(p);
	tx_boot(p, id);
	r = flush(m, 0);
	tx_counters(p);
	if (r >= 0)
		r = put_each(m, put_inode);
	if (r >= 0)
		r = put_each(m, put_names);
	if (r >= 0)
		r = flush(m, 0);
	if (r < 0)
		return r;
	tx_covers(p, 0, m->seq, true);
	return flush(m, 0);
}

/* What does not replay must not take the place of what does. */
static int check_state(struct making *m)
{
	struct env *again = NULL;
	int r = state_load(m, m->fd, m->salt, m->pos, &again);

	if (r >= 0 && (again->inodes.count != m->state->inodes.count ||
		       again->next_ino != m->state->next_ino ||
		       again->data.next_block != m->state->data.next_block))
		r = -EFSCORRUPTED;
	state_free(again);
	return r;
}

/* --- 3: what has arrived since -------------------------------------------- */

/* Copies frames up to byte `end` of the old journal. */
static int copy_frames(struct making *m, uint64_t end)
{
	struct buf *b = &m->state->tx;

	m->rest.size = end;
	while (m->rest.pos < end) {
		const uint8_t *items;
		size_t len;
		int r = frames_next(&m->rest, &items, &len);

		if (r <= 0)
			return r < 0 ? r : -EFSCORRUPTED;
		tx_begin(m->state);
		buf_put(b, items, len);
		if (items[0] == ITEM_COMMIT)
			m->copied += len;
		r = put_frame(m, b);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t old_end(struct env *e)
{
	uint64_t end;

	mutex_lock(&e->lock);
	end = e->journal.end;
	mutex_unlock(&e->lock);
	return end;
}

/* Copies until little is left. */
static int catch_up(struct making *m)
{
	int r = 0;

	for (int i = 0; i < ROUNDS && r >= 0; i++) {
		uint64_t end = old_end(m->e);

		if (end - m->rest.pos < LAST_BYTES && i > 0)
			break;
		r = copy_frames(m, end);
	}
	return r;
}

/* --- 4, 5: taking its place ------------------------------------------------ */

/* Takes the new file for the old one; the lock is held, and commits are away.
 */
static int take_over(struct making *m, int *ret_old)
{
	struct journal *j = &m->e->journal;
	uint64_t ahead;
	int r = j->broken ? -EIO : copy_frames(m, j->end);

	if (r < 0)
		return r;
	if (renameat(m->e->dirfd, JOURNAL_NEW, m->e->dirfd, "journal") < 0)
		return -errno;
	*ret_old = j->fd;
	j->fd = TAKE_FD(m->fd);
	/* as many frames of the end are covered and synced as before */
	ahead = j->seq;
	j->covered = m->seq - (ahead - j->covered);
	j->synced = m->seq - MIN(ahead - j->synced, m->seq);
	j->seq = m->seq;
	j->salt = m->salt;
	j->end = j->allocated = j->zeroed = m->pos;
	j->copied = m->copied;
	j->booted = true;
	j->retry = 0;
	m->e->dir_synced = false;
	return 0;
}

static int finish(struct making *m)
{
	struct env *e = m->e;
	int old = -1, r;

	mutex_lock(&e->lock);
	commit_enter(e);
	mutex_unlock(&e->lock);
	r = catch_up(m);
	if (r >= 0)
		r = io_sync_data(m->fd);
	mutex_lock(&e->lock);
	if (r >= 0)
		r = take_over(m, &old);
	commit_leave(e);
	if (r >= 0)
		commit_note_change(e); /* the name is to be synced */
	mutex_unlock(&e->lock);
	if (old >= 0)
		(void)close(old); /* frees a long file: not with the lock */
	return r;
}

/* --- all of it ------------------------------------------------------------ */

/* Notes P and what memory has without names there; then commits. */
static int begin(struct making *m)
{
	struct env *e = m->e;
	struct hmap_cursor c = {0};
	struct hnode *n;
	int fd, r;

	mutex_lock(&e->lock);
	m->from = e->journal.end;
	fd = fcntl(e->journal.fd, F_DUPFD_CLOEXEC, 0);
	frames_init(&m->rest, fd, e->journal.salt, m->from);
	m->rest.pos = m->from;
	m->rest.seq = e->journal.seq;
	while ((n = hmap_each(&e->inodes, &c))) {
		const struct inode *in = container_of(n, struct inode, node);

		if (!in->a.nlink)
			buf_put_u64(&m->orphans, in->a.ino);
	}
	r = fd < 0 ? -EMFILE : buf_error(&m->orphans);
	if (r >= 0)
		r = commit_locked(e, true);
	mutex_unlock(&e->lock);
	return r;
}

static int make(struct making *m)
{
	int r = begin(m);

	if (r >= 0)
		r = state_load(m, m->rest.fd, m->rest.salt, m->from, &m->state);
	if (r >= 0)
		r = journal_make(m->e, JOURNAL_NEW, &m->fd, &m->salt);
	if (r < 0)
		return r;
	m->pos = JOURNAL_HEADER_BYTES;
	r = put_state(m);
	if (r >= 0)
		r = check_state(m);
	if (r >= 0)
		r = catch_up(m);
	/* the most of it, before commits have to wait */
	if (r >= 0)
		r = io_sync_data(m->fd);
	return r < 0 ? r : finish(m);
}

int compact_run(struct env *e)
{
	struct making m = {.e = e, .fd = -1, .rest = {.fd = -1}};
	uint64_t state;
	int r = make(&m);

	state = m.pos;
	if (r < 0) /* not before it is twice as long */
		(void)unlinkat(e->dirfd, JOURNAL_NEW, 0);
	mutex_lock(&e->lock);
	if (r < 0)
		e->journal.retry = 2 * e->journal.end;
	else
		e->journal.state = state;
	mutex_unlock(&e->lock);
	if (m.fd >= 0)
		(void)close(m.fd);
	if (m.rest.fd >= 0)
		(void)close(m.rest.fd);
	frames_fini(&m.rest);
	buf_fini(&m.orphans);
	state_free(m.state);
	return r;
}
