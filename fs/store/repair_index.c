/* SPDX-License-Identifier: MIT */
/*
 * How: a new index is filled in `index.new`: rows of objects and segments from
 * the records that are whole, rows of snapshots and names from the log of
 * copies. Then the old one is moved aside and the new one renamed into place.
 *
 * Which bytes were committed only the index knew. Whole records at a segment's
 * end are taken whether they were or not: nothing names them, or everything is
 * right. What follows the last whole one is kept in the quarantine before the
 * next writer cuts it.
 *
 * Without a whole log, every snapshot object that is found becomes a snapshot
 * again, without a name: rather one too many than one lost.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "object/snap.h"
#include "store/guard_int.h"
#include "store/rescues_int.h"

enum { ROWS_A_COMMIT = 100000 };

#define BUILDING "index.new"

struct build {
	struct fsck *f;
	struct index *index;
	struct index_txn txn;
	size_t rows; /* of the transaction */
	struct buf scratch;
	struct buf snaps; /* ids of the snapshot objects that were found */
	uint64_t end;	  /* of the last whole record of the segment */
	uint64_t objects;
};

static int next_txn(struct build *b)
{
	int r = b->txn.txn ? index_txn_commit(&b->txn) : 0;

	b->rows = 0;
	return r < 0 ? r : index_txn_begin(b->index, true, &b->txn);
}

/* --- segments ------------------------------------------------------------ */

static int take_record(void *ctx, const struct frame *fr)
{
	struct build *b = ctx;
	const uint8_t *raw = NULL;
	const char *rule = NULL;
	int r = fsck_raw_bytes(fr, &b->scratch, &raw);

	if (r == 0)
		r = fsck_form_rule(&fr->id, raw, oid_length(&fr->id), &rule);
	if (r == -ENOMEM)
		return r;
	b->end = fr->end;
	/* What is not what its name says is left out; a check finds it. */
	if (r < 0 || rule)
		return 0;
	if (b->rows++ >= ROWS_A_COMMIT) {
		r = next_txn(b);
		if (r < 0)
			return r;
	}
	r = index_put_object(&b->txn, &fr->id, &fr->place, true);
	if (r == -EEXIST)
		return 0;
	b->objects += r == 0;
	if (r == 0 && oid_kind(&fr->id) == OID_SNAP)
		buf_put(&b->snaps, fr->id.b, OID_BYTES);
	return r < 0 ? r : buf_error(&b->snaps);
}

static int pass_by(void *ctx, uint64_t from, uint64_t to,
		   const struct oid *name)
{
	return 0;
}

static int take_segment(struct build *b, const struct fsck_segment *s)
{
	const struct frames_sink sink = {take_record, pass_by, b};
	_cleanup_close_ int fd = fsck_open_segment(b->f, s->number);
	int r = fd < 0 ? fd : 0;
	char name[64];

	b->end = SEGMENT_HEADER_BYTES;
	if (r == 0 && s->size > SEGMENT_HEADER_BYTES)
		r = frames_scan(fd, s->number, s->size, 0, &sink);
	if (r == 0 && s->size > b->end) {
		(void)snprintf(name, sizeof name, "segments-%08u.seg-%llu",
			       s->number, (unsigned long long)b->end);
		r = repair_keep(b->f, fd, b->end, name);
	}
	return r < 0 ? r : index_put_segment(&b->txn, s->number, b->end);
}

/* --- copies -------------------------------------------------------------- */

static int take_copy(void *ctx, enum index_table table, struct index_key key,
		     const struct index_key *value)
{
	struct build *b = ctx;
	int r;

	if (value)
		return index_put(&b->txn, table, key, *value, false);
	r = index_delete(&b->txn, table, key);
	return r == -ENOENT ? 0 : r;
}

/* Deletes rows of a table that name nothing; tells each. */
static int prune(struct build *b, enum index_table table)
{
	_cleanup_buf_ struct buf rows = {0};
	struct bytes in;
	int r = index_list(&b->txn, table, index_key_of(NULL, 0), &rows);

	in = bytes_of(rows.data, rows.len);
	while (r == 0 && in.left > 0) {
		const bool is_ref = table == INDEX_REFS;
		struct index_key key, value;
		struct segment_place place;
		char hex[OID_HEX + 1];
		struct oid id = {{0}};

		key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
		value.data = bytes_block(&in, INDEX_MAX_VALUE, &value.len);
		if (in.bad)
			return -EFSCORRUPTED;
		if ((is_ref ? value.len : key.len) == OID_BYTES)
			memcpy(id.b, is_ref ? value.data : key.data, OID_BYTES);
		r = is_ref ? index_has_snapshot(&b->txn, &id)
			   : index_get_object(&b->txn, &id, &place);
		if (is_ref ? r == 0 : r == -ENOENT) {
			oid_to_hex(&id, hex);
			fsck_say(b->f, FSCK_NOTE, hex,
				 "the snapshot is lost%s%.*s",
				 is_ref ? ", and with it its name " : "",
				 is_ref ? (int)key.len : 0,
				 (const char *)key.data);
			r = index_delete(&b->txn, table, key);
		}
		r = r > 0 ? 0 : r;
	}
	return r;
}

struct losing {
	struct build *b;
	struct buf names; /* each ending in NUL */
};

