/* SPDX-License-Identifier: MIT */
/*
 * How: the place from the index says how many bytes a record has, so a read is
 * one preadv of header and payload, the payload straight into the caller's
 * buffer. Then the header is compared with what was asked for and the checksum
 * with the bytes; nothing that fails leaves here.
 *
 * Open segments sit in a direct-mapped table (number modulo its size): 256
 * segments are 64 GiB, beyond that two segments may take turns in a slot. A
 * slot in use is never closed; a second segment that wants it gets a descriptor
 * of its own for that one read. A least-recently-used list would save nothing
 * below 64 GiB and cost a shared write on every read.
 *
 * gc removes segments under other processes. An open one is read on, its bytes
 * stay right; but it would hold its space, so the store says when to look for
 * such (read.c). Numbers are never used twice: a slot cannot hold a namesake.
 *
 * Why no mmap: a truncated or failing file would be SIGBUS in the server.
 */
#include "store/segment_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mutex.h"
#include "object/format.h"
#include "object/zip.h"

enum { OPEN_MAX_SEGMENTS = 256 };

struct slot {
	int fd; /* -1: empty */
	uint32_t number;
	uint32_t users;
	bool removed; /* the file is gone: close it when nobody reads */
};

struct segments {
	int fd;
	struct mutex lock;
	struct slot slots[OPEN_MAX_SEGMENTS]; /* protected by lock */
};

int segments_open(int store_fd, struct segments **ret_segments)
{
	_cleanup_free_ struct segments *g = calloc(1, sizeof *g);

	if (!g)
		return -ENOMEM;
	g->fd = openat(store_fd, "segments",
		       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (g->fd < 0)
		return -errno;
	mutex_init(&g->lock);
	for (size_t i = 0; i < ARRAY_SIZE(g->slots); i++)
		g->slots[i].fd = -1;
	*ret_segments = TAKE_PTR(g);
	return 0;
}

void segments_close(struct segments *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(g->slots); i++)
		if (g->slots[i].fd >= 0)
			(void)close(g->slots[i].fd);
	mutex_fini(&g->lock);
	(void)close(g->fd);
	free(g);
}

int segments_fd(const struct segments *g)
{
	return g->fd;
}

void segment_name(uint32_t number, char ret_name[SEGMENT_NAME_BYTES])
{
	(void)snprintf(ret_name, SEGMENT_NAME_BYTES, "%08u.seg", number);
}

void segment_header_encode(uint32_t number, uint8_t ret[SEGMENT_HEADER_BYTES])
{
	bytes_store_u32(ret, FORMAT_SEGMENT_MAGIC);
	bytes_store_u32(ret + 4, number);
	bytes_store_u64(ret + 8, oid_checksum(ret, 8, FORMAT_SEGMENT_MAGIC));
}

uint64_t segment_record_bytes(uint32_t stored_len)
{
	uint64_t n = SEGMENT_RECORD_BYTES + (uint64_t)stored_len;

	return ALIGN_UP(n, SEGMENT_ALIGN);
}

/* The checksum of a frame: over the payload, seeded with that of the header
 * before it, so that neither can be exchanged without the other. */
static uint64_t record_checksum(const uint8_t *header, const void *payload,
				size_t len)
{
	uint64_t seed = oid_checksum(header, 40, FORMAT_RECORD_MAGIC);

	return oid_checksum(payload, len, seed);
}

bool segment_record_is_sound(const uint8_t *header, const void *payload,
			     uint32_t len)
{
	return bytes_load_u64(header + 40) ==
	       record_checksum(header, payload, len);
}

static void record_header(const struct oid *id, uint8_t encoding,
			  uint32_t stored_len, uint8_t *ret)
{
	memset(ret, 0, SEGMENT_RECORD_BYTES);
	bytes_store_u32(ret, FORMAT_RECORD_MAGIC);
	ret[4] = encoding;
	bytes_store_u32(ret + 8, stored_len);
	bytes_store_u32(ret + 12, (uint32_t)oid_length(id));
	memcpy(ret + 16, id->b, OID_BYTES);
}

