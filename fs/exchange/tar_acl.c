/* SPDX-License-Identifier: MIT */
/*
 * tar_acl.c - POSIX ACLs of an archive, which are text there, in the form that
 * the kernel passes as attributes: u32 version 2, then entries of u16 tag, u16
 * permissions, u32 id, sorted by tag and id, each once.
 *
 * A name is looked up on this machine, as tar does, unless its number is known.
 *
 * Source: acl(5); the kernel's posix_acl_xattr.h for the form and its order.
 */
#include "exchange/tar_int.h"

#include <errno.h>
#include <grp.h>
#include <linux/posix_acl.h>
#include <pwd.h>
#include <string.h>

#include "base/bytes.h"

enum {
	VERSION = 2,
	HEADER = 4,
	ENTRY = 8,
	MAX_ENTRIES = (FORMAT_MAX_XATTR_VALUE - HEADER) / ENTRY,
};

struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};

static uint16_t tag_of(int tag)
{
	switch (tag) {
	case ARCHIVE_ENTRY_ACL_USER_OBJ:
		return ACL_USER_OBJ;
	case ARCHIVE_ENTRY_ACL_USER:
		return ACL_USER;
	case ARCHIVE_ENTRY_ACL_GROUP_OBJ:
		return ACL_GROUP_OBJ;
	case ARCHIVE_ENTRY_ACL_GROUP:
		return ACL_GROUP;
	case ARCHIVE_ENTRY_ACL_MASK:
		return ACL_MASK;
	case ARCHIVE_ENTRY_ACL_OTHER:
		return ACL_OTHER;
	default:
		return 0;
	}
}

/* Finds the number of a user or group. */
static int find_id(uint16_t tag, const char *name, int id, uint32_t *ret_id)
{
	const struct passwd *pw;
	const struct group *gr;

	*ret_id = UINT32_MAX;
	if (tag != ACL_USER && tag != ACL_GROUP)
		return 0;
	if (id >= 0) {
		*ret_id = (uint32_t)id;
		return 0;
	}
	if (!name || !*name)
		return -ENOENT;
	pw = tag == ACL_USER ? getpwnam(name) : NULL;
	gr = tag == ACL_GROUP ? getgrnam(name) : NULL;
	if (pw)
		*ret_id = pw->pw_uid;
	if (gr)
		*ret_id = gr->gr_gid;
	return pw || gr ? 0 : -ENOENT;
}

static int compare(const void *a, const void *b)
{
	const struct acl_entry *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int read_entries(struct archive_entry *e, int type, struct acl_entry *v,
			size_t most)
{
	int each, perm, tag, id, count = 0;
	const char *name;

	while (archive_entry_acl_next(e, type, &each, &perm, &tag, &id,
				      &name) == ARCHIVE_OK) {
		struct acl_entry *x = &v[count];
		int r;

		if ((size_t)count == most)
			return -E2BIG;
		x->tag = tag_of(tag);
		x->perm = (uint16_t)perm & 7;
		if (!x->tag)
			return -EINVAL;
		r = find_id(x->tag, name, id, &x->id);
		if (r < 0)
			return r;
		count++;
	}
	return count;
}

int tar_acl_get(struct archive_entry *e, int type, struct buf *out)
{
	const int most = archive_entry_acl_reset(e, type);
	_cleanup_free_ struct acl_entry *v = NULL;
	int count;

	/* without names of users or groups it says no more than the mode */
	if (most <= 0 || !(archive_entry_acl_types(e) & type))
		return 0;
	if (most > MAX_ENTRIES)
		return -E2BIG;
	v = calloc((size_t)most, sizeof *v);
	if (!v)
		return -ENOMEM;
	count = read_entries(e, type, v, (size_t)most);
	if (count < 0)
		return count;
	qsort(v, (size_t)count, sizeof *v, compare);
	buf_put_u32(out, VERSION);
	for (int i = 0; i < count; i++) {
		buf_put_u16(out, v[i].tag);
		buf_put_u16(out, v[i].perm);
		buf_put_u32(out, v[i].id);
	}
	if (buf_error(out) < 0)
		return -ENOMEM;
	return tar_acl_is_sound(out->data, out->len) ? 0 : -EINVAL;
}

bool tar_acl_is_sound(const void *value, size_t len)
{
	const uint8_t *p = value;
	struct acl_entry last = {.tag = 0};
	unsigned seen = 0;

	if (len < HEADER || (len - HEADER) % ENTRY ||
	    len > FORMAT_MAX_XATTR_VALUE || bytes_load_u32(p) != VERSION)
		return false;
	for (size_t at = HEADER; at < len; at += ENTRY) {
		const struct acl_entry x = {.tag = bytes_load_u16(p + at),
					    .perm = bytes_load_u16(p + at + 2),
					    .id = bytes_load_u32(p + at + 4)};
		const bool named = x.tag == ACL_USER || x.tag == ACL_GROUP;

		if (x.perm > 7 || x.tag < last.tag || !x.tag ||
		    x.tag > ACL_OTHER || (x.tag & (x.tag - 1)) ||
		    (x.tag == last.tag && (!named || x.id <= last.id)))
			return false;
		seen |= x.tag;
		last = x;
	}
	return (seen & ACL_USER_OBJ) && (seen & ACL_GROUP_OBJ) &&
	       (seen & ACL_OTHER) &&
	       (!(seen & (ACL_USER | ACL_GROUP)) || (seen & ACL_MASK));
}

uint32_t tar_acl_mode(const void *value, size_t len, uint32_t mode)
{
	const uint8_t *p = value;
	uint32_t user = 0, group = 0, other = 0;

	/* sorted: a mask comes after what it masks, and counts instead */
	for (size_t at = HEADER; at < len; at += ENTRY) {
		const uint32_t perm = bytes_load_u16(p + at + 2) & 7;

		switch (bytes_load_u16(p + at)) {
		case ACL_USER_OBJ:
			user = perm;
			break;
		case ACL_GROUP_OBJ:
		case ACL_MASK:
			group = perm;
			break;
		case ACL_OTHER:
			other = perm;
			break;
		default:
			break;
		}
	}
	return (mode & ~0777U) | user << 6 | group << 3 | other;
}
