/* SPDX-License-Identifier: MIT */
/*
 * How: the journal is read twice. The first time only its frames are checked,
 * and what BOOT and COMMIT records say is noted; they stand first in their
 * frames. Then it is known how far the state goes, and the frames up to there
 * are applied.
 *
 * On the boot that wrote the last of it, everything that was written is in the
 * page cache or on the disk: every whole frame counts. A server that was killed
 * leaves at most one frame that is not whole, the last; it is cut off. A bad
 * frame with whole ones behind it is damage: nothing is opened and nothing cut,
 * for that would lose what was acknowledged.
 *
 * After another boot what was written since the last commit has reached the
 * disk in any order, frames and data alike. So the state ends where the last
 * commit record says; the rest is cut off, and that is synced at once, so that
 * it cannot come back behind new frames. A bad frame is damage there only if a
 * later commit record says that it was on the disk before.
 *
 * Data that a commit record carries is written to the data file then, unless a
 * later commit has synced that file.
 */
#include "env/frames_int.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What the first reading finds. */
struct scan {
	uint64_t size;	  /* of the file */
	uint64_t end;	  /* of the whole frames */
	uint64_t seq;	  /* of the frame that would follow them */
	uint64_t covered; /* frames below are committed */
	uint64_t full;	  /* seq + 1 of the last commit that synced the data */
	uint64_t carried; /* seq + 1 of the last one that carries data */
	bool booted;	  /* there is a BOOT record */
	bool full_last;	  /* the last commit was a full one */
	char boot[BOOT_ID_BYTES + 1];
};

static void scan_boot(struct scan *s, struct bytes *r, uint64_t seq)
{
	const uint8_t *id = bytes_take(r, BOOT_ID_BYTES);

	if (!id)
		return;
	memcpy(s->boot, id, BOOT_ID_BYTES);
	/* what came before the first was written by a program that knew no
	 * commits: it counts whole */
	if (!s->booted)
		s->covered = MAX(s->covered, seq);
	s->booted = true;
}

static void scan_commit(struct scan *s, struct bytes *r, uint64_t seq)
{
	uint64_t uncovered = bytes_u64(r);
	uint8_t flags;

	(void)bytes_u64(r);
	flags = bytes_u8(r);
	if (r->bad || uncovered > seq)
		return; /* applying it will tell */
	s->covered = uncovered ? MAX(s->covered, seq - uncovered) : seq + 1;
	s->full_last = flags & COMMIT_FULL;
	if (s->full_last)
		s->full = seq + 1;
	if (r->left)
		s->carried = seq + 1;
}

static int scan_frames(struct frames *f, struct scan *s)
{
	const uint8_t *items;
	size_t len;
	int r;

	while ((r = frames_next(f, &items, &len)) > 0) {
		struct bytes b = bytes_of(items, len);
		uint8_t type = bytes_u8(&b);

		if (type == ITEM_BOOT)
			scan_boot(s, &b, f->seq - 1);
		else if (type == ITEM_COMMIT)
			scan_commit(s, &b, f->seq - 1);
	}
	s->end = f->pos;
	s->seq = f->seq;
	if (!s->booted)
		s->covered = s->seq;
	return r;
}

/* Says whether a frame at pos proves that frame number seq was on the disk. */
static int proves(struct frames *f, uint64_t pos, uint64_t seq)
{
	const uint8_t *frame;
	size_t len;
	struct bytes b;
	uint64_t unsynced;
	int r = frames_at(f, pos, &frame, &len);

	if (r <= 0)
		return r;
	b = bytes_of(frame + JOURNAL_FRAME_BYTES, len);
	if (bytes_u8(&b) != ITEM_COMMIT)
		return 0;
	(void)bytes_u64(&b);
	unsynced = bytes_u64(&b);
	return !b.bad && bytes_load_u64(frame + 8) - unsynced > seq;
}

