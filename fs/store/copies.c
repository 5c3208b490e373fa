/* SPDX-License-Identifier: MIT */
/*
 * How: the log is to the two tables what a segment is to objects. A commit
 * appends one frame, syncs it, and moves the log's end in the table `meta`
 * within the same LMDB transaction, which stays the only commit point: bytes
 * beyond that end belong to a commit that never was, and the next writer cuts
 * them. Writers are in order because LMDB's writer lock is held.
 *
 * When the log has outgrown the state it is written anew under a temporary
 * name, with the next generation, and renamed into place before the commit. If
 * that commit fails, the index still has the old generation: the log does not
 * fit, and the next writer writes it once more. The same happens with a log
 * that is missing, shorter than its end, or has a damaged header. So the index
 * always wins while there is one; without an index, whole frames are taken
 * whether they were committed or not: an uncommitted last one is what somebody
 * asked for, and the objects that it names were synced before it.
 *
 * A frame's checksum is seeded with its place and generation: frames can be
 * found behind a damaged one by their magic, and no old one is taken for new.
 */
#include "store/copies_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "object/format.h"
#include "store/headroom_int.h"
#include "store/segment_int.h"

enum {
	HEADER_BYTES = 24, /* magic, version, generation, checksum */
	FRAME_BYTES = 16,  /* magic, length of the rows, checksum */
	PLACE_ROW = 24,	   /* generation, end, bytes when written anew */
	FRAME_MAX = 4 << 20,
	FRAME_WANTED = 1 << 20, /* of a log that is written anew */
	LOG_MAX = 1 << 30,
	SLACK = 64 << 10,
	ROW_SET = 1,
	ROW_GONE = 2,
};

static const char place_key[] = "copies";

struct place {
	uint64_t generation;
	uint64_t end;
	uint64_t base; /* the end when it was written anew */
};

bool copies_has(enum index_table table)
{
	return table == INDEX_SNAPSHOTS || table == INDEX_REFS ||
	       table == INDEX_RESCUES;
}

static void put_change(struct buf *b, enum index_table table,
		       struct index_key key, const struct index_key *value)
{
	buf_put_u8(b, (uint8_t)table);
	buf_put_u8(b, value ? ROW_SET : ROW_GONE);
	buf_put_block(b, key.data, key.len);
	buf_put_block(b, value ? value->data : NULL, value ? value->len : 0);
}

void copies_note(struct index_txn *t, enum index_table table,
		 struct index_key key, const struct index_key *value)
{
	if (copies_has(table) && index_store_fd(t->index) >= 0)
		put_change(&t->changes, table, key, value);
}

/* --- the place that the index knows -------------------------------------- */

static int get_place(struct index_txn *t, struct place *ret)
{
	uint8_t row[PLACE_ROW];
	int len = index_get(t, INDEX_META,
			    index_key_of(place_key, strlen(place_key)), row,
			    sizeof row);

	if (len < 0)
		return len;
	if (len != sizeof row)
		return -EFSCORRUPTED;
	*ret = (struct place){
		.generation = bytes_load_u64(row),
		.end = bytes_load_u64(row + 8),
		.base = bytes_load_u64(row + 16),
	};
	return 0;
}

static int put_place(struct index_txn *t, const struct place *at)
{
	uint8_t row[PLACE_ROW];

	bytes_store_u64(row, at->generation);
	bytes_store_u64(row + 8, at->end);
	bytes_store_u64(row + 16, at->base);
	return index_put(t, INDEX_META,
			 index_key_of(place_key, strlen(place_key)),
			 index_key_of(row, sizeof row), false);
}

int copies_get_place(struct index_txn *t, uint64_t *ret_generation,
		     uint64_t *ret_end)
{
	struct place at;
	int r = get_place(t, &at);

	if (r < 0)
		return r;
	*ret_generation = at.generation;
	*ret_end = at.end;
	return 0;
}

/* --- the form ------------------------------------------------------------ */

static void put_header(struct buf *b, uint64_t generation)
{
	const size_t at = b->len;

	buf_put_u32(b, FORMAT_COPIES_MAGIC);
	buf_put_u32(b, FORMAT_VERSION);
	buf_put_u64(b, generation);
	if (!b->failed)
		buf_put_u64(b, oid_checksum(b->data + at, 16, 0));
}

/* Takes a header apart; false: it is damaged. */
static bool take_header(const uint8_t *p, size_t len, uint64_t *ret_generation)
{
	if (len < HEADER_BYTES || bytes_load_u32(p) != FORMAT_COPIES_MAGIC ||
	    bytes_load_u64(p + 16) != oid_checksum(p, 16, 0) ||
	    bytes_load_u32(p + 4) != FORMAT_VERSION)
		return false;
	*ret_generation = bytes_load_u64(p + 8);
	return true;
}

static bool read_header(int fd, uint64_t *ret_generation)
{
	uint8_t header[HEADER_BYTES] = {0};

	return io_pread(fd, header, sizeof header, 0) == sizeof header &&
	       take_header(header, sizeof header, ret_generation);
}

