/* SPDX-License-Identifier: MIT */
/*
 * How: what ustar has a field for that is wide enough goes there, all else into
 * records of an extended header before it, in the order in which they are
 * written below. Paths and targets that are not plain ASCII are records, too:
 * what charset a field is in nobody knows, that of records is UTF-8, and a
 * record says so where it is not.
 *
 * A sparse file is stored as GNU tar's form 1.0 has it: its true name and size
 * are records, and its data begin with the list of extents in decimal.
 *
 * An ACL is written twice: as the attribute that it is, which is exact, and as
 * text, which is what tar --acls and bsdtar restore.
 *
 * Source: POSIX 1003.1 pax, "pax Interchange Format"; the manual of GNU tar,
 * "Storing Sparse Files"; star(5) for SCHILY.
 */
#include "exchange/pax.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/bytes.h"
#include "object/xset.h"

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

enum {
	AT_NAME = 0,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
	AT_VERSION = 263,
	AT_MAJOR = 329,
	AT_MINOR = 337,
	NAME_BYTES = 100,
	SHORT_DIGITS = 7,
	LONG_DIGITS = 11,
	NUMBER_BYTES = 32,
};

/* --- records of an extended header --------------------------------------- */

/* "LENGTH key=value\n"; the length counts its own digits. */
static void put_record(struct buf *out, const char *key, const void *value,
		       size_t len)
{
	const size_t rest = strlen(key) + len + 3; /* ' ', '=', '\n' */
	size_t digits = 1, total;

	for (;;) {
		char text[NUMBER_BYTES];

		total = rest + digits;
		if ((size_t)snprintf(text, sizeof text, "%zu", total) == digits)
			break;
		digits++;
	}
	buf_printf(out, "%zu %s=", total, key);
	buf_put(out, value, len);
	buf_put_u8(out, '\n');
}

static void put_text(struct buf *out, const char *key, const char *value)
{
	put_record(out, key, value, strlen(value));
}

static void put_number(struct buf *out, const char *key, uint64_t v)
{
	char text[NUMBER_BYTES];

	(void)snprintf(text, sizeof text, "%" PRIu64, v);
	put_text(out, key, text);
}

static bool is_ascii(const char *s)
{
	for (; *s; s++)
		if (*s & 0x80)
			return false;
	return true;
}

/* How many bytes of 10xxxxxx follow a first byte; -1: it is none. */
static int utf8_more(unsigned char c)
{
	if (c < 0x80)
		return 0;
	if (c >= 0xc2 && c <= 0xdf)
		return 1;
	if (c >= 0xe0 && c <= 0xef)
		return 2;
	return c >= 0xf0 && c <= 0xf4 ? 3 : -1;
}

static bool is_utf8(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		const int more = utf8_more(*s);

		/* no longer form than needed, no surrogates, not too high */
		if (more < 0 || (*s == 0xe0 && s[1] < 0xa0) ||
		    (*s == 0xed && s[1] > 0x9f) ||
		    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
			return false;
		s++;
		for (int i = 0; i < more; i++, s++)
			if ((*s & 0xc0) != 0x80)
				return false;
	}
	return true;
}

static bool fits_field(const char *s)
{
	return strlen(s) <= NAME_BYTES && is_ascii(s);
}

static bool fits(uint64_t v, int digits)
{
	return !(v >> (3 * digits));
}

static void put_names(const struct pax_entry *e, struct buf *out)
{
	const char *link = e->link ? e->link : "";
	const char *key = e->extents ? "GNU.sparse.name" : "path";

	if (!is_utf8(e->path) || !is_utf8(link))
		put_text(out, "hdrcharset", "BINARY");
	if (e->extents || !fits_field(e->path))
		put_text(out, key, e->path);
	if (!fits_field(link))
		put_text(out, "linkpath", link);
}

/* Decimal, without zeros at the end; a time before 1970 is a negative number
 * with a fraction, so its fraction runs the other way. libarchive loses the
 * sign of "-0.5"; a ctime beside it, which nobody restores, tells import_tar.c
 * that there was one. */
static void put_mtime(const struct pax_entry *e, struct buf *out)
{
	const bool minus = e->mtime_sec < 0;
	uint64_t sec = minus ? -(uint64_t)e->mtime_sec : (uint64_t)e->mtime_sec;
	uint32_t nsec = e->mtime_nsec;
	char text[2 * NUMBER_BYTES];
	size_t n;

	if (!nsec && !minus && fits(sec, LONG_DIGITS))
		return;
	if (minus && nsec) {
		sec--;
		nsec = 1000000000 - nsec;
	}
	n = (size_t)snprintf(text, sizeof text, "%s%" PRIu64 ".%09" PRIu32,
			     minus ? "-" : "", sec, nsec);
	while (text[n - 1] == '0')
		n--;
	if (text[n - 1] == '.')
		n--;
	put_record(out, "mtime", text, n);
	if (minus && !sec)
		put_text(out, "ctime", "-1");
}

