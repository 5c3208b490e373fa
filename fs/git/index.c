/* SPDX-License-Identifier: MIT */
/*
 * index.c - the stat data of an index are changed where they stand.
 *
 * An index is a header, entries, extensions, and the SHA-1 of all that. An
 * entry begins with 40 bytes of stat data, mode among them, and what follows
 * does not depend on them: so the file is copied, and the values of each entry
 * are overwritten. libgit2 would write an index of its own, in version 2 and
 * without what it does not know.
 *
 * Extensions: UNTR and FSMN say what some work tree looked like, and go. EOIE
 * holds a hash of the other extensions' headers and is made anew. TREE, REUC,
 * IEOT, sdir, and those that git may ignore, are copied. "link" is a split
 * index: most of its entries are in another file, whose name is the hash of
 * that file's bytes, and entries that replace some have no name; it is left
 * alone, as is what must be known and is not.
 */
#include "git/index.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "git/sha1_int.h"

enum {
	HEADER_BYTES = 12,
	STAT_BYTES = 40,
	FIXED_BYTES = STAT_BYTES + GITINDEX_NAME_BYTES + 2, /* with the flags */
	EXT_HEADER = 8,
	EOIE_BYTES = 4 + SHA1_BYTES,
	MAX_PATH = 1 << 16,

	FLAG_ASSUME_UNCHANGED = 0x8000,
	FLAG_EXTENDED = 0x4000,
	FLAG_STAGE_SHIFT = 12,
	FLAG_LENGTH = 0x0fff,
	EXT_SKIP_WORKTREE = 0x4000,
	EXT_INTENT_TO_ADD = 0x2000,
};

#define SIGNATURE(a, b, c, d)                                                  \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

struct patch {
	struct bytes in;
	const uint8_t *raw;
	uint32_t version;
	uint32_t count;
	struct buf path; /* of the entry before: version 4 names the rest */
	gitindex_fn fn;
	void *ctx;
	const struct gitindex_reader *reader; /* in place of fn and out */
	struct diag *diag;
	struct buf *out;
	bool nameless; /* an entry's name is in another file */
};

static uint32_t load_be32(const uint8_t *p)
{
	return __builtin_bswap32(bytes_load_u32(p));
}

static void store_be32(uint8_t *p, uint32_t v)
{
	bytes_store_u32(p, __builtin_bswap32(v));
}

static uint32_t take_be32(struct bytes *in)
{
	return __builtin_bswap32(bytes_u32(in));
}

static uint16_t take_be16(struct bytes *in)
{
	return __builtin_bswap16(bytes_u16(in));
}

/* --- stat data ---------------------------------------------------------- */

static void stat_load(const uint8_t *p, struct gitindex_entry *e)
{
	e->st = (struct gitindex_stat){
		.ctime_sec = load_be32(p),
		.ctime_nsec = load_be32(p + 4),
		.mtime_sec = load_be32(p + 8),
		.mtime_nsec = load_be32(p + 12),
		.dev = load_be32(p + 16),
		.ino = load_be32(p + 20),
		.uid = load_be32(p + 28),
		.gid = load_be32(p + 32),
		.size = load_be32(p + 36),
	};
	e->mode = load_be32(p + 24);
}

static void stat_store(uint8_t *p, const struct gitindex_stat *st)
{
	store_be32(p, st->ctime_sec);
	store_be32(p + 4, st->ctime_nsec);
	store_be32(p + 8, st->mtime_sec);
	store_be32(p + 12, st->mtime_nsec);
	store_be32(p + 16, st->dev);
	store_be32(p + 20, st->ino);
	/* the mode, at 24, is what was staged */
	store_be32(p + 28, st->uid);
	store_be32(p + 32, st->gid);
	store_be32(p + 36, st->size);
}

/* --- entries ------------------------------------------------------------ */

/* How many bytes of the path before are not part of this one. */
static size_t take_strip(struct bytes *in)
{
	uint8_t c = bytes_u8(in);
	size_t n = c & 127;

	while ((c & 128) && !in->bad) {
		if (n > MAX_PATH)
			in->bad = true;
		c = bytes_u8(in);
		n = ((n + 1) << 7) + (c & 127);
	}
	return n;
}

