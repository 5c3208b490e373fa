/* SPDX-License-Identifier: MIT */
/*
 * import_scan.c - what the last import of this source saw.
 *
 * After an import each regular file's inode number, times and size are kept
 * with the names of its content and attributes, as a scan in the store. The
 * next import of the same source opens no file for which these are the same:
 * writing, truncating, a new mode, owner or attribute, all stamp the ctime,
 * which nobody can set. Directories, symlinks and the rest are read always.
 *
 * What is not remembered, so that a change can never go unseen:
 *   - a file whose ctime is not older than the start of the import by more
 *     than any clock's tick: a later change might get the same stamp;
 *   - a file that somebody had open for writing: a store through a mapping to
 *     a page that is dirty already stamps nothing. Pages are written back, and
 *     then watched again, within seconds; after ten quiet minutes nobody is
 *     asked. Where a lease does not tell, these must have passed;
 *   - a file system of a kind that is not known to stamp every change: network
 *     and user-space ones go by other rules, vfat has no ctime, tmpfs does not
 *     see stores through mappings. Only files of the root's file system count.
 *     (An overlay hides what is below it; that this is a tmpfs cannot be seen.)
 *
 * A remembered name must be in the store still, and the store's epoch the same
 * (store.h), or it could stand for other bytes. The file system is told by its
 * id, not by st_dev, which is given anew at each boot. Who may read what, and
 * which attributes are shown, depends on the user: each has scans of his own.
 *
 * A scan is an array sorted by inode number behind a header; docs/format.md
 * has the bytes. It is read at once and checked by one checksum. Any failure
 * here makes an import slow, never wrong.
 */
#include "exchange/import_int.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/bytes.h"
#include "base/err.h"
#include "object/manifest.h"

/* Kinds that older headers do not name. */
#define KIND_XFS      0x58465342
#define KIND_BCACHEFS 0xca451a4e

#define SCAN_MAX_BYTES (UINT64_C(4) << 30)
#define STAMP_NS       INT64_C(200000000)
#define SETTLED_NS     (INT64_C(600) * 1000000000)

struct scan_header {
	uint32_t magic;
	uint32_t version;
	uint64_t epoch;
	uint64_t fsid;
	uint64_t count;
};

struct scan_entry {
	uint64_t ino;
	uint64_t ctime_ns; /* modulo 2^64: only compared */
	uint64_t mtime_ns;
	uint64_t size;
	struct oid content;
	struct oid xattrs;
};

enum { SCAN_CHECKSUM_BYTES = 8 };

_Static_assert(sizeof(struct scan_header) == 32, "no padding on disk");
_Static_assert(sizeof(struct scan_entry) == 80, "no padding on disk");

struct import_scan {
	char name[STORE_SCAN_NAME_MAX];
	struct scan_header header;
	bool leases; /* a refused lease tells of every writer */
	struct buf old;
	const struct scan_entry *entries; /* in old */
	uint8_t *seen;			  /* one for each of them */
	uint64_t seen_count;
	struct buf fresh;  /* a header, then entries */
	struct oid xattrs; /* the last that was found in the store */
};

static uint64_t stamp_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

void import_scan_fini(struct import_scan *s)
{
	if (!s)
		return;
	buf_fini(&s->old);
	buf_fini(&s->fresh);
	free(s->seen);
	free(s);
}

static void scan_freep(struct import_scan **s)
{
	import_scan_fini(*s);
}

/* --- beginning ---------------------------------------------------------- */

/* Says whether the file system stamps every change of a file. */
static bool is_trusted(const struct statfs *fs, bool *ret_leases)
{
	*ret_leases = true;
	switch ((uint32_t)fs->f_type) {
	case OVERLAYFS_SUPER_MAGIC:
		/* A mapping belongs to a file below it. */
		*ret_leases = false;
		return true;
	case EXT4_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case KIND_XFS:
	case KIND_BCACHEFS:
		return true;
	default:
		return false;
	}
}

/* The name is made of all that decides which files are met, and how. */
static int scan_name(const struct importer *imp, const char *path, char *ret)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	const struct import_options *o = imp->options;
	_cleanup_buf_ struct buf b = {0};
	struct oid id;

	if (!real)
		return -errno;
	buf_put_u32(&b, geteuid());
	buf_put_u32(&b, getegid());
	buf_put_u8(&b, o->cross_mounts);
	buf_put_block(&b, real, strlen(real));
	for (size_t i = 0; i < o->exclude_count; i++)
		buf_put_block(&b, o->excludes[i], strlen(o->excludes[i]));
	for (size_t i = 0; o->only && o->only[i]; i++)
		buf_printf(&b, "only %s/", o->only[i]);
	if (buf_error(&b) < 0)
		return -ENOMEM;
	id = oid_of(OID_BLOB, b.data, b.len);
	oid_to_hex(&id, ret);
	memcpy(ret + OID_HEX, ".scan", sizeof ".scan");
	return 0;
}