static void put_numbers(const struct pax_entry *e, uint64_t stored,
			struct buf *out)
{
	if (!fits(e->uid, SHORT_DIGITS))
		put_number(out, "uid", e->uid);
	if (!fits(e->gid, SHORT_DIGITS))
		put_number(out, "gid", e->gid);
	if (!fits(stored, LONG_DIGITS))
		put_number(out, "size", stored);
	if (!fits(major(e->rdev), SHORT_DIGITS))
		put_number(out, "SCHILY.devmajor", major(e->rdev));
	if (!fits(minor(e->rdev), SHORT_DIGITS))
		put_number(out, "SCHILY.devminor", minor(e->rdev));
	if (e->extents) {
		put_text(out, "GNU.sparse.major", "1");
		put_text(out, "GNU.sparse.minor", "0");
		put_number(out, "GNU.sparse.realsize", e->size);
	}
}

/* --- attributes ------------------------------------------------------------
 */

/* What an entry of an ACL is called; the value was checked when it was set, by
 * the kernel or by tar_acl.c, so what does not fit is left out. */
static const char *acl_word(uint16_t tag)
{
	switch (tag) {
	case 0x01:
	case 0x02:
		return "user";
	case 0x04:
	case 0x08:
		return "group";
	case 0x10:
		return "mask";
	case 0x20:
		return "other";
	default:
		return NULL;
	}
}

static void put_acl(struct buf *out, const char *key, const uint8_t *acl,
		    size_t len)
{
	_cleanup_buf_ struct buf text = {0};

	for (size_t at = 4; at + 8 <= len; at += 8) {
		const uint16_t tag = bytes_load_u16(acl + at);
		const uint16_t perm = bytes_load_u16(acl + at + 2);
		const char *word = acl_word(tag);

		if (!word)
			return;
		buf_printf(&text, "%s%s:", text.len ? "," : "", word);
		if (tag == 0x02 || tag == 0x08)
			buf_printf(&text, "%" PRIu32,
				   bytes_load_u32(acl + at + 4));
		buf_printf(&text, ":%c%c%c", perm & 4 ? 'r' : '-',
			   perm & 2 ? 'w' : '-', perm & 1 ? 'x' : '-');
	}
	if (buf_error(&text) < 0)
		out->failed = true;
	else if (text.len)
		put_record(out, key, text.data, text.len);
}

static void put_xattr(struct buf *out, const struct xset_pair *p)
{
	_cleanup_buf_ struct buf key = {0};
	const char *text;

	buf_printf(&key, "SCHILY.xattr.");
	for (size_t i = 0; i < p->name_len; i++) {
		const char c = p->name[i];

		if (c == '=' || c == '%') /* as GNU tar does */
			buf_printf(&key, "%%%02X", (unsigned)c);
		else
			buf_put_u8(&key, (uint8_t)c);
	}
	text = buf_str(&key);
	if (text)
		put_record(out, text, p->value, p->value_len);
	else
		out->failed = true;
}

static bool is_named(const struct xset_pair *p, const char *name)
{
	return p->name_len == strlen(name) &&
	       !memcmp(p->name, name, p->name_len);
}

static void put_xattrs(const struct pax_entry *e, struct buf *out)
{
	struct xset_pair p;
	struct xset set;

	if (!e->xattrs || xset_open(e->xattrs, e->xattrs_len, &set) < 0)
		return;
	while (xset_next(&set, &p)) {
		put_xattr(out, &p);
		if (is_named(&p, ACL_ACCESS))
			put_acl(out, "SCHILY.acl.access", p.value, p.value_len);
		if (is_named(&p, ACL_DEFAULT))
			put_acl(out, "SCHILY.acl.default", p.value,
				p.value_len);
	}
}

/* --- headers ------------------------------------------------------------- */

/* Octal with a NUL at the end; what does not fit is in a record. */
static void set_number(uint8_t *field, int digits, uint64_t v)
{
	if (!fits(v, digits))
		v = 0;
	for (int i = digits - 1; i >= 0; i--, v >>= 3)
		field[i] = (uint8_t)('0' + (v & 7));
}

static void set_name(uint8_t *field, const char *s)
{
	for (int i = 0; i < NAME_BYTES && s[i]; i++)
		field[i] = (uint8_t)s[i];
}

