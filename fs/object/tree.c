/* SPDX-License-Identifier: MIT */
/*
 * How: a header, a table of offsets, then the entries without gaps. The table
 * makes every entry reachable in one load, so names and positions are found by
 * bisection. tree_open decodes every entry once with bounds and applies the
 * same rules as the builder (entry_is_sound); after it, loads need no checks.
 *
 * Why so strict: a directory must have exactly one encoding, or equal trees
 * would have several names and snapshot ids would depend on who wrote them. So
 * an optional field is there if and only if it is not null, entries follow each
 * other without slack, and counts that could be derived must be right.
 */
#include "object/tree.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/name.h"
#include "object/form_int.h"

#include <sys/stat.h>

enum { /* the header, then the fixed part of an entry */
       AT_COUNT = 4,
       AT_SUBDIRS = 8,
       AT_RESERVED = 12,
       AT_TOTAL = 16,

       AT_START = 0,
       AT_MTIME_SEC = 8,
       AT_SIZE = 16,
       AT_MTIME_NSEC = 24,
       AT_MODE = 28,
       AT_UID = 32,
       AT_GID = 36,
       AT_NAME_LEN = 40,
       AT_TARGET_LEN = 42,
       AT_FLAGS = 44,
       ENTRY_FIXED = 45,

       HAS_CONTENT = 1,
       HAS_XATTRS = 2,
       HAS_RDEV = 4,
       HAS_ALL = 7,
};

static uint8_t flags_of(const struct tree_entry *e)
{
	return (uint8_t)((oid_is_null(&e->content) ? 0 : HAS_CONTENT) |
			 (oid_is_null(&e->xattrs) ? 0 : HAS_XATTRS) |
			 (e->rdev ? HAS_RDEV : 0));
}

/* Bytes of the optional fields. */
static size_t optional_bytes(uint8_t flags)
{
	return (flags & HAS_CONTENT ? OID_BYTES : 0) +
	       (flags & HAS_XATTRS ? OID_BYTES : 0) +
	       (flags & HAS_RDEV ? sizeof(uint64_t) : 0);
}

static size_t entry_bytes(uint8_t flags, size_t name_len, size_t target_len)
{
	return ENTRY_FIXED + optional_bytes(flags) + name_len + target_len;
}

/* What each type may have. */
static bool type_is_sound(const struct tree_entry *e)
{
	if (!S_ISDIR(e->mode) && e->below != 0)
		return false;
	if (!S_ISLNK(e->mode) && e->target_len != 0)
		return false;
	if (!S_ISCHR(e->mode) && !S_ISBLK(e->mode) && e->rdev != 0)
		return false;
	switch (e->mode & S_IFMT) {
	case S_IFREG:
		return form_content_fits(&e->content, e->size);
	case S_IFDIR:
		return e->size <= e->below && e->size <= UINT32_MAX &&
		       form_tree_fits(&e->content, e->below);
	case S_IFLNK:
		return e->size == e->target_len && e->target_len >= 1 &&
		       e->target_len <= FORMAT_MAX_TARGET &&
		       !memchr(e->target, '\0', e->target_len) &&
		       oid_is_null(&e->content);
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
		return e->size == 0 && oid_is_null(&e->content);
	default: /* a socket is nothing without its process */
		return false;
	}
}

static bool entry_is_sound(const struct tree_entry *e)
{
	return name_is_component(e->name, e->name_len) &&
	       (e->mode & ~(S_IFMT | 07777U)) == 0 &&
	       e->mtime_nsec < FORM_NSEC_END && e->below < FORMAT_MAX_INODE &&
	       form_xattrs_fit(&e->xattrs) && type_is_sound(e);
}

static int compare_names(const void *a, size_t a_len, const void *b,
			 size_t b_len)
{
	int r = memcmp(a, b, MIN(a_len, b_len));

	return r != 0 ? r : (a_len > b_len) - (a_len < b_len);
}

/* --- reading ----------------------------------------------------------- */

static const uint8_t *entry_bytes_at(const struct tree *t, uint32_t i)
{
	const uint8_t *offsets = t->data + FORM_TREE_HEADER;

	return t->data + bytes_load_u32(offsets + (size_t)i * 4);
}

static uint64_t start_at(const struct tree *t, uint32_t i)
{
	return bytes_load_u64(entry_bytes_at(t, i) + AT_START);
}