/* Takes the bytes in s->old, if they are a scan of this place and epoch. */
static void scan_take(struct import_scan *s)
{
	struct scan_header h;
	size_t len = s->old.len;

	if (len < sizeof h + SCAN_CHECKSUM_BYTES)
		return;
	len -= SCAN_CHECKSUM_BYTES;
	memcpy(&h, s->old.data, sizeof h);
	if (h.magic != FORMAT_SCAN_MAGIC || h.version != s->header.version ||
	    h.epoch != s->header.epoch || h.fsid != s->header.fsid ||
	    h.count != (len - sizeof h) / sizeof(struct scan_entry) ||
	    (len - sizeof h) % sizeof(struct scan_entry) != 0 ||
	    bytes_load_u64(s->old.data + len) !=
		    oid_checksum(s->old.data, len, FORMAT_SCAN_MAGIC))
		return;
	s->seen = calloc(h.count + 1, 1);
	if (!s->seen)
		return;
	s->entries = (const void *)(s->old.data + sizeof h);
	s->header.count = h.count;
}

int import_scan_begin(struct importer *imp, int root_fd, const char *path)
{
	_cleanup_(scan_freep) struct import_scan *s = calloc(1, sizeof *s);
	struct statfs fs;
	int r;

	if (!s)
		return -ENOMEM;
	if (fstatfs(root_fd, &fs) < 0 || !is_trusted(&fs, &s->leases) ||
	    scan_name(imp, path, s->name) < 0)
		return 0;
	s->header.magic = FORMAT_SCAN_MAGIC;
	s->header.version = FORMAT_SCAN_VERSION;
	_Static_assert(sizeof fs.f_fsid == sizeof s->header.fsid, "64 bits");
	memcpy(&s->header.fsid, &fs.f_fsid, sizeof fs.f_fsid);
	/* Before the first put: what the store has now is of this epoch. */
	r = store_epoch(imp->store, &s->header.epoch);
	if (r < 0)
		return r;
	if (!imp->options->rescan &&
	    store_scan_read(imp->store, s->name, SCAN_MAX_BYTES, &s->old) == 0)
		scan_take(s);
	if (!s->entries)
		buf_fini(&s->old);
	if (buf_resize(&s->fresh, sizeof s->header) < 0)
		return -ENOMEM;
	imp->scan = TAKE_PTR(s);
	return 0;
}

const char *import_scan_name(const struct importer *imp, uint64_t *ret_epoch)
{
	if (!imp->scan)
		return NULL;
	*ret_epoch = imp->scan->header.epoch;
	return imp->scan->name;
}

/* --- finding ------------------------------------------------------------ */

static bool has_chunks(struct importer *imp, const struct oid *id,
		       uint64_t size)
{
	struct manifest m;

	buf_clear(&imp->object);
	if (batch_get(imp->batch, id, &imp->object) < 0 ||
	    manifest_open(imp->object.data, imp->object.len, &m) < 0 ||
	    m.size != size)
		return false;
	for (uint64_t i = 0; i < m.count; i++) {
		struct oid chunk = manifest_chunk(&m, i);

		if (!oid_is_null(&chunk) && batch_has(imp->batch, &chunk) != 1)
			return false;
	}
	return true;
}

/* Says whether the content is in the store, and of a kind that fits. */
static bool has_content(struct importer *imp, const struct scan_entry *e)
{
	const enum oid_kind kind = oid_kind(&e->content);

	if (!e->size)
		return oid_is_null(&e->content);
	if (e->size > FORMAT_CHUNK_BYTES)
		return kind == OID_MANIFEST &&
		       has_chunks(imp, &e->content, e->size);
	return kind == OID_BLOB && oid_length(&e->content) == e->size &&
	       batch_has(imp->batch, &e->content) == 1;
}

