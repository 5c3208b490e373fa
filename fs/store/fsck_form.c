/* SPDX-License-Identifier: MIT */
/*
 * How: the readers of fs/object say only that an object is damaged. Where one
 * is, it is looked at a second time to name the rule: for a tree in the order
 * in which its reader goes, the first rule that is broken.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/name.h"
#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/snap.h"
#include "object/xset.h"
#include "object/zip.h"
#include "store/batch_int.h"

enum {
	TREE_HEADER = 24,
	ENTRY_FIXED = 45,
	AT_NAME_LEN = 40,
	AT_TARGET_LEN = 42,
	AT_FLAGS = 44,
};

/* Bytes of an entry before its name. */
static size_t before_name(uint8_t flags)
{
	return ENTRY_FIXED + (flags & 1 ? OID_BYTES : 0) +
	       (flags & 2 ? OID_BYTES : 0) + (flags & 4 ? 8U : 0U);
}

struct names {
	const uint8_t *last;
	size_t last_len;
};

static bool name_is_next(struct names *n, const uint8_t *name, size_t len)
{
	int r = 1;

	if (!name_is_component(name, len))
		return false;
	if (n->last) {
		r = memcmp(name, n->last, MIN(len, n->last_len));
		if (r == 0)
			r = len > n->last_len ? 1 : -1;
	}
	n->last = name;
	n->last_len = len;
	return r > 0;
}

static const char *tree_rule(const uint8_t *p, size_t len)
{
	const char *starts = NULL;
	struct names names = {0};
	uint64_t next = 1;
	uint32_t count;
	size_t at;

	if (len < TREE_HEADER || bytes_load_u32(p) != FORMAT_TREE_MAGIC ||
	    bytes_load_u32(p + 12) != 0)
		return "O1";
	count = bytes_load_u32(p + 4);
	if (count > (len - TREE_HEADER) / 4)
		return "O6";
	at = TREE_HEADER + (size_t)count * 4;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *e = p + at;
		size_t head, name, bytes;

		if (len - at < ENTRY_FIXED ||
		    bytes_load_u32(p + TREE_HEADER + (size_t)i * 4) != at)
			return "O6";
		head = before_name(e[AT_FLAGS]);
		name = bytes_load_u16(e + AT_NAME_LEN);
		bytes = head + name + bytes_load_u16(e + AT_TARGET_LEN);
		if (bytes > len - at)
			return "O6";
		if (!name_is_next(&names, e + head, name))
			return "O7";
		if ((i == 0 && bytes_load_u64(e) != 1) ||
		    (i > 0 && bytes_load_u64(e) <= next - 1))
			starts = "O8";
		next = bytes_load_u64(e) + 1;
		at += bytes;
	}
	if (at != len)
		return "O6";
	if (starts || next > bytes_load_u64(p + 16) + 1)
		return "O8";
	return "O9";
}

static const char *manifest_rule(const uint8_t *p, size_t len)
{
	if (len < 16 || bytes_load_u32(p) != FORMAT_MANIFEST_MAGIC)
		return "O1";
	return "O4";
}

/* Checks links, which takes memory. */
static int links_rule(const void *data, size_t len, const char **ret_rule)
{
	struct links l;
	const int r = links_open(data, len, &l);

	if (r == -ENOMEM)
		return r;
	*ret_rule = r < 0 ? "O11" : NULL;
	return 0;
}

static const char *form_rule(enum oid_kind kind, const void *data, size_t len)
{
	struct manifest m;
	struct xset x;
	struct snap s;
	struct tree t;

	switch (kind) {
	case OID_TREE:
		return tree_open(data, len, &t) < 0 ? tree_rule(data, len)
						    : NULL;
	case OID_MANIFEST:
		return manifest_open(data, len, &m) < 0
			       ? manifest_rule(data, len)
			       : NULL;
	case OID_XSET:
		return xset_open(data, len, &x) < 0 ? "O10" : NULL;
	case OID_SNAP:
		return snap_decode(data, len, &s) < 0 ? "O13" : NULL;
	case OID_BLOB:
		return len < 1 || len > FORMAT_CHUNK_BYTES ? "O3" : NULL;
	default:
		return "O1";
	}
}

int fsck_form_rule(const struct oid *id, const void *data, size_t len,
		   const char **ret_rule)
{
	const struct oid want = oid_with_counter(
		batch_seam_int.name(oid_kind(id), data, len), oid_counter(id));

	*ret_rule = "S4";
	if (!oid_equal(&want, id))
		return 0;
	if (oid_kind(id) == OID_LINKS)
		return links_rule(data, len, ret_rule);
	*ret_rule = form_rule(oid_kind(id), data, len);
	return 0;
}

int fsck_raw_bytes(const struct frame *f, struct buf *scratch,
		   const uint8_t **ret)
{
	const size_t n = oid_length(&f->id);
	int r;

	if (f->place.encoding == SEGMENT_RAW) {
		*ret = f->payload;
		return 0;
	}
	buf_clear(scratch);
	r = buf_reserve(scratch, n + 1);
	if (r == 0)
		r = zip_inflate(f->payload, f->place.stored_len, scratch->data,
				n);
	*ret = scratch->data;
	return r;
}
