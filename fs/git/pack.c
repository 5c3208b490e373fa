/* SPDX-License-Identifier: MIT */
/*
 * pack.c - one pack instead of loose objects: three syncs, however many there
 * are.
 *
 * Objects go into a file without a name, each whole: the origin's next gc finds
 * deltas. A temporary name is given only where the file system has no such
 * files, and then one of git's own kind, so that a gc takes it away if we die;
 * "gc --prune=now" does so, too, while we live. The number of the objects
 * stands in the header and is known at the end, so the header is written again,
 * and the checksum made by reading what was written.
 *
 * A gc of the origin deletes packs whose objects nothing leads to, and
 * nothing does before the ref is set. "pack-X.keep" says that one is in use, as
 * git's own fetch does; it is there before the pack is.
 */
#include "git/pack_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/hmap.h"
#include "base/io.h"
#include "git/packidx_int.h"
#include "git/sha1_int.h"
#include "object/zip.h"

enum {
	HEADER_BYTES = 12,
	NAME_ROOM = 64,
	FLUSH_BYTES = 256 << 10,
	PIECE_BYTES = 64 << 10,
	TRIES = 100,
};

struct packed {
	struct hnode node;
	struct packidx_entry e;
};

struct gitpack {
	int dir;
	int fd;
	char *folder; /* for messages */
	struct diag *diag;
	char temporary[NAME_ROOM];
	char keep[NAME_ROOM];
	struct packed **list;
	size_t count, cap;
	struct hmap map;
	struct buf out; /* not yet written */
	uint64_t written;
	uint32_t crc; /* of the object at hand */
	uint64_t start;
	struct zip_out *zip;
	struct gitblob blob;
	uint64_t left; /* bytes that the blob at hand still has */
};

static int fail(struct gitpack *p, int err)
{
	return diag_fail(p->diag, err, "%s: %s", p->folder, err_text(err));
}

int gitpack_begin(const char *objects, struct diag *diag,
		  struct gitpack **ret_pack)
{
	_cleanup_gitpack_ struct gitpack *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->dir = p->fd = -1;
	p->diag = diag;
	if (asprintf(&p->folder, "%s/pack", objects) < 0)
		return -ENOMEM;
	r = io_open_dir(AT_FDCWD, p->folder, 0777);
	if (r < 0)
		return fail(p, r);
	p->dir = r;
	r = zip_out_new(&p->zip);
	if (r < 0)
		return r;
	*ret_pack = TAKE_PTR(p);
	return 0;
}

void gitpack_release(struct gitpack *p)
{
	if (p->keep[0])
		(void)unlinkat(p->dir, p->keep, 0);
	p->keep[0] = '\0';
}

void gitpack_free(struct gitpack *p)
{
	if (!p)
		return;
	if (p->temporary[0])
		(void)unlinkat(p->dir, p->temporary, 0);
	gitpack_release(p);
	attr_closep(&p->fd);
	attr_closep(&p->dir);
	for (size_t i = 0; i < p->count; i++)
		free(p->list[i]);
	free(p->list);
	hmap_fini(&p->map);
	buf_fini(&p->out);
	zip_out_free(p->zip);
	free(p->folder);
	free(p);
}

/* --- the file ------------------------------------------------------------- */

/* Makes a file of a new name; ret_name has NAME_ROOM bytes. */
static int make_named(struct gitpack *p, const char *kind, char *ret_name)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t number = 0;
		int fd;

		if (getrandom(&number, sizeof number, 0) < 0)
			return -errno;
		(void)snprintf(ret_name, NAME_ROOM, "tmp_%s_%016" PRIx64, kind,
			       number);
		fd = openat(p->dir, ret_name,
			    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (fd >= 0)
			return fd;
		ret_name[0] = '\0';
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* Makes a file without a name, where that can be; else a temporary one. */
static int make_file(struct gitpack *p, const char *kind, char *ret_name)
{
	const int fd =
		openat(p->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0444);

	ret_name[0] = '\0';
	return fd >= 0 ? fd : make_named(p, kind, ret_name);
}

static int link_file(struct gitpack *p, int fd, const char *name)
{
	char path[32];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, p->dir, name, AT_SYMLINK_FOLLOW) < 0
		       ? -errno
		       : 0;
}

/* Gives a file its name, in place of what has it. */
static int name_file(struct gitpack *p, int fd, char *temporary,
		     const char *name)
{
	int r = 0;

	if (!temporary[0]) {
		r = link_file(p, fd, name);
		if (r != -EEXIST)
			return r;
		(void)snprintf(temporary, NAME_ROOM, "tmp_cowfs_%d",
			       (int)getpid());
		(void)unlinkat(p->dir, temporary, 0);
		r = link_file(p, fd, temporary);
	}
	if (r == 0 && renameat(p->dir, temporary, p->dir, name) < 0)
		return -errno;
	temporary[0] = '\0';
	return r;
}