static int see_rescue(void *ctx, struct index_key key, struct index_key value)
{
	struct losing *l = ctx;
	_cleanup_buf_ struct buf strings = {0};
	struct segment_place place;
	struct rescue one;
	int r = rescue_decode(key, value, &strings, &one);

	if (r == 0)
		r = index_get_object(&l->b->txn, &one.snapshot, &place);
	if (r == 0)
		r = index_get_object(&l->b->txn, &one.base, &place);
	if (r != -ENOENT && r != -EFSCORRUPTED)
		return r;
	buf_put(&l->names, key.data, key.len);
	buf_put_u8(&l->names, 0);
	return buf_error(&l->names);
}

/* A rescue whose snapshots are not there any more goes. */
static int prune_rescues(struct build *b)
{
	struct losing l = {.b = b};
	int r = index_each(&b->txn, INDEX_RESCUES, see_rescue, &l);

	for (size_t i = 0; r == 0 && i < l.names.len;) {
		const char *name = (const char *)l.names.data + i;

		fsck_say(b->f, FSCK_NOTE, name, "the rescue is lost");
		r = index_delete(&b->txn, INDEX_RESCUES,
				 index_key_of(name, strlen(name)));
		i += strlen(name) + 1;
	}
	buf_fini(&l.names);
	return r;
}

static int recover_snapshot(struct build *b, const struct oid *id)
{
	_cleanup_buf_ struct buf row = {0};
	const struct snapshot_info info = {
		.id = *id,
		.time_sec = clock_now().tv_sec,
		.source = "",
		.host = "",
		.message = "found by fsck",
	};
	char hex[OID_HEX + 1];
	int r = index_has_snapshot(&b->txn, id);

	if (r != 0)
		return r < 0 ? r : 0;
	r = index_encode_snapshot(&info, &row);
	if (r == 0)
		r = index_put(&b->txn, INDEX_SNAPSHOTS,
			      index_key_of(id->b, OID_BYTES),
			      index_key_of(row.data, row.len), false);
	oid_to_hex(id, hex);
	if (r == 0)
		fsck_say(b->f, FSCK_NOTE, hex,
			 "a snapshot that may have had a name");
	return r;
}

static int take_copies(struct build *b)
{
	struct copies_state state = {0};
	int r = copies_read(b->f->fd, 0, take_copy, b, &state);

	if (r == -EFSCORRUPTED) {
		state.damaged = true;
		r = 0;
	}
	for (size_t i = 0;
	     r == 0 && (state.missing || state.damaged) && i < b->snaps.len;
	     i += OID_BYTES) {
		struct oid id;

		memcpy(id.b, b->snaps.data + i, OID_BYTES);
		r = recover_snapshot(b, &id);
	}
	if (r == 0 && state.damaged) {
		r = fsck_set_aside(b->f, "copies/log");
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		r = prune(b, INDEX_SNAPSHOTS);
	if (r == 0)
		r = prune(b, INDEX_REFS);
	return r < 0 ? r : prune_rescues(b);
}

/* --- the whole ----------------------------------------------------------- */

/* No number is used twice, not even that of a segment in the quarantine: one
 * was moved there with the index that knew. */
static int put_next_number(struct build *b)
{
	struct index_gc gc = {.generation = 1, .next_segment = 1};

	for (size_t i = 0; i < fsck_segment_count(b->f); i++)
		gc.next_segment = MAX(gc.next_segment,
				      fsck_segment_at(b->f, i)->number + 1);
	return index_put_gc(&b->txn, &gc);
}

static int fill(struct build *b)
{
	int r = next_txn(b);

	for (size_t i = 0; r == 0 && i < fsck_segment_count(b->f); i++)
		r = take_segment(b, fsck_segment_at(b->f, i));
	if (r == 0)
		r = put_next_number(b);
	if (r == 0)
		r = take_copies(b);
	if (r == 0)
		r = index_txn_commit(&b->txn);
	index_txn_end(&b->txn);
	return r;
}

static int put_in_place(struct fsck *f)
{
	_cleanup_close_ int dir =
		openat(f->fd, BUILDING, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? -errno : io_sync_dir(dir);

	/* Who opens it from here on waits for the end of the repair. */
	if (r == 0)
		r = guard_alone(f->fd, BUILDING, &f->guards[1]);
	if (r == 0 && faccessat(f->fd, "index", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = fsck_set_aside(f, "index");
	if (r == 0 && renameat(f->fd, BUILDING, f->fd, "index") < 0)
		r = -errno;
	return r < 0 ? r : io_sync_dir(f->fd);
}

int repair_index(struct fsck *f)
{
	struct build b = {.f = f};
	_cleanup_buf_ struct buf dir = {0};
	/* Of a repair that was killed. */
	int r = io_remove_tree(f->fd, BUILDING);

	buf_printf(&dir, "%s/" BUILDING, f->path);
	if (r == 0 && !buf_str(&dir))
		r = -ENOMEM;
	if (r == 0 && mkdirat(f->fd, BUILDING, 0700) < 0)
		r = -errno;
	if (r == 0)
		r = index_open(buf_str(&dir), INDEX_MAKE, &b.index);
	if (r == 0)
		r = fill(&b);
	index_close(b.index);
	buf_fini(&b.scratch);
	buf_fini(&b.snaps);
	if (r == 0)
		r = put_in_place(f);
	if (r == 0)
		fsck_say(f, FSCK_DONE, "index",
			 "made anew from segments and copies: %llu objects",
			 (unsigned long long)b.objects);
	return r;
}