static uint64_t frame_checksum(const uint8_t *rows, size_t len,
			       uint64_t generation, uint64_t offset)
{
	uint8_t seed[24];

	bytes_store_u64(seed, generation);
	bytes_store_u64(seed + 8, offset);
	bytes_store_u64(seed + 16, len);
	return oid_checksum(rows, len, oid_checksum(seed, sizeof seed, 0));
}

static void put_frame(struct buf *b, const struct buf *rows,
		      uint64_t generation, uint64_t offset)
{
	buf_put_u32(b, FORMAT_COPIES_MAGIC);
	buf_put_u32(b, (uint32_t)rows->len);
	buf_put_u64(b,
		    frame_checksum(rows->data, rows->len, generation, offset));
	buf_put(b, rows->data, rows->len);
}

/* --- writing ------------------------------------------------------------- */

/* Opens the log when it is what the index says; -ENOENT: it is not. */
static int open_fitting(int store_fd, const struct place *at, int *ret_fd)
{
	_cleanup_close_ int fd = io_open_file(store_fd, "copies/log", O_RDWR);
	uint64_t generation = 0;
	struct stat st;

	if (fd < 0)
		return fd == -EACCES || fd == -EROFS ? fd : -ENOENT;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!read_header(fd, &generation) || generation != at->generation ||
	    (uint64_t)st.st_size < at->end)
		return -ENOENT;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Cuts a tail that was never committed. Without one nothing is cut, since that
 * would give up the blocks behind the end as well. */
static int cut_tail(int fd, uint64_t end)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return (uint64_t)st.st_size > end ? io_truncate(fd, end) : 0;
}

static int append(struct index_txn *t, struct place at)
{
	_cleanup_buf_ struct buf frame = {0};
	_cleanup_close_ int fd = -1;
	int r = open_fitting(index_store_fd(t->index), &at, &fd);

	if (r < 0)
		return r;
	put_frame(&frame, &t->changes, at.generation, at.end);
	r = buf_error(&frame);
	if (r < 0)
		return r;
	r = cut_tail(fd, at.end);
	if (r < 0)
		return r;
	r = io_pwrite(fd, frame.data, frame.len, at.end);
	if (r == 0)
		r = io_sync_data(fd);
	if (r == 0)
		headroom_keep(fd, HEADROOM_COPIES);
	if (r == 0) {
		const struct place next = {at.generation, at.end + frame.len,
					   at.base};

		r = put_place(t, &next);
	}
	/* Gives the space back; what stays is a tail like any other. */
	if (r < 0)
		(void)!cut_tail(fd, at.end);
	return r;
}

/* A log that is written anew. */
struct writing {
	enum index_table table;
	uint64_t generation;
	struct buf rows; /* of the next frame */
	struct buf *out;
};

static int end_frame(struct writing *w)
{
	int r = buf_error(&w->rows);

	if (r < 0 || w->rows.len == 0)
		return r;
	put_frame(w->out, &w->rows, w->generation, w->out->len);
	buf_clear(&w->rows);
	return buf_error(w->out);
}

static int put_row(void *ctx, struct index_key key, struct index_key value)
{
	struct writing *w = ctx;

	put_change(&w->rows, w->table, key, &value);
	return w->rows.len < FRAME_WANTED ? 0 : end_frame(w);
}

/* Adds the rows of a table, in frames. */
static int put_table(struct index_txn *t, enum index_table table,
		     uint64_t generation, struct buf *out)
{
	struct writing w = {table, generation, {0}, out};
	int r = index_each(t, table, put_row, &w);

	if (r == 0)
		r = end_frame(&w);
	buf_fini(&w.rows);
	return r;
}

/* The generation of the file that is there, or 0. */
static uint64_t present_generation(int store_fd)
{
	_cleanup_close_ int fd = io_open_file(store_fd, "copies/log", O_RDONLY);
	uint64_t generation = 0;

	return fd >= 0 && read_header(fd, &generation) ? generation : 0;
}

/* Writes the log anew from the rows as the transaction sees them. */
static int rewrite(struct index_txn *t, const struct place *known)
{
	const int store_fd = index_store_fd(t->index);
	_cleanup_buf_ struct buf all = {0};
	_cleanup_close_ int dir = io_open_dir(store_fd, "copies", 0700);
	struct place at = {
		.generation =
			MAX(known->generation, present_generation(store_fd)) +
			1,
	};
	int r = dir < 0 ? dir : 0;

	put_header(&all, at.generation);
	if (r == 0)
		r = put_table(t, INDEX_SNAPSHOTS, at.generation, &all);
	if (r == 0)
		r = put_table(t, INDEX_REFS, at.generation, &all);
	if (r == 0)
		r = put_table(t, INDEX_RESCUES, at.generation, &all);
	if (r == 0)
		r = io_write_file(dir, "log", all.data, all.len, true);
	at.end = at.base = all.len;
	return r < 0 ? r : put_place(t, &at);
}