static int flush(struct gitpack *p)
{
	int r;

	if (p->fd < 0) {
		r = make_file(p, "pack", p->temporary);
		if (r < 0)
			return fail(p, r);
		p->fd = r;
	}
	r = buf_error(&p->out);
	if (r == 0)
		r = io_write(p->fd, p->out.data, p->out.len);
	if (r < 0)
		return fail(p, r);
	p->written += p->out.len;
	buf_clear(&p->out);
	return 0;
}

/* Where the next byte goes. */
static uint64_t position(const struct gitpack *p)
{
	return p->written + p->out.len;
}

static void put_header(struct buf *out, uint32_t count)
{
	static const uint8_t magic[] = {'P', 'A', 'C', 'K', 0, 0, 0, 2};

	buf_put(out, magic, sizeof magic);
	buf_put_u32(out, __builtin_bswap32(count));
}

/* Begins an object: its type and size, seven bits a byte after the first. */
static void put_start(struct gitpack *p, enum gitpack_type type, uint64_t size)
{
	uint8_t c = (uint8_t)((unsigned)type << 4 | (size & 15));
	size_t from;

	if (!position(p))
		put_header(&p->out, 0);
	p->start = position(p);
	from = p->out.len;
	for (size >>= 4; size; size >>= 7) {
		buf_put_u8(&p->out, c | 0x80);
		c = size & 0x7f;
	}
	buf_put_u8(&p->out, c);
	p->crc = 0;
	if (!p->out.failed)
		p->crc = zip_crc32(0, p->out.data + from, p->out.len - from);
}

static int put_bytes(struct gitpack *p, const void *data, size_t len, bool last)
{
	const size_t from = p->out.len;
	int r = zip_out_add(p->zip, data, len, last, &p->out);

	if (r < 0)
		return r;
	p->crc = zip_crc32(p->crc, p->out.data + from, p->out.len - from);
	return p->out.len >= FLUSH_BYTES ? flush(p) : 0;
}

/* --- objects -------------------------------------------------------------- */

void gitpack_name(enum gitpack_type type, const void *data, size_t len,
		  uint8_t ret_name[GITINDEX_NAME_BYTES])
{
	static const char *const words[] = {[GITPACK_COMMIT] = "commit",
					    [GITPACK_TREE] = "tree",
					    [GITPACK_BLOB] = "blob",
					    [GITPACK_TAG] = "tag"};
	struct sha1 s;
	char head[32];
	const int n = snprintf(head, sizeof head, "%s %zu", words[type], len);

	sha1_init(&s);
	sha1_add(&s, head, (size_t)n + 1);
	sha1_add(&s, data, len);
	sha1_end(&s, ret_name);
}

static uint64_t hash_of(const uint8_t *name)
{
	return bytes_load_u64(name);
}

static struct packed *find(const struct gitpack *p, const uint8_t *name)
{
	for (struct hnode *h = hmap_first(&p->map, hash_of(name)); h;
	     h = hmap_next(h)) {
		struct packed *o = container_of(h, struct packed, node);

		if (!memcmp(o->e.name, name, GITINDEX_NAME_BYTES))
			return o;
	}
	return NULL;
}

bool gitpack_has(const struct gitpack *p, const uint8_t *name)
{
	return find(p, name) != NULL;
}

uint64_t gitpack_count(const struct gitpack *p)
{
	return p->count;
}

int gitpack_each(const struct gitpack *p,
		 int (*fn)(void *ctx, const uint8_t *name), void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < p->count && r == 0; i++)
		r = fn(ctx, p->list[i]->e.name);
	return r;
}

/* Notes the object at hand under its name. */
static int note(struct gitpack *p, const uint8_t *name)
{
	_cleanup_free_ struct packed *o = calloc(1, sizeof *o);
	int r;

	if (!o)
		return -ENOMEM;
	if (GROW(p->list, p->count, p->cap, 256) < 0)
		return -ENOMEM;
	memcpy(o->e.name, name, GITINDEX_NAME_BYTES);
	o->e.offset = p->start;
	o->e.crc = p->crc;
	r = hmap_insert(&p->map, &o->node, hash_of(name));
	if (r == 0)
		p->list[p->count++] = TAKE_PTR(o);
	return r;
}

int gitpack_put(struct gitpack *p, enum gitpack_type type, const void *data,
		size_t len, const uint8_t *name)
{
	int r;

	if (gitpack_has(p, name))
		return 0;
	put_start(p, type, len);
	r = put_bytes(p, data, len, true);
	return r < 0 ? r : note(p, name);
}

int gitpack_blob_begin(struct gitpack *p, uint64_t size)
{
	put_start(p, GITPACK_BLOB, size);
	gitblob_begin(&p->blob, size);
	p->left = size;
	return buf_error(&p->out);
}

int gitpack_blob_add(struct gitpack *p, const void *data, size_t len)
{
	if (len > p->left)
		return -EAGAIN;
	p->left -= len;
	gitblob_add(&p->blob, data, len);
	return put_bytes(p, data, len, false);
}