/* Reads all but `below`, which needs the next entry. */
static void load_entry(const uint8_t *p, struct tree_entry *ret_entry)
{
	struct tree_entry e = {
		.start = bytes_load_u64(p + AT_START),
		.mtime_sec = (int64_t)bytes_load_u64(p + AT_MTIME_SEC),
		.size = bytes_load_u64(p + AT_SIZE),
		.mtime_nsec = bytes_load_u32(p + AT_MTIME_NSEC),
		.mode = bytes_load_u32(p + AT_MODE),
		.uid = bytes_load_u32(p + AT_UID),
		.gid = bytes_load_u32(p + AT_GID),
		.name_len = bytes_load_u16(p + AT_NAME_LEN),
		.target_len = bytes_load_u16(p + AT_TARGET_LEN),
	};
	uint8_t flags = p[AT_FLAGS];

	p += ENTRY_FIXED;
	if (flags & HAS_CONTENT) {
		memcpy(e.content.b, p, OID_BYTES);
		p += OID_BYTES;
	}
	if (flags & HAS_XATTRS) {
		memcpy(e.xattrs.b, p, OID_BYTES);
		p += OID_BYTES;
	}
	if (flags & HAS_RDEV) {
		e.rdev = bytes_load_u64(p);
		p += sizeof e.rdev;
	}
	e.name = (const char *)p;
	e.target = e.target_len ? (const char *)p + e.name_len : NULL;
	*ret_entry = e;
}

/* Where tree_open stands. */
struct check {
	const struct tree *t;
	struct tree_entry last;
	size_t offset;	/* of the next entry */
	uint64_t start; /* of the next entry */
	uint32_t subdirs;
};

/* Checks entry i and moves on. That its offset is where the one before ended
 * also bounds it. */
static bool check_entry(struct check *c, uint32_t i)
{
	const struct tree *t = c->t;
	const uint8_t *p = t->data + c->offset;
	size_t left = t->len - c->offset;
	uint64_t next = t->total + 1;
	struct tree_entry e;
	size_t size;

	if (left < ENTRY_FIXED || entry_bytes_at(t, i) != p ||
	    (p[AT_FLAGS] & ~HAS_ALL) != 0)
		return false;
	size = entry_bytes(p[AT_FLAGS], bytes_load_u16(p + AT_NAME_LEN),
			   bytes_load_u16(p + AT_TARGET_LEN));
	if (size > left)
		return false;
	load_entry(p, &e);
	if (i + 1 < t->count) {
		if (left - size < ENTRY_FIXED)
			return false;
		next = bytes_load_u64(p + size + AT_START);
	}
	if (e.start != c->start || next <= e.start || next > t->total + 1)
		return false;
	e.below = next - e.start - 1;
	if (p[AT_FLAGS] != flags_of(&e) || !entry_is_sound(&e))
		return false;
	if (i > 0 && compare_names(c->last.name, c->last.name_len, e.name,
				   e.name_len) >= 0)
		return false;
	c->subdirs += S_ISDIR(e.mode);
	c->offset += size;
	c->start = next;
	c->last = e;
	return true;
}

int tree_open(const void *data, size_t len, struct tree *ret_tree)
{
	struct tree t = {.data = data, .len = len};
	struct check c = {.t = &t, .start = 1};

	if (len < FORM_TREE_HEADER || len > FORMAT_MAX_OBJECT ||
	    bytes_load_u32(t.data) != FORMAT_TREE_MAGIC ||
	    bytes_load_u32(t.data + AT_RESERVED) != 0)
		return -EFSCORRUPTED;
	t.count = bytes_load_u32(t.data + AT_COUNT);
	t.subdirs = bytes_load_u32(t.data + AT_SUBDIRS);
	t.total = bytes_load_u64(t.data + AT_TOTAL);
	if (t.count > (len - FORM_TREE_HEADER) / 4 ||
	    t.total > FORMAT_MAX_INODE)
		return -EFSCORRUPTED;
	c.offset = FORM_TREE_HEADER + (size_t)t.count * 4;
	for (uint32_t i = 0; i < t.count; i++) {
		if (!check_entry(&c, i))
			return -EFSCORRUPTED;
	}
	if (c.offset != len || c.start != t.total + 1 || c.subdirs != t.subdirs)
		return -EFSCORRUPTED;
	*ret_tree = t;
	return 0;
}

void tree_entry_at(const struct tree *t, uint32_t i,
		   struct tree_entry *ret_entry)
{
	uint64_t next = i + 1 < t->count ? start_at(t, i + 1) : t->total + 1;

	load_entry(entry_bytes_at(t, i), ret_entry);
	ret_entry->below = next - ret_entry->start - 1;
}

