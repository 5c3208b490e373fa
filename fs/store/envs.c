/* SPDX-License-Identifier: MIT */
/*
 * Which environments there are, and which snapshots they stand on. What an
 * environment is belongs to the layer above; here only the head of the file
 * `env` is known (docs/format.md): magic, version, the snapshot's name, and the
 * checksum over all of it. One that cannot be read stops whoever asks: what it
 * stands on is not known, and so not what may be deleted. The HOME of one, in
 * its folder, is one more.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/io.h"
#include "base/name.h"
#include "object/format.h"
#include "store/gc_int.h"

enum { ENV_FILE_MAX = 16 << 10, ENV_SNAPSHOT_AT = 8, CHECKSUM_BYTES = 8 };

static int decode(const struct buf *b, struct oid *ret_id)
{
	const size_t len =
		b->len < CHECKSUM_BYTES ? 0 : b->len - CHECKSUM_BYTES;
	struct oid id;

	if (len < ENV_SNAPSHOT_AT + OID_BYTES ||
	    bytes_load_u64(b->data + len) != oid_checksum(b->data, len, 0))
		return -EFSBADCRC;
	if (bytes_load_u32(b->data) != FORMAT_ENV_MAGIC)
		return -EFSCORRUPTED;
	if (bytes_load_u32(b->data + 4) != FORMAT_VERSION)
		return -EPROTONOSUPPORT;
	memcpy(id.b, b->data + ENV_SNAPSHOT_AT, OID_BYTES);
	if (oid_kind(&id) != OID_SNAP)
		return -EFSCORRUPTED;
	*ret_id = id;
	return 0;
}

/* Reads one environment's; -ENOENT: it is gone. */
static int read_one(int envs, const char *name, struct oid *ret_id)
{
	_cleanup_close_ int dir = openat(
		envs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_buf_ struct buf file = {0};
	int r;

	if (dir < 0)
		return -errno;
	r = io_read_file(dir, "env", ENV_FILE_MAX, &file);
	/* Moved to the trash and emptied, or damaged? */
	if (r == -ENOENT && faccessat(envs, name, F_OK, 0) == 0)
		return -EFSCORRUPTED;
	return r < 0 ? r : decode(&file, ret_id);
}

struct walk {
	struct store *s;
	int envs;
	store_ref_fn fn;
	void *ctx;
	struct diag *diag;
};

static int tell_one(const struct walk *w, const char *name)
{
	struct oid id;
	int r = read_one(w->envs, name, &id);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return diag_fail(w->diag, r, "%s/envs/%s: its file 'env': %s",
				 w->s->path, name, err_text(r));
	return w->fn(w->ctx, name, &id);
}

static int each(const struct walk *w, DIR *d)
{
	char home[NAME_MAX_ENV + 1];
	const struct dirent *e;
	int r = 0;

	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (!name_is_label(e->d_name))
			continue;
		r = tell_one(w, e->d_name);
		name_of_home(e->d_name, home);
		if (r == 0)
			r = tell_one(w, home);
	}
	return r == 0 ? -errno : r;
}

int store_envs_int(struct store *s, store_ref_fn fn, void *ctx,
		   struct diag *diag)
{
	DIR *d;
	int r = io_open_names(s->fd, "envs", O_NOFOLLOW, &d);

	if (r < 0)
		return diag_fail(diag, r, "%s/envs: %s", s->path, err_text(r));
	r = each(&(struct walk){s, dirfd(d), fn, ctx, diag}, d);
	(void)closedir(d);
	return r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

int store_env_names(struct store *s, int flags, struct buf *out)
{
	char name[NAME_MAX_LABEL + 1];
	const struct dirent *e;
	DIR *d;
	int r = io_open_names(s->fd, "envs", flags, &d);

	if (r < 0)
		return r;
	while ((e = readdir(d))) {
		if (!name_is_label(e->d_name))
			continue;
		memset(name, 0, sizeof name);
		memcpy(name, e->d_name, strlen(e->d_name));
		buf_put(out, name, sizeof name);
	}
	(void)closedir(d);
	if (out->len > 0)
		qsort(out->data, out->len / sizeof name, sizeof name,
		      compare_names);
	return buf_error(out);
}
