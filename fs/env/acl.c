/* SPDX-License-Identifier: MIT */
/*
 * How: POSIX.1e access control lists in the form that the kernel passes as
 * xattrs: u32 version 2, then entries of u16 tag, u16 permissions, u32 id.
 * Under FUSE_POSIX_ACL the kernel decides access by them and leaves three
 * things to the file system: the mode bits that follow from an ACL, chmod of a
 * file that has one, and inheritance of a directory's default ACL.
 *
 * Source: the tags and rules of acl(5) and POSIX 1003.1e draft 17, 23.1.
 */
#include "env/env_int.h"

#include "base/bytes.h"

#include <errno.h>
#include <linux/posix_acl.h>
#include <string.h>

enum {
	ACL_VERSION = 2,
	ACL_HEADER = 4,
	ACL_ENTRY = 8,
};

static uint16_t entry_tag(const uint8_t *entry)
{
	return bytes_load_u16(entry);
}

static uint16_t entry_perm(const uint8_t *entry)
{
	return bytes_load_u16(entry + 2) & 7;
}

static void entry_set_perm(uint8_t *entry, uint32_t perm)
{
	uint16_t v = perm & 7;

	memcpy(entry + 2, &v, sizeof v);
}

/* The entries that stand for mode bits. */
struct parts {
	uint8_t *user, *group, *mask, *other;
	bool named; /* entries for single users or groups, or a mask */
};

static int acl_parse(void *acl, size_t len, struct parts *ret)
{
	uint8_t *p = acl, *end = p + len;

	memset(ret, 0, sizeof *ret);
	if (len < ACL_HEADER || (len - ACL_HEADER) % ACL_ENTRY ||
	    bytes_load_u32(p) != ACL_VERSION)
		return -EINVAL;
	for (p += ACL_HEADER; p < end; p += ACL_ENTRY) {
		uint8_t **part = NULL;

		switch (entry_tag(p)) {
		case ACL_USER_OBJ:
			part = &ret->user;
			break;
		case ACL_GROUP_OBJ:
			part = &ret->group;
			break;
		case ACL_MASK:
			part = &ret->mask;
			ret->named = true;
			break;
		case ACL_OTHER:
			part = &ret->other;
			break;
		case ACL_USER:
		case ACL_GROUP:
			ret->named = true;
			continue;
		default:
			return -EINVAL;
		}
		if (*part)
			return -EINVAL;
		*part = p;
	}
	if (!ret->user || !ret->group || !ret->other)
		return -EINVAL;
	return 0;
}

int acl_to_mode(const void *acl, size_t len, uint32_t *mode)
{
	struct parts p;
	/* parse writes nothing; the parts are only read here */
	int r = acl_parse((void *)(uintptr_t)acl, len, &p);

	if (r < 0)
		return r;
	*mode = (*mode & ~0777u) | (uint32_t)entry_perm(p.user) << 6 |
		(uint32_t)entry_perm(p.mask ? p.mask : p.group) << 3 |
		entry_perm(p.other);
	return !p.named;
}

int acl_chmod(void *acl, size_t len, uint32_t mode)
{
	struct parts p;
	int r = acl_parse(acl, len, &p);

	if (r < 0)
		return r;
	entry_set_perm(p.user, mode >> 6);
	entry_set_perm(p.mask ? p.mask : p.group, mode >> 3);
	entry_set_perm(p.other, mode);
	return 0;
}

int acl_create(void *acl, size_t len, uint32_t *mode)
{
	struct parts p;
	uint8_t *group;
	int r = acl_parse(acl, len, &p);

	if (r < 0)
		return r;
	group = p.mask ? p.mask : p.group;
	entry_set_perm(p.user, entry_perm(p.user) & *mode >> 6);
	entry_set_perm(group, entry_perm(group) & *mode >> 3);
	entry_set_perm(p.other, entry_perm(p.other) & *mode);
	return acl_to_mode(acl, len, mode);
}