/* Looks behind a bad frame: 1 when it is damage, 0 when it is a torn tail. */
static int tail_is_damage(struct frames *f, const struct scan *s, bool same)
{
	static const uint8_t zeros[JOURNAL_FRAME_BYTES];
	uint8_t h[JOURNAL_FRAME_BYTES];
	uint64_t pos = s->end;
	ssize_t n = io_pread(f->fd, h, sizeof h, pos);
	int r;

	if (n < (ssize_t)sizeof h)
		return n < 0 ? (int)n : 0;
	if (same && !memcmp(h, zeros, sizeof h))
		return 0;
	while ((r = frames_find(f, pos, &pos)) > 0) {
		if (same)
			return 1;
		r = proves(f, pos, s->seq);
		if (r)
			return r;
		pos++;
	}
	return r;
}

static int check_tail(struct env *e, struct frames *f, const struct scan *s,
		      bool same, struct diag *diag)
{
	int r;

	if (s->end == s->size)
		return 0;
	r = tail_is_damage(f, s, same);
	if (r > 0)
		return diag_fail(diag, -EFSBADCRC,
				 "%s: its journal is damaged at byte %llu, and "
				 "whole records follow",
				 e->name, (unsigned long long)s->end);
	if (r == 0 && same)
		diag_add(diag,
			 "%s: %llu bytes of a record that was never finished "
			 "are left out",
			 e->name, (unsigned long long)(s->size - s->end));
	return r;
}

/* Applies frames until the given number. */
static int apply_frames(struct env *e, struct frames *f, uint64_t stop,
			uint64_t data_from, struct diag *diag)
{
	const uint8_t *items;
	size_t len;
	int r = 0;

	while (f->seq < stop && (r = frames_next(f, &items, &len)) > 0) {
		e->writes_data = f->seq > data_from;
		r = apply_items(e, items, len);
		if (r < 0)
			return diag_fail(
				diag, r,
				"%s: its journal makes no sense at byte %llu",
				e->name,
				(unsigned long long)(f->pos - len -
						     JOURNAL_FRAME_BYTES));
		if (items[0] == ITEM_COMMIT)
			e->journal.copied += len;
	}
	e->writes_data = false;
	e->journal.end = f->pos;
	e->journal.seq = f->seq;
	return r < 0 ? r : 0;
}

/* Makes a new end of the journal for good: a commit record of this boot, with
 * the content that records carry in the data file, and both synced. */
static int settle(struct env *e, bool full)
{
	struct journal *j = &e->journal;
	int r = 0;

	if (e->data.fd >= 0)
		r = io_sync_data(e->data.fd);
	if (r >= 0 && j->seq) {
		tx_begin(e);
		tx_frees(e);
		tx_covers(e, 0, 0, full);
		r = journal_append_commit(e);
	}
	if (r >= 0)
		r = io_sync_data(j->fd);
	return r < 0 ? r : io_sync_dir(e->dirfd);
}

static int other_boot(struct env *e, struct frames *f, const struct scan *s,
		      struct diag *diag)
{
	struct journal *j = &e->journal;
	bool carried = s->carried > s->full, cut;
	int r;

	if (carried && e->read_only && !e->checks)
		return -ESTALE; /* env_open mends it first */
	r = apply_frames(e, f, s->covered,
			 e->read_only ? UINT64_MAX : s->full, diag);
	if (r < 0)
		return r;
	cut = j->end < s->size;
	if (cut && !e->checks) /* it is no damage */
		diag_add(diag,
			 "%s: the machine was restarted: %llu bytes that were "
			 "written after the last commit are left out",
			 e->name, (unsigned long long)(s->size - j->end));
	if (cut && !e->read_only)
		r = io_truncate(j->fd, j->end);
	if (r < 0)
		return r;
	if (cut)
		j->zeroed = j->end;
	/* the last commit record itself may be among what was cut off */
	if ((cut || carried) && !e->read_only && s->booted)
		r = settle(e, carried || s->full_last);
	if (r == -ENOSPC && !cut)
		r = 0; /* the next open does it again */
	j->covered = j->synced = j->seq;
	return r;
}

static int same_boot(struct env *e, struct frames *f, const struct scan *s,
		     struct diag *diag)
{
	struct journal *j = &e->journal;
	int r = apply_frames(e, f, s->seq, UINT64_MAX, diag);

