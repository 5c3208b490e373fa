/* SPDX-License-Identifier: MIT */
/*
 * odb_int.h - from an environment's objects to its origin's: what is missing
 * there is gathered in one pack.
 *
 * Contract
 *   Ownership   gitodb_close drops what was not finished
 *   Durability  gitodb_finish: all that was gathered is synced
 *   Threads     one
 *   Errors      -EFSCORRUPTED: an object is missing, or damaged; those of
 *               pack_int.h and lib_int.h. diag says it
 */
#ifndef COWFS_GIT_ODB_INT_H
#define COWFS_GIT_ODB_INT_H

#include "base/hmap.h"
#include "git/lib_int.h"
#include "git/pack_int.h"

struct gitodb {
	git_repository *origin;
	git_repository *view;
	git_odb *there; /* the origin's */
	git_odb *here;	/* the environment's */
	char *objects;	/* the origin's directory of them */
	struct gitpack *pack;
	struct gitpack *before; /* finished when there was more to come */
	struct hmap met;	/* what was found there, or is in the pack */
	struct diag *diag;
	uint64_t commits; /* copied */
	bool partial;	  /* the environment need not have all objects */
	bool touch_packs;
};

/* Opens both; the environment's work tree is at view. */
_must_check_ int gitodb_open(struct gitodb *o, const char *origin,
			     const char *view, struct diag *diag);
void gitodb_close(struct gitodb *o);
#define _cleanup_gitodb_ _cleanup_(gitodb_close)

/* Whether the origin has an object, or is about to get it. */
bool gitodb_has(struct gitodb *o, const git_oid *id);
/* Reads an object of either; the caller frees it. */
_must_check_ int gitodb_read(struct gitodb *o, const git_oid *id,
			     git_odb_object **ret_object);
/* Puts an object unless the origin has it. */
_must_check_ int gitodb_put(struct gitodb *o, enum gitpack_type type,
			    const void *data, size_t len, git_oid *ret_id);
/* Puts an object of the environment with all that it leads to, down to what
 * the origin has. */
_must_check_ int gitodb_copy(struct gitodb *o, const git_oid *id);
/* Lets the origin see what was gathered. */
_must_check_ int gitodb_finish(struct gitodb *o);
/* As gitodb_finish; then more may be gathered, once. */
_must_check_ int gitodb_finish_first(struct gitodb *o);
/* Reads all of it back from the origin. (A blob that memory should not have to
 * hold only in part: gitpack_finish has read its bytes.) */
_must_check_ int gitodb_verify(struct gitodb *o);
/* After the ref was set: a gc may have it. */
void gitodb_release(struct gitodb *o);

static inline void gitlib_odb_object_freep(git_odb_object **o)
{
	git_odb_object_free(*o);
}
#define _cleanup_git_odb_object_ _cleanup_(gitlib_odb_object_freep)

/* The name of the tree that has no entries. */
#define GITTREE_EMPTY_HEX "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

/* An entry of a tree's bytes. */
struct gittree_item {
	const char *name;
	size_t name_len;
	uint32_t mode;
	git_oid id;
};
/* Takes the next entry: 1, 0 at the end, -EFSCORRUPTED. */
_must_check_ int gittree_next(const uint8_t **at, const uint8_t *end,
			      struct gittree_item *ret_item);

#endif
