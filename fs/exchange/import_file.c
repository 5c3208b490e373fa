/* SPDX-License-Identifier: MIT */
/*
 * import_file.c - the content of one regular file, never a torn one.
 *
 * A file is read between two fstats. When they agree in size, mtime and ctime
 * no write began meanwhile, with two exceptions. The kernel stamps times by its
 * tick (up to 10 ms), so a write in the tick of the first fstat may not show.
 * And it stamps at the start of a write, which may stand still in the middle
 * when it waits for the journal of the file system. Like git with its racy
 * index entries we do not trust a file that is fresh in this sense: younger
 * than a tick, or than a fifth of a second while somebody has it open for
 * writing (a read lease that is refused tells). It is read a second time when
 * it is old enough, and must be equal, and its times as well.
 *
 * A file that grew is taken at its length at open, when a second reading of
 * that part is equal: a change inside it between the readings would show,
 * since every byte is read twice, in the same order. All else is tried again,
 * and an end is put to it.
 *
 * What this cannot see: stores through a shared mapping to a page that was
 * dirty before already, for which the kernel stamps no time; and that a writer
 * who is silent for longer is not done yet.
 *
 * A file of one chunk is a blob, put when it is known to be whole. Bigger ones
 * put their chunks while reading (a chunk of a reading that is given up is an
 * unreachable object, which gc removes). Holes are skipped by SEEK_DATA, for a
 * file of 1 TiB with little in it; that is only a short cut, zeros that were
 * read become holes too.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "object/manifest.h"

#define TICK_NS	 INT64_C(11000000)
#define QUIET_NS INT64_C(200000000)

/* One reading of one file. */
struct reading {
	struct importer *imp;
	int fd;
	uint64_t size;
	bool sparse;	    /* fewer blocks than bytes */
	uint64_t data;	    /* [data, data_end) is known to be data, */
	uint64_t data_end;  /* what is between data_end and data a hole */
	struct buf chunks;  /* manifest of a big file */
	struct oid content; /* of a small file */
	bool trusted;	    /* the next import may rely on its times */
};

static int64_t timespec_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Says whether somebody has the file open for writing, or may have; a mapping
 * counts. A break of the lease while we hold it sends a signal: one that is
 * ignored. */
static bool has_writer(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) < 0 ||
	    fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return true;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/* Returns how long the file must stay as it is before it is trusted. */
static int64_t fresh_ns(const struct importer *imp, int fd,
			const struct stat *st)
{
	int64_t changed = timespec_ns(&st->st_ctim);
	struct timespec now;
	int64_t age;

	if (changed < imp->started_ns - QUIET_NS)
		return 0; /* most files: no call */
	now = clock_now();
	age = timespec_ns(&now) - changed;
	if (age >= QUIET_NS || age < -TICK_NS)
		return 0; /* or from a clock that is ahead */
	if (has_writer(fd))
		return QUIET_NS - age;
	return age < TICK_NS ? TICK_NS - age : 0;
}

static void sleep_ns(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / 1000000000,
			     .tv_nsec = ns % 1000000000};

	(void)nanosleep(&t, NULL);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size &&
	       timespec_ns(&a->st_mtim) == timespec_ns(&b->st_mtim) &&
	       timespec_ns(&a->st_ctim) == timespec_ns(&b->st_ctim);
}

/* Says whether [from, from + n) lies in a hole of the file. */
static bool in_hole(struct reading *rd, uint64_t from, uint64_t n)
{
	off_t at;

	if (!rd->sparse)
		return false;
	if (from >= rd->data_end) {
		at = lseek(rd->fd, (off_t)from, SEEK_DATA);
		if (at < 0 && errno == ENXIO) {
			rd->data = rd->data_end = UINT64_MAX;
		} else if (at < 0) {
			rd->sparse = false; /* not supported: read it */
			return false;
		} else {
			rd->data = (uint64_t)at;
			at = lseek(rd->fd, at, SEEK_HOLE);
			rd->data_end = at < 0 ? rd->size : (uint64_t)at;
		}
	}
	return rd->data >= from + n;
}

/* Reads n bytes into the chunk buffer. -EAGAIN: the file became shorter. */
static int chunk_read(struct reading *rd, uint64_t from, size_t n)
{
	ssize_t got = io_pread(rd->fd, rd->imp->chunk, n, from);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : -EAGAIN;
}

static size_t chunk_size(const struct reading *rd, uint64_t from)
{
	return (size_t)MIN(rd->size - from, (uint64_t)FORMAT_CHUNK_BYTES);
}

static int chunk_put(struct reading *rd, uint64_t from)
{
	size_t n = chunk_size(rd, from);
	struct oid id = {.b = {0}};
	int r;

	if (!in_hole(rd, from, n)) {
		r = chunk_read(rd, from, n);
		if (r < 0)
			return r;
		if (!manifest_is_zero(rd->imp->chunk, n)) {
			r = import_put(rd->imp, OID_BLOB, rd->imp->chunk, n,
				       &id);
			if (r < 0)
				return r;
		}
	}
	manifest_add(&rd->chunks, &id);
	return 0;
}

/* First reading. A small file stays in the chunk buffer. */
static int reading_take(struct reading *rd)
{
	int r;

	if (rd->size <= FORMAT_CHUNK_BYTES) {
		r = chunk_read(rd, 0, (size_t)rd->size);
		if (r < 0)
			return r;
		rd->content =
			oid_of(OID_BLOB, rd->imp->chunk, (size_t)rd->size);
		return 0;
	}
	buf_clear(&rd->chunks);
	manifest_begin(&rd->chunks, rd->size);
	for (uint64_t at = 0; at < rd->size; at += FORMAT_CHUNK_BYTES) {
		r = chunk_put(rd, at);
		if (r < 0)
			return r;
	}
	return buf_error(&rd->chunks);
}