int gitpack_blob_end(struct gitpack *p, uint8_t ret_name[GITINDEX_NAME_BYTES])
{
	uint8_t name[GITINDEX_NAME_BYTES];
	int r;

	if (p->left)
		return -EAGAIN;
	r = put_bytes(p, "", 0, true);
	if (r < 0)
		return r;
	gitblob_end(&p->blob, name);
	memcpy(ret_name, name, sizeof name);
	if (gitpack_has(p, name))
		return gitpack_blob_drop(p);
	return note(p, name);
}

int gitpack_blob_drop(struct gitpack *p)
{
	struct packed *last = p->count ? p->list[p->count - 1] : NULL;
	struct zip_out *zip;
	int r = zip_out_new(&zip);

	if (r < 0)
		return r;
	zip_out_free(p->zip); /* in the middle of a stream, perhaps */
	p->zip = zip;
	if (last && last->e.offset == p->start) {
		hmap_remove(&p->map, &last->node);
		free(last);
		p->count--;
	}
	if (p->start >= p->written) {
		p->out.len = (size_t)(p->start - p->written);
		return 0;
	}
	buf_clear(&p->out);
	r = io_truncate(p->fd, p->start);
	if (r == 0 && lseek(p->fd, (off_t)p->start, SEEK_SET) < 0)
		r = -errno;
	p->written = p->start;
	return r < 0 ? fail(p, r) : 0;
}

/* --- the end -------------------------------------------------------------- */

/* Writes the header again, and the checksum of all. */
static int seal(struct gitpack *p, uint8_t ret_sum[SHA1_BYTES])
{
	_cleanup_buf_ struct buf header = {0};
	_cleanup_free_ uint8_t *piece = malloc(PIECE_BYTES);
	struct sha1 s;
	int r;

	if (!piece)
		return -ENOMEM;
	put_header(&header, (uint32_t)p->count);
	r = buf_error(&header);
	if (r == 0)
		r = io_pwrite(p->fd, header.data, header.len, 0);
	sha1_init(&s);
	for (uint64_t at = 0; at < p->written && r == 0;) {
		const ssize_t n = io_pread(
			p->fd, piece,
			MIN((uint64_t)PIECE_BYTES, p->written - at), at);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		sha1_add(&s, piece, (size_t)n);
		at += (uint64_t)n;
	}
	sha1_end(&s, ret_sum);
	if (r == 0)
		r = io_pwrite(p->fd, ret_sum, SHA1_BYTES, p->written);
	return r < 0 ? r : io_sync_data(p->fd);
}

/* Returns the file's descriptor. */
static int write_index(struct gitpack *p, const uint8_t sum[SHA1_BYTES],
		       char *ret_name)
{
	_cleanup_free_ struct packidx_entry *list = NULL;
	_cleanup_buf_ struct buf bytes = {0};
	_cleanup_close_ int fd = -1;
	int r;

	list = malloc(p->count * sizeof *list);
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < p->count; i++)
		list[i] = p->list[i]->e;
	packidx_make(list, p->count, sum, &bytes);
	r = buf_error(&bytes);
	if (r < 0)
		return r;
	fd = make_file(p, "idx", ret_name);
	if (fd < 0)
		return fd;
	r = io_write(fd, bytes.data, bytes.len);
	if (r == 0)
		r = io_sync_data(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

static int make_keep(struct gitpack *p, const char *base)
{
	static const char text[] = "cowfs\n";
	_cleanup_close_ int fd = -1;
	char name[NAME_ROOM];

	(void)snprintf(name, sizeof name, "%s.keep", base);
	fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno; /* somebody else's */
	memcpy(p->keep, name, sizeof name);
	return io_write(fd, text, sizeof text - 1);
}

/* The pack before its index: git looks for the index. */
static int give_names(struct gitpack *p, const char *base, int idx_fd,
		      char *idx)
{
	char name[NAME_ROOM + 8];
	int r;

	(void)snprintf(name, sizeof name, "%s.pack", base);
	r = name_file(p, p->fd, p->temporary, name);
	(void)snprintf(name, sizeof name, "%s.idx", base);
	if (r == 0)
		r = name_file(p, idx_fd, idx, name);
	return r < 0 ? r : io_sync_dir(p->dir);
}

int gitpack_finish(struct gitpack *p)
{
	char base[NAME_ROOM - 8] = "pack-", idx[NAME_ROOM] = "";
	_cleanup_close_ int fd = -1;
	uint8_t sum[SHA1_BYTES] = {0};
	int r;

	if (!p->count)
		return 0;
	r = flush(p);
	if (r < 0)
		return r;
	r = seal(p, sum);
	if (r == 0) {
		fd = write_index(p, sum, idx);
		r = MIN(fd, 0);
	}
	for (size_t i = 0; i < sizeof sum; i++)
		(void)snprintf(base + 5 + 2 * i, 3, "%02x", sum[i]);
	if (r == 0)
		r = make_keep(p, base);
	if (r == 0)
		r = give_names(p, base, fd, idx);
	if (r < 0 && idx[0])
		(void)unlinkat(p->dir, idx, 0);
	return r < 0 ? fail(p, r) : 0;
}