/* Most files have none; others mostly the same as their neighbours. */
static bool has_xattrs(struct importer *imp, const struct oid *id)
{
	struct oid *last = &imp->scan->xattrs;

	if (oid_equal(id, last)) /* null at first */
		return true;
	if (oid_kind(id) != OID_XSET || batch_has(imp->batch, id) != 1)
		return false;
	*last = *id;
	return true;
}

static int compare_entries(const void *a, const void *b)
{
	const struct scan_entry *x = a;
	const struct scan_entry *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

bool import_scan_find(struct importer *imp, const struct stat *st,
		      struct tree_entry *e)
{
	struct import_scan *s = imp->scan;
	const struct scan_entry key = {.ino = st->st_ino};
	const struct scan_entry *k;

	if (st->st_dev != imp->source_dev || !S_ISREG(st->st_mode))
		return false;
	k = bsearch(&key, s->entries, s->header.count, sizeof key,
		    compare_entries);
	if (!k || k->ctime_ns != stamp_ns(&st->st_ctim) ||
	    k->mtime_ns != stamp_ns(&st->st_mtim) ||
	    k->size != (uint64_t)st->st_size || !has_content(imp, k) ||
	    (!oid_is_null(&k->xattrs) && !has_xattrs(imp, &k->xattrs)))
		return false;
	e->size = k->size;
	e->content = k->content;
	e->xattrs = k->xattrs;
	if (!s->seen[k - s->entries]) {
		s->seen[k - s->entries] = 1;
		s->seen_count++;
	}
	return true;
}

bool import_scan_known(const struct importer *imp)
{
	return imp->scan && imp->scan->header.count;
}

/* --- remembering -------------------------------------------------------- */

enum import_trust import_scan_trust(const struct importer *imp,
				    const struct stat *st)
{
	const struct timespec *c = &st->st_ctim;
	const int64_t latest = imp->started_ns - STAMP_NS;
	int64_t changed;

	if (!imp->scan || st->st_dev != imp->source_dev ||
	    c->tv_sec > latest / 1000000000)
		return IMPORT_TRUST_NONE;
	if (c->tv_sec < 0)
		return IMPORT_TRUST_FULL;
	changed = (int64_t)c->tv_sec * 1000000000 + c->tv_nsec;
	if (changed >= latest)
		return IMPORT_TRUST_NONE;
	if (changed < imp->started_ns - SETTLED_NS)
		return IMPORT_TRUST_FULL;
	return imp->scan->leases ? IMPORT_TRUST_UNWRITTEN : IMPORT_TRUST_NONE;
}

void import_scan_note(struct importer *imp, const struct stat *st,
		      const struct tree_entry *e)
{
	const struct scan_entry k = {
		.ino = st->st_ino,
		.ctime_ns = stamp_ns(&st->st_ctim),
		.mtime_ns = stamp_ns(&st->st_mtim),
		.size = e->size,
		.content = e->content,
		.xattrs = e->xattrs,
	};

	if (e->size == (uint64_t)st->st_size)
		buf_put(&imp->scan->fresh, &k, sizeof k);
}

/* Sorts what was noted; a file that was read twice was noted twice. */
static uint64_t entries_settle(struct buf *fresh)
{
	struct scan_entry *e =
		(void *)(fresh->data + sizeof(struct scan_header));
	const size_t n = (fresh->len - sizeof(struct scan_header)) / sizeof *e;
	size_t kept = 0;

	qsort(e, n, sizeof *e, compare_entries);
	for (size_t i = 0; i < n; i++)
		if (!kept || e[kept - 1].ino != e[i].ino)
			e[kept++] = e[i];
	fresh->len = sizeof(struct scan_header) + kept * sizeof *e;
	return kept;
}

void import_scan_save(struct importer *imp)
{
	struct import_scan *s = imp->scan;
	struct buf *out = s ? &s->fresh : NULL;

	if (!s ||
	    (out->len == sizeof s->header && s->seen_count == s->header.count))
		return; /* nothing new, nothing gone */
	for (uint64_t i = 0; i < s->header.count; i++)
		if (s->seen[i])
			buf_put(out, &s->entries[i], sizeof s->entries[i]);
	if (buf_error(out) < 0)
		return;
	s->header.count = entries_settle(out);
	memcpy(out->data, &s->header, sizeof s->header);
	buf_put_u64(out, oid_checksum(out->data, out->len, FORMAT_SCAN_MAGIC));
	if (buf_error(out) < 0)
		return;
	/* That it cannot be kept costs the next import time. */
	_unused_ const int ignored =
		store_scan_replace(imp->store, s->name, out->data, out->len);
}
