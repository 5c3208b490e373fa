/* SPDX-License-Identifier: MIT */
/*
 * How: a commit makes what is there survive the machine: the data file is
 * synced, a record says so, the journal is synced. Commits run one after the
 * other, each by the thread that wanted it first; whoever comes while one runs
 * waits for the next, which serves all of them. The lock is let go while the
 * disk works, so that nobody waits who did not ask for it: records that arrive
 * meanwhile are not covered, and the commit record says how many they are.
 *
 * When little was written since the last commit (DATA_DIRTY_MOST blocks), the
 * blocks are copied into the commit record instead, and one file is synced
 * instead of two. Replay writes them to the data file, unless a later commit
 * has synced that file. Blocks are copied whole, so that what is restored does
 * not depend on what the data file had there.
 *
 * A sync that fails leaves nobody knowing what is on the disk (the kernel says
 * it once and forgets it), so until the next open every
 * fsync fails, and nothing freed is used again.
 */
#include "env/env_int.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <sys/stat.h>

enum {
	COMMIT_MS = 5000,	/* a change waits no longer */
	TICK_MS = 1000,		/* so often it is looked at meanwhile */
	FREED_BLOCKS = 2048,	/* so much freed room does not wait */
	FREED_PART = 8,		/* of what is used, if that is more */
	PUNCH_STEP = 32,	/* ranges at a time */
	COMMIT_ITEM_BYTES = 18, /* type, uncovered, unsynced, flags */
	DATA_ITEM_BYTES = 9 + ENV_BLOCK,
	RECORD_BYTES = 1024,	/* some records and a commit */
	ASKED_OFTEN = 4,	/* fsyncs, before the journal is made ready */
};

