/* SPDX-License-Identifier: MIT */
/*
 * diff_odb.c - contents as objects of a repository that is nowhere.
 *
 * libgit2 compares blobs, so it gets an object database whose only back end
 * knows, for the name of a blob, on which side and at which path its content
 * is. A content is read twice: once to name it, and again when it is asked
 * for; in between nothing is kept. libgit2 checks names when it reads, so that
 * a file which changes meanwhile is seen.
 *
 * The repository gets an empty configuration: what a user's says of diffs must
 * not change what scripts read.
 */
#include "git/diff_int.h"

#include <errno.h>
#include <git2/sys/repository.h>
#include <string.h>

#include "base/err.h"
#include "git/index.h"

_Static_assert(GIT_OID_RAWSZ == GITINDEX_NAME_BYTES, "one kind of names");

static uint64_t hash_of(const git_oid *id)
{
	return hmap_hash_bytes(id->id, sizeof id->id, 1);
}

static struct gitdiff_half *find(const struct gitdiff *d, const git_oid *id)
{
	struct hnode *n = hmap_first(&d->blobs, hash_of(id));

	for (; n; n = hmap_next(n)) {
		struct gitdiff_half *h =
			container_of(n, struct gitdiff_half, node);

		if (git_oid_equal(&h->id, id))
			return h;
	}
	return NULL;
}

/* --- naming -------------------------------------------------------------- */

struct count {
	struct gitblob blob;
	uint64_t bytes;
};

static int add_bytes(void *ctx, const void *data, size_t len)
{
	struct count *c = ctx;

	gitblob_add(&c->blob, data, len);
	c->bytes += len;
	return 0;
}

int gitdiff_hash(struct gitdiff *d, struct gitdiff_half *h)
{
	struct count c = {.bytes = 0};
	int r;

	gitblob_begin(&c.blob, h->file.size);
	r = d->reader.read(d->reader.ctx, h->side, h->path, add_bytes, &c);
	if (r == 0 && c.bytes != h->file.size)
		r = -ESTALE;
	if (r < 0) {
		d->error = r;
		return gitdiff_fail(d, GIT_ERROR, h->path);
	}
	gitblob_end(&c.blob, h->id.id);
	if (find(d, &h->id))
		return 0;
	return hmap_insert(&d->blobs, &h->node, hash_of(&h->id));
}

/* --- the back end -------------------------------------------------------- */

struct fill {
	uint8_t *data;
	size_t at, size;
};

static int fill_bytes(void *ctx, const void *data, size_t len)
{
	struct fill *f = ctx;

	if (len > f->size - f->at)
		return -ESTALE;
	memcpy(f->data + f->at, data, len);
	f->at += len;
	return 0;
}

static int read_object(void **ret_data, size_t *ret_len, git_object_t *ret_type,
		       git_odb_backend *backend, const git_oid *id)
{
	struct gitdiff *d = (struct gitdiff *)(void *)backend;
	const struct gitdiff_half *h = find(d, id);
	struct fill f = {.size = h ? (size_t)h->file.size : 0};
	int r;

	if (!h)
		return GIT_ENOTFOUND;
	f.data = git_odb_backend_data_alloc(backend, f.size + 1);
	if (!f.data)
		return GIT_ERROR;
	r = d->reader.read(d->reader.ctx, h->side, h->path, fill_bytes, &f);
	if (r == 0 && f.at != f.size)
		r = -ESTALE;
	if (r < 0) {
		d->error = r;
		git_odb_backend_data_free(backend, f.data);
		return GIT_ERROR;
	}
	f.data[f.size] = 0;
	*ret_data = f.data;
	*ret_len = f.size;
	*ret_type = GIT_OBJECT_BLOB;
	return 0;
}

static int read_header(size_t *ret_len, git_object_t *ret_type,
		       git_odb_backend *backend, const git_oid *id)
{
	const struct gitdiff_half *h =
		find((struct gitdiff *)(void *)backend, id);

	if (!h)
		return GIT_ENOTFOUND;
	*ret_len = (size_t)h->file.size;
	*ret_type = GIT_OBJECT_BLOB;
	return 0;
}

static int exists(git_odb_backend *backend, const git_oid *id)
{
	return find((struct gitdiff *)(void *)backend, id) != NULL;
}

/* It is part of struct gitdiff. */
static void free_nothing(git_odb_backend *backend)
{
}

int gitdiff_open(struct gitdiff *d)
{
	int r = gitlib_start(d->diag);

	if (r < 0)
		return r;
	r = git_odb_init_backend(&d->backend, GIT_ODB_BACKEND_VERSION);
	d->backend.read = read_object;
	d->backend.read_header = read_header;
	d->backend.exists = exists;
	d->backend.free = free_nothing;
	if (r == 0)
		r = git_odb_new(&d->odb);
	if (r == 0)
		r = git_odb_add_backend(d->odb, &d->backend, 1);
	if (r == 0)
		r = git_repository_wrap_odb(&d->repo, d->odb);
	if (r == 0)
		r = git_config_new(&d->config);
	if (r == 0)
		r = git_repository_set_config(d->repo, d->config);
	for (int side = 0; r == 0 && side < 2; side++)
		r = git_index_new(&d->index[side]);
	return r < 0 ? gitlib_fail(d->diag, r, "libgit2") : 0;
}

int gitdiff_fail(struct gitdiff *d, int code, const char *path)
{
	if (code == GIT_EMISMATCH)
		d->error = -ESTALE;
	if (d->error == -ESTALE)
		return diag_fail(d->diag, -ESTALE,
				 "%s: it changes while it is read", path);
	if (d->error)
		return diag_fail(d->diag, d->error, "%s: %s", path,
				 err_text(d->error));
	return gitlib_fail(d->diag, code, path);
}