static void put_block(uint8_t h[PAX_BLOCK], struct buf *out)
{
	uint32_t sum = 0;

	memcpy(h + AT_MAGIC, "ustar", sizeof "ustar");
	h[AT_VERSION] = h[AT_VERSION + 1] = '0';
	memset(h + AT_SUM, ' ', 8);
	for (int i = 0; i < PAX_BLOCK; i++)
		sum += h[i];
	set_number(h + AT_SUM, 6, sum);
	h[AT_SUM + 6] = 0;
	buf_put(out, h, PAX_BLOCK);
}

static void put_extended(const struct buf *records, struct buf *out)
{
	uint8_t h[PAX_BLOCK] = {0};

	set_name(h + AT_NAME, "PaxHeaders/entry");
	set_number(h + AT_MODE, SHORT_DIGITS, 0644);
	set_number(h + AT_UID, SHORT_DIGITS, 0);
	set_number(h + AT_GID, SHORT_DIGITS, 0);
	set_number(h + AT_SIZE, LONG_DIGITS, records->len);
	set_number(h + AT_MTIME, LONG_DIGITS, 0);
	h[AT_TYPE] = 'x';
	put_block(h, out);
	buf_put(out, records->data, records->len);
	pax_fill(records->len, out);
}

static char type_of(const struct pax_entry *e)
{
	if (e->is_hard_link)
		return '1';
	switch (e->mode & S_IFMT) {
	case S_IFLNK:
		return '2';
	case S_IFCHR:
		return '3';
	case S_IFBLK:
		return '4';
	case S_IFDIR:
		return '5';
	case S_IFIFO:
		return '6';
	default:
		return '0';
	}
}

static void put_ustar(const struct pax_entry *e, uint64_t stored,
		      struct buf *out)
{
	uint8_t h[PAX_BLOCK] = {0};

	set_name(h + AT_NAME, e->extents ? "GNUSparseFile.0/entry" : e->path);
	set_number(h + AT_MODE, SHORT_DIGITS, e->mode & 07777);
	set_number(h + AT_UID, SHORT_DIGITS, e->uid);
	set_number(h + AT_GID, SHORT_DIGITS, e->gid);
	set_number(h + AT_SIZE, LONG_DIGITS, stored);
	set_number(h + AT_MTIME, LONG_DIGITS,
		   e->mtime_sec < 0 ? 0 : (uint64_t)e->mtime_sec);
	h[AT_TYPE] = (uint8_t)type_of(e);
	if (e->link)
		set_name(h + AT_LINK, e->link);
	set_number(h + AT_MAJOR, SHORT_DIGITS, major(e->rdev));
	set_number(h + AT_MINOR, SHORT_DIGITS, minor(e->rdev));
	put_block(h, out);
}

/* The list of extents; an empty one at the end says how long the file is. */
static uint64_t sparse_list(const struct pax_entry *e, struct buf *out)
{
	const struct pax_extent *last =
		e->extent_count ? &e->extents[e->extent_count - 1] : NULL;
	const bool open = !last || last->at + last->len < e->size;
	uint64_t data = 0;

	buf_printf(out, "%zu\n", e->extent_count + open);
	for (size_t i = 0; i < e->extent_count; i++) {
		buf_printf(out, "%" PRIu64 "\n%" PRIu64 "\n", e->extents[i].at,
			   e->extents[i].len);
		data += e->extents[i].len;
	}
	if (open)
		buf_printf(out, "%" PRIu64 "\n0\n", e->size);
	pax_fill(out->len, out);
	return data;
}

void pax_header(const struct pax_entry *e, struct buf *out)
{
	_cleanup_buf_ struct buf records = {0}, list = {0};
	uint64_t stored = S_ISREG(e->mode) && !e->is_hard_link ? e->size : 0;

	if (e->extents)
		stored = sparse_list(e, &list) + list.len;
	put_names(e, &records);
	put_mtime(e, &records);
	put_numbers(e, stored, &records);
	put_xattrs(e, &records);
	if (records.len)
		put_extended(&records, out);
	put_ustar(e, stored, out);
	buf_put(out, list.data, list.len);
	if (records.failed || list.failed)
		out->failed = true;
}

void pax_fill(uint64_t n, struct buf *out)
{
	static const uint8_t zeros[PAX_BLOCK];
	const size_t over = (size_t)(n % PAX_BLOCK);

	if (over)
		buf_put(out, zeros, PAX_BLOCK - over);
}

void pax_end(struct buf *out)
{
	static const uint8_t zeros[2 * PAX_BLOCK];

	buf_put(out, zeros, sizeof zeros);
}