/* Puts the folder's names on stable storage, once after each new file. */
static int sync_names(struct env *e)
{
	_cleanup_close_ int envs = openat(store_fd(e->store), "envs",
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	int r;

	if (envs < 0)
		return -errno;
	r = io_sync_dir(e->dirfd);
	return r == 0 ? io_sync_dir(envs) : r;
}

/* Says whether there is anything that a commit would change. */
static bool is_due(const struct env *e)
{
	const struct journal *j = &e->journal;
	const struct data *d = &e->data;

	return j->seq > j->covered || d->dirty_len || d->dirty_much ||
	       !e->dir_synced;
}

/* Says whether so much room waits for a commit that it shall come soon. */
static bool much_freed(const struct env *e)
{
	return e->data.freed.blocks >
	       MAX(data_used(e) / FREED_PART, (uint64_t)FREED_BLOCKS);
}

void commit_note_change(struct env *e)
{
	struct commits *c = &e->commits;

	bool urgent = !c->urgent && much_freed(e);

	if (!c->dirty_ns)
		c->dirty_ns = clock_mono_ns();
	c->urgent = c->urgent || urgent;
	if ((urgent || !c->told) && c->on_dirty)
		c->on_dirty(c->ctx);
	c->told = true;
}

/* --- one commit ----------------------------------------------------------- */

/* Composes the record that carries the blocks that were written. */
static int compose_copies(struct env *e)
{
	struct data *d = &e->data;
	uint8_t block[ENV_BLOCK];

	for (unsigned i = 0; i < d->dirty_len; i++) {
		int r = data_read(e, block, ENV_BLOCK,
				  d->dirty[i] << ENV_BLOCK_SHIFT);

		if (r < 0)
			return r;
		tx_data(e, d->dirty[i], block);
	}
	return 0;
}

static int append_record(struct env *e, uint64_t late, bool full)
{
	struct journal *j = &e->journal;
	int r = 0;

	tx_begin(e);
	tx_frees(e);
	tx_covers(e, late, j->seq - j->synced, full);
	if (!full)
		r = compose_copies(e);
	if (r >= 0)
		r = journal_append_commit(e);
	if (r < 0)
		return r;
	if (!full)
		j->copied += e->tx.len - JOURNAL_FRAME_BYTES;
	return 0;
}

/* Says whether the copies find room; else both files are synced. */
static bool copies_fit(struct env *e)
{
	const struct data *d = &e->data;

	if (d->dirty_much || e->journal.fd < 0)
		return false;
	e->journal.frees = false;
	return journal_reserve(e, d->dirty_len * (uint64_t)DATA_ITEM_BYTES +
					  COMMIT_ITEM_BYTES) >= 0;
}

/* Syncs the data file without the lock. */
static int sync_data(struct env *e) REQUIRES(&e->lock);
static int sync_data(struct env *e)
{
	struct data *d = &e->data;
	int fd = d->fd;
	int r = 0;

	if (!d->unsynced || fd < 0)
		return 0;
	d->unsynced = false;
	mutex_unlock(&e->lock);
	r = io_sync_data(fd);
	mutex_lock(&e->lock);
	return r;
}

/* The file `env` and the journal's beginning, before there is a commit record:
 * unborn.c goes by that. */
static int sync_info(struct env *e) REQUIRES(&e->lock);
static int sync_info(struct env *e)
{
	int journal = e->journal.fd;
	int fd, r;

	mutex_unlock(&e->lock);
	fd = openat(e->dirfd, "env", O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : io_sync_data(fd);
	if (r >= 0 && journal >= 0)
		r = io_sync_data(journal);
	if (fd >= 0)
		(void)close(fd);
	mutex_lock(&e->lock);
	return r;
}

static int sync_journal(struct env *e, bool names) REQUIRES(&e->lock);
static int sync_journal(struct env *e, bool names)
{
	int fd = e->journal.fd;
	int r = 0;

	mutex_unlock(&e->lock);
	if (fd >= 0)
		r = io_sync_data(fd);
	if (r >= 0 && names)
		r = sync_names(e);
	mutex_lock(&e->lock);
	return r;
}

static int run_commit(struct env *e, bool full) REQUIRES(&e->lock);
static int run_commit(struct env *e, bool full)
{
	struct journal *j = &e->journal;
	struct data *d = &e->data;
	uint64_t covers = j->seq, since, seq, late;
	bool names = !e->dir_synced;
	int r = j->broken || e->commits.failed ? -EIO : 0;

	if (r < 0)
		return r;
	full = full || !copies_fit(e);
	since = e->commits.dirty_ns;
	e->commits.dirty_ns = 0;
	e->commits.urgent = false;
	e->dir_synced = true; /* a file made from now on says otherwise */
	data_freeing(e);
	if (full) {
		d->dirty_len = 0;
		d->dirty_much = false;
		r = sync_data(e);
	}
	if (r >= 0 && names)
		r = sync_info(e);
	if (e->commits.asked >= ASKED_OFTEN)
		journal_zero_ahead(e, RECORD_BYTES + (full ? 0 : d->dirty_len) *
						     (uint64_t)DATA_ITEM_BYTES);
	late = j->seq - covers;
	if (r >= 0 && j->fd >= 0) {
		r = append_record(e, late, full);
		if (r < 0 && !j->broken) { /* no room: nothing is lost */
			e->dir_synced = e->dir_synced && !names;
			e->commits.dirty_ns = since;
			return r;
		}
	}
	if (!full)
		d->dirty_len = 0;
	seq = j->seq;
	if (r >= 0)
		r = sync_journal(e, names);
	if (r < 0) {
		e->commits.failed = true;
		return r;
	}
	j->synced = seq;
	/* the record covers itself, too, when nothing came in between */
	j->covered = late ? covers : seq;
	data_freed(e);
	return 0;
}

void commit_enter(struct env *e)
{
	while (e->commits.running)
		(void)pthread_cond_wait(&e->commits.ended, &e->lock.m);
	e->commits.running = true;
}

void commit_leave(struct env *e)
{
	e->commits.running = false;
	(void)pthread_cond_broadcast(&e->commits.ended);
}

int commit_locked(struct env *e, bool full)
{
	struct commits *c = &e->commits;
	uint64_t mine = c->started + 1; /* one that starts from now on */

	if (!c->running && !is_due(e) && !(full && e->data.unsynced))
		return e->journal.broken || c->failed ? -EIO : 0;
	/* another's commit will do, unless it leaves the data file out */
	while (full ? c->running : c->running && c->done < mine)
		(void)pthread_cond_wait(&c->ended, &e->lock.m);
	if (full || c->done < mine) {
		c->running = true;
		c->started++;
		if (full || is_due(e))
			c->err = run_commit(e, full);
		c->done = c->started;
		commit_leave(e);
	}
	/* a later one that failed is no worse: nobody knows then */
	return c->err;
}

/* --- for the outside ------------------------------------------------------ */

int env_sync(struct env *e)
{
	int r;

	if (e->read_only || e->is_volatile)
		return 0;
	mutex_lock(&e->lock);
	e->commits.asked++;
	r = commit_locked(e, false);
	mutex_unlock(&e->lock);
	return r;
}

bool env_is_synced(struct env *e)
{
	bool synced;

	if (e->read_only || e->is_volatile)
		return true;
	mutex_lock(&e->lock);
	synced = !is_due(e) && !e->commits.running && !e->journal.broken &&
		 !e->commits.failed;
	mutex_unlock(&e->lock);
	return synced;
}

void env_on_dirty(struct env *e, env_dirty_fn fn, void *ctx)
{
	struct commits *c = &e->commits;

	mutex_lock(&e->lock);
	c->on_dirty = fn;
	c->ctx = ctx;
	c->told = false;
	if (fn && is_due(e) && !e->read_only)
		commit_note_change(e);
	mutex_unlock(&e->lock);
}

/* --- what is done in the background --------------------------------------- */

/* Punches one step of the spare blocks; says whether there are more. */
static bool punch_step(struct env *e, bool all)
{
	struct range v[PUNCH_STEP];
	size_t n;

	mutex_lock(&e->lock);
	n = data_take_spare(e, all, v, PUNCH_STEP);
	e->commits.punching++;
	mutex_unlock(&e->lock);
	for (size_t i = 0; i < n; i++)
		data_punch(e->data.fd, &v[i]);
	mutex_lock(&e->lock);
	data_punched(e, v, n, n < PUNCH_STEP);
	e->commits.punching--;
	(void)pthread_cond_broadcast(&e->commits.ended);
	mutex_unlock(&e->lock);
	return n == PUNCH_STEP;
}

bool commit_makes_room(struct env *e, int err, bool *tried)
{
	int r = 0;

	if (err != -ENOSPC || *tried)
		return false;
	*tried = true;
	mutex_lock(&e->lock);
	if (e->data.freed.len || e->data.freeing.len)
		r = commit_locked(e, false);
	mutex_unlock(&e->lock);
	while (punch_step(e, true))
		;
	/* Others may be at it: what they have taken is in no list. */
	mutex_lock(&e->lock);
	while (e->commits.punching)
		(void)pthread_cond_wait(&e->commits.ended, &e->lock.m);
	mutex_unlock(&e->lock);
	return r >= 0;
}

static bool wants_commit(struct env *e)
{
	uint64_t age;

	if (!e->commits.dirty_ns || e->journal.broken || e->commits.failed)
		return false;
	age = (clock_mono_ns() - e->commits.dirty_ns) / 1000000;
	return age >= COMMIT_MS || much_freed(e);
}

unsigned env_tend(struct env *e)
{
	struct commits *c = &e->commits;
	bool compact, again;

	mutex_lock(&e->lock);
	if (wants_commit(e))
		(void)commit_locked(e, false); /* fsync will tell */
	compact = compact_is_due(e);
	/* one that fsyncs all the time is looked at now and then, too */
	again = !e->journal.broken && !c->failed &&
		(c->dirty_ns != 0 || c->started != c->seen);
	c->seen = c->started;
	c->told = again;
	mutex_unlock(&e->lock);
	while (punch_step(e, false))
		;
	if (compact)
		(void)compact_run(e); /* the old journal goes on */
	return again ? TICK_MS : 0;
}

int env_close_kept(struct env *e)
{
	int r = 0;

	if (!e->read_only) {
		mutex_lock(&e->lock);
		journal_cut_zeros(e);
		r = commit_locked(e, true);
		mutex_unlock(&e->lock);
		while (punch_step(e, false))
			;
	}
	env_close(e);
	return r;
}
