/* SPDX-License-Identifier: MIT */
/*
 * import_xattr.c - extended attributes become one object.
 *
 * Most files have none: one call. Of the "system" name space only the ACLs are
 * kept: the others (of NFS, CIFS and the like) are views of something else.
 *
 * Symlinks and special files cannot be opened for this, and llistxattr wants a
 * path. /proc/self/fd/N of an O_PATH descriptor is one that is short, names
 * exactly the inode that was looked at, and does not follow a symlink there.
 */
#include "exchange/import_int.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "object/xset.h"

enum { XATTR_LIST_BYTES = 1 << 16, XATTR_PROC_PATH = 32 };

/* Where attributes are read: a descriptor, or a path when there is one. */
struct xattr_source {
	int fd;
	char path[XATTR_PROC_PATH];
};

static ssize_t source_list(const struct xattr_source *s, char *list, size_t n)
{
	ssize_t r = s->path[0] ? listxattr(s->path, list, n)
			       : flistxattr(s->fd, list, n);

	return r < 0 ? -errno : r;
}

static ssize_t source_get(const struct xattr_source *s, const char *name,
			  void *value, size_t n)
{
	ssize_t r = s->path[0] ? getxattr(s->path, name, value, n)
			       : fgetxattr(s->fd, name, value, n);

	return r < 0 ? -errno : r;
}

static bool is_kept(const char *name)
{
	if (strncmp(name, "system.", 7) != 0)
		return true;
	return !strcmp(name, "system.posix_acl_access") ||
	       !strcmp(name, "system.posix_acl_default");
}

/* Appends name's value to imp->xvalues. -ENODATA: removed meanwhile. */
static int value_read(struct importer *imp, const struct xattr_source *s,
		      const char *name, size_t *ret_len)
{
	size_t at = imp->xvalues.len;
	ssize_t n;
	int r;

	r = buf_resize(&imp->xvalues, at + FORMAT_MAX_XATTR_VALUE);
	if (r < 0)
		return r;
	n = source_get(s, name, imp->xvalues.data + at, FORMAT_MAX_XATTR_VALUE);
	imp->xvalues.len = at + (n > 0 ? (size_t)n : 0);
	if (n < 0)
		return (int)n;
	*ret_len = (size_t)n;
	return 0;
}

/* Points the pairs to their values, which no longer move. */
static int pairs_put(struct importer *imp, struct xset_pair *pairs,
		     uint32_t count, struct oid *ret_id)
{
	const uint8_t *at = imp->xvalues.data;
	int r;

	if (!count)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		pairs[i].value = at;
		at += pairs[i].value_len;
	}
	buf_clear(&imp->object);
	r = xset_encode(pairs, count, &imp->object);
	if (r < 0)
		return r;
	return import_put(imp, OID_XSET, imp->object.data, imp->object.len,
			  ret_id);
}

static int names_read(struct importer *imp, const struct xattr_source *s,
		      size_t len, struct oid *ret_id)
{
	_cleanup_free_ struct xset_pair *pairs = NULL;
	const char *names = (const char *)imp->xnames.data;
	uint32_t count = 0;
	int r;

	for (size_t at = 0; at < len; at += strlen(names + at) + 1)
		count++;
	pairs = calloc(count, sizeof *pairs);
	if (!pairs)
		return -ENOMEM;
	count = 0;
	buf_clear(&imp->xvalues);
	for (size_t at = 0; at < len; at += strlen(names + at) + 1) {
		struct xset_pair *p = &pairs[count];

		if (!is_kept(names + at))
			continue;
		p->name = names + at;
		p->name_len = strlen(p->name);
		r = value_read(imp, s, p->name, &p->value_len);
		if (r == -ENODATA)
			continue;
		if (r < 0)
			return r;
		count++;
	}
	return pairs_put(imp, pairs, count, ret_id);
}

int import_xattrs(struct importer *imp, int fd, dev_t dev, bool is_path,
		  struct oid *ret_id)
{
	struct xattr_source s = {.fd = fd};
	ssize_t n;
	int r;

	*ret_id = (struct oid){.b = {0}};
	if (imp->no_xattrs && imp->no_xattrs_dev == dev)
		return 0;
	if (is_path)
		(void)snprintf(s.path, sizeof s.path, "/proc/self/fd/%d", fd);
	r = buf_resize(&imp->xnames, XATTR_LIST_BYTES + 1);
	if (r < 0)
		return r;
	n = source_list(&s, (char *)imp->xnames.data, XATTR_LIST_BYTES);
	if (n == -ENOTSUP) {
		imp->no_xattrs = true;
		imp->no_xattrs_dev = dev;
		return 0;
	}
	if (n == -ENOENT && is_path)
		return diag_fail(imp->diag, -ENOSYS,
				 "%s: extended attributes cannot be read "
				 "without /proc",
				 import_path(imp));
	if (n <= 0)
		return (int)n;
	imp->xnames.data[n] = 0;
	r = names_read(imp, &s, (size_t)n, ret_id);
	if (r == -EINVAL)
		return diag_fail(imp->diag, -E2BIG,
				 "%s: more extended attributes than a "
				 "snapshot can hold",
				 import_path(imp));
	return r;
}