/* Takes a NUL-terminated name and appends it to the path. */
static void take_name(struct patch *p)
{
	const uint8_t *end =
		p->in.left ? memchr(p->in.pos, 0, p->in.left) : NULL;
	size_t n = end ? (size_t)(end - p->in.pos) : 0;

	if (!end || n > MAX_PATH || p->path.len + n > MAX_PATH) {
		p->in.bad = true;
		return;
	}
	buf_put(&p->path, bytes_take(&p->in, n + 1), n);
}

/* Takes the path; start is where the entry began. */
static void take_path(struct patch *p, const uint8_t *start, unsigned flags)
{
	size_t strip;

	if (p->version == 4) {
		strip = take_strip(&p->in);
		if (strip > p->path.len) {
			p->in.bad = true;
			return;
		}
		p->path.len -= strip;
		take_name(p);
		return;
	}
	buf_clear(&p->path);
	take_name(p);
	if (p->in.bad)
		return;
	if (MIN(p->path.len, FLAG_LENGTH) != (flags & FLAG_LENGTH))
		p->in.bad = true;
	/* One to eight zero bytes; the first is taken. */
	while (!p->in.bad && (p->in.pos - start) % 8 != 0)
		if (bytes_u8(&p->in) != 0)
			p->in.bad = true;
}

static int entry_patch(struct patch *p)
{
	const uint8_t *start = p->in.pos;
	const uint8_t *fixed = bytes_take(&p->in, FIXED_BYTES - 2);
	unsigned flags = take_be16(&p->in);
	unsigned extended = 0;
	struct gitindex_stat st = {0};
	struct gitindex_entry e;
	int r;

	if (flags & FLAG_EXTENDED)
		extended = take_be16(&p->in);
	if (p->in.bad || ((flags & FLAG_EXTENDED) && p->version < 3))
		return -EFSCORRUPTED;
	take_path(p, start, flags);
	if (p->in.bad)
		return -EFSCORRUPTED;
	if (!p->path.len) {
		p->nameless = true;
		return 0;
	}
	stat_load(fixed, &e);
	e.name = fixed + STAT_BYTES;
	e.stage = flags >> FLAG_STAGE_SHIFT & 3;
	e.assume_unchanged = flags & FLAG_ASSUME_UNCHANGED;
	e.skip_worktree = extended & EXT_SKIP_WORKTREE;
	e.intent_to_add = extended & EXT_INTENT_TO_ADD;
	e.path = buf_str(&p->path);
	e.path_len = p->path.len;
	if (!e.path)
		return -ENOMEM;
	if (p->reader)
		return p->reader->entry(p->reader->ctx, &e);
	r = p->fn(p->ctx, &e, &st);
	if (r == 0)
		stat_store(p->out->data + (start - p->raw), &st);
	return r;
}

/* --- extensions --------------------------------------------------------- */

static bool is_dropped(uint32_t signature)
{
	return signature == SIGNATURE('U', 'N', 'T', 'R') ||
	       signature == SIGNATURE('F', 'S', 'M', 'N');
}

/* Says whether the whole index must be left alone. */
static int check_extension(struct patch *p, uint32_t signature,
			   const uint8_t *data, size_t len)
{
	static const uint8_t none[SHA1_BYTES];
	char text[5] = {0};

	if (signature == SIGNATURE('l', 'i', 'n', 'k')) {
		if (len >= SHA1_BYTES && !memcmp(data, none, SHA1_BYTES))
			return 0; /* split from nothing */
		return diag_fail(p->diag, -EOPNOTSUPP, "it is split");
	}
	/* A capital says that it may be ignored. */
	if (signature == SIGNATURE('s', 'd', 'i', 'r') ||
	    (signature >> 24 >= 'A' && signature >> 24 <= 'Z'))
		return 0;
	for (int i = 0; i < 4; i++)
		text[i] = (char)(signature >> (24 - 8 * i));
	return diag_fail(p->diag, -EOPNOTSUPP, "it has an extension '%s'",
			 text);
}

/* The offset of the first extension stays; the hash is of what is kept. */
static void put_end_of_entries(struct patch *p, const uint8_t *header,
			       struct sha1 *headers)
{
	uint8_t hash[SHA1_BYTES];

	sha1_end(headers, hash);
	buf_put(p->out, header, EXT_HEADER + 4);
	buf_put(p->out, hash, sizeof hash);
}

