/* SPDX-License-Identifier: MIT */
/*
 * pack_int.h - a pack of git, written into a repository: all objects at once,
 * or none.
 *
 * Contract
 *   Ownership   gitpack_free removes what was not finished
 *   Durability  gitpack_finish: pack and index are synced, under their names
 *   Threads     one
 *   Errors      of the file system: -ENOSPC, -EROFS, -EACCES
 */
#ifndef COWFS_GIT_PACK_INT_H
#define COWFS_GIT_PACK_INT_H

#include "base/diag.h"
#include "git/index.h"

enum gitpack_type {
	GITPACK_COMMIT = 1,
	GITPACK_TREE = 2,
	GITPACK_BLOB = 3,
	GITPACK_TAG = 4,
};

struct gitpack;

/* Begins a pack below an "objects" directory. Nothing is written before the
 * first object. */
_must_check_ int gitpack_begin(const char *objects, struct diag *diag,
			       struct gitpack **ret_pack);
void gitpack_free(struct gitpack *p);

static inline void gitpack_freep(struct gitpack **p)
{
	gitpack_free(*p);
}
#define _cleanup_gitpack_ _cleanup_(gitpack_freep)

/* The name that git gives an object. */
void gitpack_name(enum gitpack_type type, const void *data, size_t len,
		  uint8_t ret_name[GITINDEX_NAME_BYTES]);
bool gitpack_has(const struct gitpack *p, const uint8_t *name);
uint64_t gitpack_count(const struct gitpack *p);
/* Calls back with each name; what is not 0 ends it. */
_must_check_ int gitpack_each(const struct gitpack *p,
			      int (*fn)(void *ctx, const uint8_t *name),
			      void *ctx);
/* Adds an object of that name, unless it is there. */
_must_check_ int gitpack_put(struct gitpack *p, enum gitpack_type type,
			     const void *data, size_t len, const uint8_t *name);
/* Adds a blob whose bytes come in pieces: its name is known at the end.
 * -EAGAIN: there are more bytes, or less; the blob has to be dropped. */
_must_check_ int gitpack_blob_begin(struct gitpack *p, uint64_t size);
_must_check_ int gitpack_blob_add(struct gitpack *p, const void *data,
				  size_t len);
_must_check_ int gitpack_blob_end(struct gitpack *p,
				  uint8_t ret_name[GITINDEX_NAME_BYTES]);
/* Drops the blob that was begun, or that has just ended. */
_must_check_ int gitpack_blob_drop(struct gitpack *p);
/* Writes the index and names both; from then on git sees the objects. A gc
 * leaves them alone until gitpack_release (or gitpack_free). */
_must_check_ int gitpack_finish(struct gitpack *p);
void gitpack_release(struct gitpack *p);

#endif