void segment_record_encode(const struct oid *id, enum segment_encoding encoding,
			   const void *payload, uint32_t stored_len,
			   uint8_t ret[SEGMENT_RECORD_BYTES])
{
	record_header(id, (uint8_t)encoding, stored_len, ret);
	bytes_store_u64(ret + 40, record_checksum(ret, payload, stored_len));
}

/* --- open segments ------------------------------------------------------ */

static int open_segment(struct segments *g, uint32_t number)
{
	char name[SEGMENT_NAME_BYTES];
	int fd;

	segment_name(number, name);
	fd = io_open_file(g->fd, name, O_RDONLY);
	/* The index names it: that it is missing is damage, not "no object". */
	return fd == -ENOENT ? -EFSCORRUPTED : fd;
}

/* Returns the slot that holds the segment, counted as in use, or NULL. */
static struct slot *take_slot_locked(struct segments *g, uint32_t number)
	REQUIRES(&g->lock);
static struct slot *take_slot_locked(struct segments *g, uint32_t number)
{
	struct slot *s = &g->slots[number % OPEN_MAX_SEGMENTS];

	if (s->fd < 0 || s->number != number || s->removed)
		return NULL;
	s->users++;
	return s;
}

/* Gives fd to the segment's slot, unless that is in use. */
static struct slot *fill_slot_locked(struct segments *g, uint32_t number,
				     int fd) REQUIRES(&g->lock);
static struct slot *fill_slot_locked(struct segments *g, uint32_t number,
				     int fd)
{
	struct slot *s = &g->slots[number % OPEN_MAX_SEGMENTS];

	if (s->users)
		return NULL;
	if (s->fd >= 0)
		(void)close(s->fd);
	*s = (struct slot){.fd = fd, .number = number, .users = 1};
	return s;
}

static void empty_slot_locked(struct segments *g, struct slot *s)
	REQUIRES(&g->lock);
static void empty_slot_locked(struct segments *g, struct slot *s)
{
	(void)close(s->fd);
	*s = (struct slot){.fd = -1};
}

/* Borrows a descriptor of the segment; *ret_slot is NULL when it is only for
 * this caller. The lock is not held while the file is opened. */
static int borrow(struct segments *g, uint32_t number, struct slot **ret_slot)
{
	struct slot *s;
	int fd;

	mutex_lock(&g->lock);
	s = take_slot_locked(g, number);
	fd = s ? s->fd : -1;
	mutex_unlock(&g->lock);
	if (!s) {
		fd = open_segment(g, number);
		if (fd < 0)
			return fd;
		mutex_lock(&g->lock);
		s = fill_slot_locked(g, number, fd);
		mutex_unlock(&g->lock);
	}
	*ret_slot = s;
	return fd;
}

static void give_back(struct segments *g, struct slot *s, int fd)
{
	if (!s) {
		(void)close(fd);
		return;
	}
	mutex_lock(&g->lock);
	if (--s->users == 0 && s->removed)
		empty_slot_locked(g, s);
	mutex_unlock(&g->lock);
}

void segments_drop_removed(struct segments *g)
{
	struct stat st;

	mutex_lock(&g->lock);
	for (size_t i = 0; i < ARRAY_SIZE(g->slots); i++) {
		struct slot *s = &g->slots[i];

		if (s->fd < 0 || fstat(s->fd, &st) < 0 || st.st_nlink > 0)
			continue;
		s->removed = true;
		if (s->users == 0)
			empty_slot_locked(g, s);
	}
	mutex_unlock(&g->lock);
}

/* --- reading ------------------------------------------------------------ */

/* Reads what a first read has left; returns how much there is of all. */
static ssize_t read_rest(int fd, const struct segment_place *p, size_t got,
			 uint8_t *header, void *payload)
{
	ssize_t n = 0;
	size_t have;

	if (got < SEGMENT_RECORD_BYTES) {
		n = io_pread(fd, header + got, SEGMENT_RECORD_BYTES - got,
			     p->offset + got);
		got += n > 0 ? (size_t)n : 0;
	}
	if (n < 0 || got < SEGMENT_RECORD_BYTES)
		return n < 0 ? n : (ssize_t)got;
	have = got - SEGMENT_RECORD_BYTES;
	n = io_pread(fd, (uint8_t *)payload + have, p->stored_len - have,
		     p->offset + got);
	return n < 0 ? n : (ssize_t)got + n;
}