	if (r < 0)
		return r;
	/* nobody knows what of it has reached the disk */
	j->covered = s->covered;
	j->synced = 0;
	e->data.unsynced = e->data.dirty_much = j->seq > 0;
	if (j->end == s->size || e->read_only)
		return 0;
	j->allocated = j->zeroed = j->end;
	return io_truncate(j->fd, j->end);
}

/* Says whether there is nothing behind the frames but zeros: room that was made
 * ready for more. */
static int rest_is_zero(int fd, const struct scan *s)
{
	enum { STEP = 64 << 10 };
	_cleanup_free_ uint8_t *p = malloc(STEP);
	uint64_t at = s->end;

	if (!p)
		return -ENOMEM;
	while (at < s->size) {
		ssize_t n = io_pread(fd, p, MIN(s->size - at, (uint64_t)STEP),
				     at);

		if (n <= 0)
			return n < 0 ? (int)n : 1;
		if (p[0] || memcmp(p, p + 1, (size_t)n - 1) != 0)
			return 0;
		at += (uint64_t)n;
	}
	return 1;
}

static int replay(struct env *e, uint64_t size, struct diag *diag)
{
	struct scan s = {.size = size};
	char now[BOOT_ID_BYTES + 1];
	struct frames f;
	bool same;
	int r;

	frames_init(&f, e->journal.fd, e->journal.salt, size);
	r = boot_id(now);
	if (r < 0)
		diag_add(diag, "%s: cannot tell this boot from another one: %s",
			 e->name, err_text(r));
	if (r >= 0)
		r = scan_frames(&f, &s);
	same = !s.booted || !strcmp(s.boot, now);
	if (r >= 0)
		r = rest_is_zero(f.fd, &s);
	if (r > 0)
		s.size = s.end;
	if (r >= 0)
		r = check_tail(e, &f, &s, same, diag);
	if (r >= 0) {
		f.pos = JOURNAL_HEADER_BYTES;
		f.seq = 0;
		e->journal.booted = s.booted && same;
		e->journal.zeroed = size;
		r = same ? same_boot(e, &f, &s, diag)
			 : other_boot(e, &f, &s, diag);
	}
	frames_fini(&f);
	return r;
}

int journal_replay_prefix(struct env *e, uint64_t end)
{
	struct frames f;
	int r;

	frames_init(&f, e->journal.fd, e->journal.salt, end);
	r = apply_frames(e, &f, UINT64_MAX, UINT64_MAX, NULL);
	frames_fini(&f);
	return r >= 0 && e->journal.end != end ? -EFSCORRUPTED : r;
}

static int header_check(struct env *e, uint64_t size, struct diag *diag)
{
	uint8_t h[JOURNAL_HEADER_BYTES] = {0};
	ssize_t n = io_pread(e->journal.fd, h, sizeof h, 0);

	if (n < 0)
		return (int)n;
	e->journal.end = 0;
	if (size < sizeof h || journal_is_unborn(e->journal.fd))
		return 0;
	if (!journal_is_header(h, &e->info.snapshot))
		return diag_fail(diag, -EFSCORRUPTED,
				 "%s: its journal is damaged at byte 0",
				 e->name);
	if (bytes_load_u32(h + 4) != FORMAT_VERSION)
		return diag_fail(diag, -EPROTONOSUPPORT,
				 "%s: its journal is of a later version",
				 e->name);
	e->journal.salt = bytes_load_u64(h + 32);
	e->journal.end = JOURNAL_HEADER_BYTES;
	return 0;
}

int journal_open(struct env *e, struct diag *diag)
{
	struct stat st;
	int r;

	/* of a compaction that was killed */
	if (!e->read_only && unlinkat(e->dirfd, JOURNAL_NEW, 0) < 0 &&
	    errno != ENOENT)
		return -errno;
	r = io_open_file(e->dirfd, "journal", e->read_only ? O_RDONLY : O_RDWR);
	e->journal.fd = MAX(r, -1);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (fstat(e->journal.fd, &st) < 0)
		return -errno;
	r = header_check(e, (uint64_t)st.st_size, diag);
	if (r < 0)
		return r;
	if (!e->journal.end) {
		journal_close(e);
		return 0;
	}
	return replay(e, (uint64_t)st.st_size, diag);
}