int tree_lookup(const struct tree *t, const void *name, size_t len,
		uint32_t *ret_i)
{
	uint32_t low = 0;
	uint32_t high = t->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const uint8_t *p = entry_bytes_at(t, mid);
		int r = compare_names(name, len,
				      p + entry_bytes(p[AT_FLAGS], 0, 0),
				      bytes_load_u16(p + AT_NAME_LEN));

		if (r == 0) {
			*ret_i = mid;
			return 0;
		}
		if (r > 0)
			low = mid + 1;
		else
			high = mid;
	}
	return -ENOENT;
}

int tree_find_start(const struct tree *t, uint64_t start, uint32_t *ret_i)
{
	uint32_t low = 0;
	uint32_t high = t->count;

	if (start < 1 || start > t->total)
		return -ENOENT;
	/* The last entry that starts at or before it. */
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (start_at(t, mid) <= start)
			low = mid;
		else
			high = mid;
	}
	*ret_i = low;
	return 0;
}

/* --- building ---------------------------------------------------------- */

void tree_builder_fini(struct tree_builder *b)
{
	buf_fini(&b->offsets);
	buf_fini(&b->entries);
	buf_fini(&b->last_name);
	*b = (struct tree_builder){0};
}

static void put_entry(struct buf *out, const struct tree_entry *e,
		      uint64_t start)
{
	uint8_t flags = flags_of(e);

	buf_put_u64(out, start);
	buf_put_u64(out, (uint64_t)e->mtime_sec);
	buf_put_u64(out, e->size);
	buf_put_u32(out, e->mtime_nsec);
	buf_put_u32(out, e->mode);
	buf_put_u32(out, e->uid);
	buf_put_u32(out, e->gid);
	buf_put_u16(out, e->name_len);
	buf_put_u16(out, e->target_len);
	buf_put_u8(out, flags);
	if (flags & HAS_CONTENT)
		buf_put(out, e->content.b, OID_BYTES);
	if (flags & HAS_XATTRS)
		buf_put(out, e->xattrs.b, OID_BYTES);
	if (flags & HAS_RDEV)
		buf_put_u64(out, e->rdev);
	buf_put(out, e->name, e->name_len);
	buf_put(out, e->target, e->target_len);
}

/* Makes room for everything an entry needs, so that adding it is all or
 * nothing. */
static int make_room(struct tree_builder *b, size_t size)
{
	int r = buf_reserve(&b->offsets, sizeof(uint32_t));

	if (r == 0)
		r = buf_reserve(&b->entries, size);
	if (r == 0)
		r = buf_reserve(&b->last_name, NAME_MAX_BYTES);
	return r;
}

int tree_builder_add(struct tree_builder *b, const struct tree_entry *e)
{
	size_t size = entry_bytes(flags_of(e), e->name_len, e->target_len);
	uint64_t fixed = FORM_TREE_HEADER + (b->count + UINT64_C(1)) * 4;
	int r;

	if (!entry_is_sound(e) ||
	    (b->count > 0 && compare_names(b->last_name.data, b->last_name.len,
					   e->name, e->name_len) >= 0))
		return -EINVAL;
	if (e->below + 1 > FORMAT_MAX_INODE - b->total ||
	    fixed + b->entries.len + size > FORMAT_MAX_OBJECT)
		return -EOVERFLOW;
	r = make_room(b, size);
	if (r < 0)
		return r;
	buf_put_u32(&b->offsets, (uint32_t)b->entries.len);
	put_entry(&b->entries, e, b->total + 1);
	buf_clear(&b->last_name);
	buf_put(&b->last_name, e->name, e->name_len);
	b->count++;
	b->subdirs += S_ISDIR(e->mode);
	b->total += e->below + 1;
	return 0;
}

int tree_builder_finish(struct tree_builder *b, struct buf *out)
{
	size_t first = FORM_TREE_HEADER + b->offsets.len;
	int r = buf_reserve(out, first + b->entries.len);

	if (r == 0) {
		buf_put_u32(out, FORMAT_TREE_MAGIC);
		buf_put_u32(out, b->count);
		buf_put_u32(out, b->subdirs);
		buf_put_u32(out, 0);
		buf_put_u64(out, b->total);
		for (size_t i = 0; i < b->offsets.len; i += 4)
			buf_put_u32(out, (uint32_t)first +
						 bytes_load_u32(
							 b->offsets.data + i));
		buf_put(out, b->entries.data, b->entries.len);
	}
	/* Keeps the memory: an import builds one tree after the other. */
	buf_clear(&b->offsets);
	buf_clear(&b->entries);
	buf_clear(&b->last_name);
	b->count = 0;
	b->subdirs = 0;
	b->total = 0;
	return r;
}