/* Reads header and payload; a record that goes beyond the file is damage. */
static int read_frame(struct segments *g, const struct segment_place *p,
		      uint8_t *header, void *payload)
{
	const size_t want = SEGMENT_RECORD_BYTES + (size_t)p->stored_len;
	struct iovec v[2] = {{header, SEGMENT_RECORD_BYTES},
			     {payload, p->stored_len}};
	struct slot *slot = NULL;
	ssize_t n;
	int fd = borrow(g, p->segment, &slot);

	if (fd < 0)
		return fd;
	do {
		n = preadv(fd, v, 2, (off_t)p->offset);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	/* A short count is rare: a signal, or the 2 GiB limit of the call. */
	if (n > 0 && (size_t)n < want)
		n = read_rest(fd, p, (size_t)n, header, payload);
	give_back(g, slot, fd);
	if (n < 0)
		return (int)n;
	return (size_t)n == want ? 0 : -EFSBADCRC;
}

static int check_frame(const struct segment_place *p, const struct oid *id,
		       const uint8_t *header, const void *payload)
{
	uint8_t want[SEGMENT_RECORD_BYTES];

	record_header(id, p->encoding, p->stored_len, want);
	if (memcmp(header, want, 40) != 0)
		return -EFSBADCRC;
	if (bytes_load_u64(header + 40) !=
	    record_checksum(header, payload, p->stored_len))
		return -EFSBADCRC;
	return 0;
}

static int read_raw(struct segments *g, const struct segment_place *p,
		    const struct oid *id, void *raw)
{
	uint8_t header[SEGMENT_RECORD_BYTES];
	int r;

	if (p->stored_len != oid_length(id))
		return -EFSCORRUPTED;
	r = read_frame(g, p, header, raw);
	return r < 0 ? r : check_frame(p, id, header, raw);
}

int segment_read_stored(struct segments *g, const struct segment_place *p,
			const struct oid *id, struct buf *out)
{
	uint8_t header[SEGMENT_RECORD_BYTES];
	uint8_t *payload;
	int r;

	if (p->stored_len > FORMAT_MAX_OBJECT)
		return -EFSCORRUPTED;
	r = buf_reserve(out, (size_t)p->stored_len + 1);
	if (r < 0)
		return r;
	payload = out->data + out->len;
	r = read_frame(g, p, header, payload);
	if (r == 0)
		r = check_frame(p, id, header, payload);
	if (r == 0)
		out->len += p->stored_len;
	return r;
}

static int read_deflate(struct segments *g, const struct segment_place *p,
			const struct oid *id, void *raw)
{
	_cleanup_free_ void *stored = malloc(p->stored_len ? p->stored_len : 1);
	uint8_t header[SEGMENT_RECORD_BYTES];
	int r;

	if (!stored)
		return -ENOMEM;
	r = read_frame(g, p, header, stored);
	if (r == 0)
		r = check_frame(p, id, header, stored);
	if (r == 0)
		r = zip_inflate(stored, p->stored_len, raw, oid_length(id));
	return r;
}

int segment_read(struct segments *g, const struct segment_place *p,
		 const struct oid *id, void *raw)
{
	int r = -EFSCORRUPTED;

	if (p->stored_len <= FORMAT_MAX_OBJECT &&
	    oid_length(id) <= FORMAT_MAX_OBJECT) {
		if (p->encoding == SEGMENT_RAW)
			r = read_raw(g, p, id, raw);
		else if (p->encoding == SEGMENT_DEFLATE)
			r = read_deflate(g, p, id, raw);
		if (r < 0 && oid_length(id) > 0)
			memset(raw, 0, oid_length(id));
	}
	return r;
}