/* Second reading of the same range: -EAGAIN when a byte differs. */
static int reading_compare(struct reading *rd)
{
	struct manifest m;
	int r;

	if (rd->size <= FORMAT_CHUNK_BYTES) {
		struct oid first = rd->content;

		r = reading_take(rd);
		if (r < 0)
			return r;
		return oid_equal(&first, &rd->content) ? 0 : -EAGAIN;
	}
	r = manifest_open(rd->chunks.data, rd->chunks.len, &m);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < m.count; i++) {
		uint64_t at = i * FORMAT_CHUNK_BYTES;
		size_t n = chunk_size(rd, at);
		struct oid want = manifest_chunk(&m, i);
		struct oid got = {.b = {0}};

		r = chunk_read(rd, at, n);
		if (r < 0)
			return r;
		if (!manifest_is_zero(rd->imp->chunk, n))
			got = oid_of(OID_BLOB, rd->imp->chunk, n);
		if (!oid_is_null(&want))
			want = oid_with_counter(want, 0);
		if (!oid_equal(&want, &got))
			return -EAGAIN;
	}
	return 0;
}

/* Reads a second time, when the times alone do not tell. */
static int reading_confirm(struct reading *rd, const struct stat *before,
			   int64_t wait_ns)
{
	struct stat now;
	int r = 0;

	if (wait_ns)
		sleep_ns(wait_ns);
	if (rd->size)
		r = reading_compare(rd);
	if (r < 0)
		return r;
	if (fstat(rd->fd, &now) < 0)
		return -errno;
	if (!is_same(before, &now) && now.st_size <= before->st_size)
		return -EAGAIN;
	return 0;
}

/* Before the first byte is read: who opens the file for writing after that
 * changes its times. */
static bool is_trusted(const struct reading *rd, const struct stat *st)
{
	const enum import_trust t = import_scan_trust(rd->imp, st);

	return t == IMPORT_TRUST_FULL ||
	       (t == IMPORT_TRUST_UNWRITTEN && !has_writer(rd->fd));
}

static void reading_begin(struct reading *rd, const struct stat *st)
{
	rd->trusted = is_trusted(rd, st);
	rd->size = (uint64_t)st->st_size;
	rd->sparse = rd->size > FORMAT_CHUNK_BYTES &&
		     (uint64_t)st->st_blocks < rd->size / 512;
	rd->data = rd->data_end = 0;
	if (rd->size > 8 * FORMAT_CHUNK_BYTES)
		(void)posix_fadvise(rd->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

/* Reads once and decides. -EAGAIN: it changed, try again. */
static int reading_try(struct reading *rd, struct stat *st, struct oid *xattrs)
{
	struct stat after;
	int64_t wait_ns;
	int r;

	wait_ns = fresh_ns(rd->imp, rd->fd, st);
	if (wait_ns) {
		sleep_ns(MIN(wait_ns, TICK_NS));
		if (fstat(rd->fd, st) < 0)
			return -errno;
		wait_ns = fresh_ns(rd->imp, rd->fd, st);
	}
	if ((uint64_t)st->st_size > FORMAT_MAX_FILE)
		return -EFBIG;
	reading_begin(rd, st);
	r = rd->size ? reading_take(rd) : 0;
	if (r == 0)
		r = import_xattrs(rd->imp, rd->fd, st->st_dev, false, xattrs);
	if (r < 0)
		return r;
	if (fstat(rd->fd, &after) < 0)
		return -errno;
	if (is_same(st, &after))
		return wait_ns ? reading_confirm(rd, st, wait_ns) : 0;
	if (after.st_size > st->st_size)
		return reading_confirm(rd, st, 0);
	return -EAGAIN;
}

static int reading_store(struct reading *rd, struct oid *ret_id)
{
	*ret_id = (struct oid){.b = {0}};
	if (!rd->size)
		return 0;
	if (rd->size <= FORMAT_CHUNK_BYTES)
		return import_put(rd->imp, OID_BLOB, rd->imp->chunk,
				  (size_t)rd->size, ret_id);
	return import_put(rd->imp, OID_MANIFEST, rd->chunks.data,
			  rd->chunks.len, ret_id);
}

int import_file(struct importer *imp, int fd, struct stat *st,
		struct tree_entry *e)
{
	struct reading rd = {.imp = imp, .fd = fd};
	int64_t pause_ns = 1000000;
	int r = -EAGAIN;

	for (int i = 0; i < IMPORT_TRIES && r == -EAGAIN; i++) {
		if (i) {
			sleep_ns(pause_ns);
			pause_ns = MIN(pause_ns * 2, INT64_C(128000000));
			if (fstat(fd, st) < 0) {
				r = -errno;
				break;
			}
		}
		r = reading_try(&rd, st, &e->xattrs);
	}
	if (r == 0)
		r = reading_store(&rd, &e->content);
	buf_fini(&rd.chunks);
	e->size = rd.size;
	if (r == 0 && rd.trusted)
		import_scan_note(imp, st, e);
	if (r == -EAGAIN)
		return diag_fail(imp->diag, -EBUSY,
				 "%s: changes while it is read, and does not "
				 "settle",
				 import_path(imp));
	if (r == -EFBIG)
		return diag_fail(imp->diag, r,
				 "%s: larger than %" PRIu64 " bytes",
				 import_path(imp), FORMAT_MAX_FILE);
	return r;
}