int copies_commit(struct index_txn *t)
{
	struct place at = {0};
	bool is_long;
	int r = buf_error(&t->changes);

	if (r < 0 || t->changes.len == 0)
		return r;
	r = get_place(t, &at);
	is_long = r == 0 && at.end > 2 * at.base + SLACK;
	if (r == 0 && !is_long && t->changes.len <= FRAME_MAX)
		r = append(t, at);
	else if (r == 0)
		r = -ENOENT;
	if (r == -ENOENT || r == -EFSBADCRC || r == -EFSCORRUPTED)
		r = rewrite(t, &at);
	/* No room for a second one: the first, long as it is, has to do. */
	if (r == -ENOSPC && is_long && t->changes.len <= FRAME_MAX &&
	    append(t, at) == 0)
		r = 0;
	return r;
}

/* Looks whether the log is what the transaction says. */
static int look(struct index_txn *t, struct place *ret_at)
{
	_cleanup_close_ int fd = -1;
	int r = get_place(t, ret_at);

	return r < 0 ? r : open_fitting(index_store_fd(t->index), ret_at, &fd);
}

static int fits(struct index *x)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct place at = {0};
	int r = index_txn_begin(x, false, &t);

	return r < 0 ? r : look(&t, &at);
}

int copies_ensure(struct index *x)
{
	_cleanup_index_txn_ struct index_txn t = {0};
	struct place at = {0};
	int r = fits(x);

	if (r == 0)
		return 0;
	r = index_txn_begin(x, true, &t);
	if (r < 0)
		return r;
	/* Another may have made it while we waited for the lock. */
	if (look(&t, &at) == 0)
		return 0;
	r = rewrite(&t, &at);
	return r < 0 ? r : index_txn_commit(&t);
}

/* --- reading without an index -------------------------------------------- */

static int tell_rows(const uint8_t *rows, size_t len, copies_fn fn, void *ctx)
{
	struct bytes in = bytes_of(rows, len);
	int r = 0;

	while (r == 0 && in.left > 0) {
		const uint8_t table = bytes_u8(&in);
		const uint8_t op = bytes_u8(&in);
		struct index_key key, value;

		key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
		value.data = bytes_block(&in, INDEX_MAX_VALUE, &value.len);
		if (in.bad || !copies_has(table) ||
		    (op != ROW_SET && op != ROW_GONE))
			return -EFSCORRUPTED;
		r = fn(ctx, table, key, op == ROW_SET ? &value : NULL);
	}
	return r;
}

/* Returns the length of the whole frame at a place, 0 when there is none. */
static size_t frame_at(const struct buf *b, size_t at, uint64_t generation)
{
	const uint8_t *p = b->data + at;
	size_t len;

	if (b->len - at < FRAME_BYTES ||
	    bytes_load_u32(p) != FORMAT_COPIES_MAGIC)
		return 0;
	len = bytes_load_u32(p + 4);
	if (len > b->len - at - FRAME_BYTES ||
	    bytes_load_u64(p + 8) !=
		    frame_checksum(p + FRAME_BYTES, len, generation, at))
		return 0;
	return FRAME_BYTES + len;
}

static int read_frames(const struct buf *b, copies_fn fn, void *ctx,
		       struct copies_state *state)
{
	size_t at = HEADER_BYTES;
	int r = 0;

	state->end = at;
	while (r == 0 && at < b->len) {
		const size_t n = frame_at(b, at, state->generation);

		if (n == 0) {
			state->damaged = true;
			at++;
			continue;
		}
		r = tell_rows(b->data + at + FRAME_BYTES, n - FRAME_BYTES, fn,
			      ctx);
		at += n;
		state->end = at;
	}
	return r;
}

/* A damaged header may have lost the generation only: it is a small number, as
 * are the ones that a first frame can be checked with. */
static bool guess_generation(const struct buf *b, uint64_t *ret_generation)
{
	enum { MOST = 1 << 16 };

	for (uint64_t g = 1; g < MOST; g++) {
		if (frame_at(b, HEADER_BYTES, g)) {
			*ret_generation = g;
			return true;
		}
	}
	return false;
}

int copies_read(int store_fd, uint64_t end, copies_fn fn, void *ctx,
		struct copies_state *ret_state)
{
	_cleanup_buf_ struct buf b = {0};
	int r = io_read_file(store_fd, "copies/log", LOG_MAX, &b);

	if (r == -ENOTDIR || r == -ELOOP)
		r = -ENOENT;

	*ret_state =
		(struct copies_state){.missing = r == -ENOENT, .size = b.len};
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (end > b.len)
		ret_state->damaged = true;
	else if (end > 0)
		b.len = end;
	if (!take_header(b.data, b.len, &ret_state->generation)) {
		ret_state->damaged = true;
		if (b.len < HEADER_BYTES ||
		    !guess_generation(&b, &ret_state->generation))
			return 0;
	}
	return read_frames(&b, fn, ctx, ret_state);
}
