/* SPDX-License-Identifier: MIT */
/*
 * tar_xattrs.c - the extended attributes of an entry of an archive.
 *
 * Kept are the name spaces that an import of a directory could have met. ACLs
 * come as attributes, which is what cowfs writes and is exact, or as text, as
 * tar and bsdtar write them; where both are there the attribute counts.
 *
 * Names: libarchive and tar write some of their bytes as %XX, since '=' ends
 * a name in a pax header.
 */
#include "exchange/tar_int.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "object/xset.h"

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

struct pair {
	size_t name; /* where in the list of names */
	const void *value;
	size_t len;
	size_t order;
};

struct pairs {
	struct buf names; /* each ends in NUL */
	struct pair *v;
	size_t count;
};

static bool is_kept(const char *name, const void *value, size_t len)
{
	static const char *const spaces[] = {"user.", "trusted.", "security."};

	if (!strcmp(name, ACL_ACCESS) || !strcmp(name, ACL_DEFAULT))
		return tar_acl_is_sound(value, len);
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		if (!strncmp(name, spaces[i], strlen(spaces[i])) &&
		    name[strlen(spaces[i])])
			return strlen(name) <= FORMAT_MAX_XATTR_NAME &&
			       len <= FORMAT_MAX_XATTR_VALUE;
	return false;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_name(struct buf *out, const char *s)
{
	for (; *s; s++) {
		const int high = *s == '%' ? digit(s[1]) : -1;
		const int low = high >= 0 ? digit(s[2]) : -1;

		if (low >= 0 && (high || low)) {
			buf_put_u8(out, (uint8_t)(high << 4 | low));
			s += 2;
		} else {
			buf_put_u8(out, (uint8_t)*s);
		}
	}
	buf_put_u8(out, 0);
}

static void add(struct pairs *p, size_t name, const void *value, size_t len)
{
	p->v[p->count] = (struct pair){
		.name = name, .value = value, .len = len, .order = p->count};
	p->count++;
}

static int compare(const void *a, const void *b, void *names)
{
	const struct pair *x = a, *y = b;
	const int c = strcmp((char *)names + x->name, (char *)names + y->name);

	return c ? c : x->order < y->order ? -1 : 1;
}

/* Of a name that is there twice the last one counts. */
static uint32_t choose(const struct pairs *p, struct xset_pair *out)
{
	const char *names = (const char *)p->names.data;
	uint32_t count = 0;

	for (size_t i = 0; i < p->count; i++) {
		const struct pair *x = &p->v[i];

		if (i + 1 < p->count &&
		    !strcmp(names + x->name, names + p->v[i + 1].name))
			continue;
		out[count++] =
			(struct xset_pair){.name = names + x->name,
					   .name_len = strlen(names + x->name),
					   .value = x->value,
					   .value_len = x->len};
	}
	return count;
}

static int store(struct importer *imp, struct pairs *p, struct tar_inode *i)
{
	_cleanup_free_ struct xset_pair *out = calloc(p->count, sizeof *out);
	uint32_t count;
	int r;

	if (!out)
		return -ENOMEM;
	qsort_r(p->v, p->count, sizeof *p->v, compare, p->names.data);
	count = choose(p, out);
	for (uint32_t k = 0; k < count; k++)
		if (!strcmp(out[k].name, ACL_ACCESS) && !S_ISLNK(i->mode))
			i->mode = tar_acl_mode(out[k].value, out[k].value_len,
					       i->mode);
	buf_clear(&imp->object);
	r = xset_encode(out, count, &imp->object);
	if (r == -EINVAL)
		return diag_fail(imp->diag, -E2BIG,
				 "%s: more extended attributes than a "
				 "snapshot can hold",
				 import_path(imp));
	return r < 0 ? r
		     : import_put(imp, OID_XSET, imp->object.data,
				  imp->object.len, &i->xattrs);
}

/* ACLs that came as text go first: an attribute comes later. */
static int add_acls(struct importer *imp, struct archive_entry *e,
		    struct pairs *p, struct buf acls[2])
{
	static const int types[2] = {ARCHIVE_ENTRY_ACL_TYPE_ACCESS,
				     ARCHIVE_ENTRY_ACL_TYPE_DEFAULT};
	static const char *const names[2] = {ACL_ACCESS, ACL_DEFAULT};

	for (int i = 0; i < 2; i++) {
		int r = tar_acl_get(e, types[i], &acls[i]);

		if (r == -ENOENT)
			return diag_fail(imp->diag, -EINVAL,
					 "%s: an ACL of a user or group that "
					 "is not known here",
					 import_path(imp));
		if (r < 0)
			return import_fail(imp, r);
		if (!acls[i].len)
			continue;
		add(p, p->names.len, acls[i].data, acls[i].len);
		put_name(&p->names, names[i]);
	}
	return 0;
}

static int collect(struct importer *imp, struct archive_entry *e,
		   struct import_left *odd, struct pairs *p)
{
	const char *name;
	const void *value;
	size_t len;

	(void)archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &len) == ARCHIVE_OK) {
		const size_t at = p->names.len;

		put_name(&p->names, name);
		if (buf_error(&p->names) < 0)
			return -ENOMEM;
		if (is_kept((char *)p->names.data + at, value, len)) {
			add(p, at, value, len);
			continue;
		}
		p->names.len = at;
		import_left_out(imp, odd);
	}
	return 0;
}

int tar_xattrs(struct importer *imp, struct archive_entry *e,
	       struct import_left *odd, struct tar_inode *i)
{
	const int most = archive_entry_xattr_count(e) + 2;
	struct buf acls[2] = {{0}, {0}};
	struct pairs p = {.count = 0};
	int r = -ENOMEM;

	if (most == 2 && !archive_entry_acl_types(e))
		return 0;
	p.v = calloc((size_t)most, sizeof *p.v);
	if (p.v)
		r = add_acls(imp, e, &p, acls);
	if (r == 0)
		r = collect(imp, e, odd, &p);
	if (r == 0 && p.count)
		r = store(imp, &p, i);
	free(p.v);
	buf_fini(&p.names);
	buf_fini(&acls[0]);
	buf_fini(&acls[1]);
	return r;
}
