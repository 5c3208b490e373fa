/* SPDX-License-Identifier: MIT */
/*
 * How: first a child walks the index; only when that is sound is it opened
 * here, for reading. Then the rows are loaded, the segments read from end to
 * end in the order of the disk and compared with the rows, rows compared with
 * each other, snapshots walked, copies read. An object costs about 130 bytes
 * of memory.
 *
 * A store whose index is damaged still has its segments and copies checked, so
 * that one knows what a repair will find.
 */
#include "store/fsck_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "store/settings.h"

enum { WALK_LIMIT_S = 600 };

/* --- telling ------------------------------------------------------------- */

void fsck_tell(struct fsck *f, const struct fsck_finding *finding)
{
	f->damage += finding->kind == FSCK_DAMAGE;
	if (!f->quiet)
		f->fn(f->ctx, finding);
}

void fsck_damaged(struct fsck *f, const char *rule, const char *where,
		  const struct oid *object, const char *fmt, ...)
{
	char text[FSCK_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fsck_tell(f, &(struct fsck_finding){.kind = FSCK_DAMAGE,
					    .rule = rule,
					    .where = where,
					    .text = text,
					    .object = object});
}

void fsck_say(struct fsck *f, enum fsck_kind kind, const char *where,
	      const char *fmt, ...)
{
	char text[FSCK_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fsck_tell(f, &(struct fsck_finding){.kind = kind,
					    .rule = "",
					    .where = where,
					    .text = text});
}

void fsck_describe(const struct oid *id, char ret[FSCK_TEXT_BYTES])
{
	static const char *const kinds[OID_KIND_END] = {
		[OID_NONE] = "nothing",	     [OID_BLOB] = "blob",
		[OID_MANIFEST] = "manifest", [OID_TREE] = "tree",
		[OID_XSET] = "xattr set",    [OID_LINKS] = "links",
		[OID_SNAP] = "snapshot"};
	const enum oid_kind kind = oid_kind(id);
	char hex[OID_HEX + 1];

	oid_to_hex(id, hex);
	(void)snprintf(ret, FSCK_TEXT_BYTES, "%s %s",
		       kind < OID_KIND_END ? kinds[kind] : "object", hex);
}

size_t fsck_damage(const struct fsck *f)
{
	return f->damage;
}

struct store *fsck_store(struct fsck *f)
{
	return f->store;
}

/* --- objects ------------------------------------------------------------- */

struct fsck_object *fsck_find(const struct fsck *f, const struct oid *id)
{
	struct hnode *n =
		f->objects.count ? hmap_first(&f->objects, oid_hash(id)) : NULL;

	for (; n; n = hmap_next(n)) {
		struct fsck_object *o =
			container_of(n, struct fsck_object, node);

		if (oid_equal(&o->id, id))
			return o;
	}
	return NULL;
}

struct fsck_object *fsck_need(struct fsck *f, const struct oid *id)
{
	struct fsck_object *o = fsck_find(f, id);
	struct fsck_block *k = f->blocks;

	if (o)
		return o;
	if (!k || k->used == FSCK_BLOCK_OBJECTS) {
		k = malloc(sizeof *k);
		if (!k)
			return NULL;
		k->next = f->blocks;
		k->used = 0;
		f->blocks = k;
	}
	o = &k->objects[k->used];
	*o = (struct fsck_object){.id = *id};
	if (hmap_insert(&f->objects, &o->node, oid_hash(id)) < 0)
		return NULL;
	k->used++;
	return o;
}

void fsck_reset(struct fsck *f)
{
	store_close(TAKE_PTR(f->store));
	hmap_fini(&f->objects);
	while (f->blocks) {
		struct fsck_block *next = f->blocks->next;

		free(f->blocks);
		f->blocks = next;
	}
	buf_clear(&f->segments);
	buf_clear(&f->snapshots);
	buf_clear(&f->refs);
	buf_clear(&f->rescues);
	buf_clear(&f->lease_keys);
	f->damage = f->lost = 0;
	f->format_bad = f->index_bad = f->copies_bad = false;
	f->segments_missing = f->settings_bad = false;
}

/* --- open and close ------------------------------------------------------ */

int fsck_open_segment(const struct fsck *f, uint32_t number)
{
	char name[SEGMENT_NAME_BYTES];
	char path[SEGMENT_NAME_BYTES + 16];

	segment_name(number, name);
	(void)snprintf(path, sizeof path, "segments/%s", name);
	return io_open_file(f->fd, path, O_RDONLY);
}

/* A directory without `format` may still be a store: one that lost it. */
static int check_place(struct fsck *f, struct diag *diag)
{
	_cleanup_diag_ struct diag unused = {0};
	int r = store_check_format_int(f->fd, f->path, &unused);

	if (r == -EPROTONOSUPPORT)
		return store_check_format_int(f->fd, f->path, diag);
	if (r != -ENOENT || faccessat(f->fd, "segments", F_OK, 0) == 0)
		return 0;
	r = store_is_vacant_int(f->fd);
	if (r < 0)
		return r;
	return diag_fail(diag, r ? -ENOENT : -ENOTEMPTY, "%s is not a store",
			 f->path);
}

/* Waits for a gc. A damaged store may have nothing to lock: none works then. */
static int keep_gc_out(struct fsck *f)
{
	int r;

	f->gc = io_open_file(f->fd, "format", O_RDONLY);
	if (f->gc < 0)
		return f->gc == -ENOENT || f->gc == -EFSCORRUPTED ? 0 : f->gc;
	r = io_lock(f->gc, LOCK_SH | LOCK_NB);
	if (r == -EBUSY) {
		fsck_say(f, FSCK_NOTE, "", "waiting for gc");
		r = io_lock(f->gc, LOCK_SH);
	}
	return r;
}

int fsck_open(const char *path, unsigned flags, fsck_fn fn, void *ctx,
	      struct diag *diag, struct fsck **ret)
{
	_cleanup_(fsck_closep) struct fsck *f = calloc(1, sizeof *f);
	int r;

	if (!f)
		return -ENOMEM;
	*f = (struct fsck){.fd = -1,
			   .flags = flags,
			   .fn = fn,
			   .ctx = ctx,
			   .server_lock = -1,
			   .lock = -1,
			   .gc = -1,
			   .guards = {-1, -1}};
	f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->fd < 0)
		return -errno;
	f->path = realpath(path, NULL);
	if (!f->path)
		return -errno;
	r = check_place(f, diag);
	if (r == 0)
		r = store_check_owner_int(f->fd, f->path, diag);
	if (r == 0 && !(flags & FSCK_REPAIR))
		r = keep_gc_out(f);
	if (r == 0 && flags & FSCK_REPAIR) {
		r = repair_lock(f);
		if (r == -EBUSY)
			diag_add(diag,
				 "%s is in use: stop its server (cowfs daemon "
				 "stop) and wait for imports",
				 f->path);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

void fsck_close(struct fsck *f)
{
	if (!f)
		return;
	fsck_reset(f);
	buf_fini(&f->segments);
	buf_fini(&f->snapshots);
	buf_fini(&f->refs);
	buf_fini(&f->rescues);
	buf_fini(&f->lease_keys);
	repair_unlock(f);
	if (f->gc >= 0)
		(void)close(f->gc);
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->path);
	free(f);
}

/* --- checking ------------------------------------------------------------ */

static int check_format(struct fsck *f)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = store_check_format_int(f->fd, f->path, &diag);

	if (r != -EFSBADCRC && r != -ENOENT)
		return r;
	f->format_bad = true;
	fsck_damaged(f, "S1", "format", NULL, "%s",
		     r == -ENOENT ? "it is missing"
				  : "it does not fit its checksum");
	return 0;
}

static void tell_index(void *ctx, const char *rule, const char *text)
{
	struct fsck *f = ctx;

	if (*rule)
		fsck_damaged(f, rule, "index/data.mdb", NULL, "%s", text);
	else
		fsck_say(f, FSCK_NOTE, "index/data.mdb", "%s", text);
}

static int check_index(struct fsck *f)
{
	_cleanup_diag_ struct diag diag = {0};
	int r = fsck_walk_index(f->path, WALK_LIMIT_S, tell_index, f);

	if (r < 0)
		return r;
	f->index_bad = r > 0;
	if (f->index_bad || f->format_bad)
		return 0;
	r = store_open(f->path, STORE_READ_ONLY, &diag, &f->store);
	/* The folder of the segments is missing: damage, and told later. */
	return r == -EFSCORRUPTED ? 0 : r;
}

static int check_settings(struct fsck *f)
{
	_cleanup_diag_ struct diag diag = {0};
	struct settings settings;
	const int r = settings_read(f->store, &diag, &settings);

	if (r != -EFSBADCRC && r != -EFSCORRUPTED)
		return r;
	f->settings_bad = true;
	fsck_damaged(f, "S17", "settings", NULL,
		     "the file does not fit its checksum");
	return 0;
}

int fsck_check(struct fsck *f)
{
	int r;

	fsck_reset(f);
	r = check_format(f);
	if (r == 0) {
		fsck_kinds_check(f);
		r = check_index(f);
	}
	if (r == 0 && f->store)
		r = check_settings(f);
	if (r == 0 && f->store)
		r = fsck_rows_load(f);
	if (r == 0 && !f->segments_missing)
		r = fsck_scan_check(f);
	if (r == 0 && f->store)
		r = fsck_rows_check(f);
	if (r == 0 && f->store)
		r = fsck_reach_check(f);
	return r < 0 ? r : fsck_copies_check(f);
}