static int extensions_patch(struct patch *p)
{
	struct sha1 headers;
	int r;

	sha1_init(&headers);
	while (p->in.left) {
		const uint8_t *header = p->in.pos;
		uint32_t signature = take_be32(&p->in);
		uint32_t len = take_be32(&p->in);
		const uint8_t *data = bytes_take(&p->in, len);

		if (p->in.bad)
			return -EFSCORRUPTED;
		r = check_extension(p, signature, data, len);
		if (r < 0)
			return r;
		if (is_dropped(signature))
			continue;
		if (signature == SIGNATURE('E', 'O', 'I', 'E') &&
		    len == EOIE_BYTES && !p->in.left) {
			put_end_of_entries(p, header, &headers);
			break;
		}
		sha1_add(&headers, header, EXT_HEADER);
		buf_put(p->out, header, EXT_HEADER + (size_t)len);
	}
	return p->nameless ? -EFSCORRUPTED : buf_error(p->out);
}

static int extensions_read(struct patch *p)
{
	int r = 0;

	while (p->in.left && r == 0) {
		uint32_t signature = take_be32(&p->in);
		uint32_t len = take_be32(&p->in);
		const uint8_t *data = bytes_take(&p->in, len);

		if (p->in.bad)
			return -EFSCORRUPTED;
		r = check_extension(p, signature, data, len);
		if (r == 0 && signature == SIGNATURE('T', 'R', 'E', 'E'))
			r = p->reader->cache_tree(p->reader->ctx, data, len);
	}
	return r == 0 && p->nameless ? -EFSCORRUPTED : r;
}

/* --- the whole ---------------------------------------------------------- */

static void hash_of(const void *data, size_t len, uint8_t ret[SHA1_BYTES])
{
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, data, len);
	sha1_end(&s, ret);
}

static int header_check(struct patch *p)
{
	const uint32_t signature = take_be32(&p->in);

	p->version = take_be32(&p->in);
	p->count = take_be32(&p->in);
	if (p->in.bad || signature != SIGNATURE('D', 'I', 'R', 'C'))
		return -EFSCORRUPTED;
	if (p->version < 2 || p->version > 4)
		return diag_fail(p->diag, -EOPNOTSUPP, "it has version %u",
				 p->version);
	return 0;
}

static int body_patch(struct patch *p)
{
	int r = header_check(p);

	if (r < 0)
		return r;
	/* Room for all: entries are overwritten where they stand. */
	buf_put(p->out, p->raw, HEADER_BYTES + p->in.left);
	r = buf_error(p->out);
	for (uint32_t i = 0; i < p->count && r == 0; i++)
		r = entry_patch(p);
	if (r < 0)
		return r;
	p->out->len = (size_t)(p->in.pos - p->raw);
	return extensions_patch(p);
}

static int body_read(struct patch *p)
{
	int r = header_check(p);

	for (uint32_t i = 0; i < p->count && r == 0; i++)
		r = entry_patch(p);
	return r < 0 ? r : extensions_read(p);
}

int gitindex_patch(const void *raw, size_t len, gitindex_fn fn, void *ctx,
		   struct diag *diag, struct buf *out)
{
	static const uint8_t none[SHA1_BYTES];
	struct patch p = {
		.raw = raw, .fn = fn, .ctx = ctx, .diag = diag, .out = out};
	uint8_t hash[SHA1_BYTES];
	const uint8_t *tail;
	bool skipped;
	int r;

	if (len < HEADER_BYTES + SHA1_BYTES)
		return -EFSCORRUPTED;
	len -= SHA1_BYTES;
	tail = p.raw + len;
	skipped = !memcmp(tail, none, sizeof none);
	hash_of(raw, len, hash);
	if (!skipped && memcmp(tail, hash, sizeof hash) != 0)
		return -EFSBADCRC;
	p.in = bytes_of(raw, len);
	r = body_patch(&p);
	buf_fini(&p.path);
	if (r < 0) {
		buf_clear(out);
		return r;
	}
	if (skipped)
		memset(hash, 0, sizeof hash);
	else
		hash_of(out->data, out->len, hash);
	buf_put(out, hash, sizeof hash);
	return buf_error(out);
}

int gitindex_walk(const void *raw, size_t len,
		  const struct gitindex_reader *reader, struct diag *diag)
{
	struct patch p = {.raw = raw, .reader = reader, .diag = diag};
	int r;

	if (len < HEADER_BYTES + SHA1_BYTES)
		return -EFSCORRUPTED;
	p.in = bytes_of(raw, len - SHA1_BYTES);
	r = body_read(&p);
	buf_fini(&p.path);
	return r;
}
