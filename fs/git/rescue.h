/* SPDX-License-Identifier: MIT */
/*
 * rescue.h - the origin's part of a rescue: one ref that holds, and keeps
 * alive, what the origin cannot reach of an environment.
 *
 * The ref leads to a commit whose tree is the work tree: tracked files as they
 * are, untracked ones that are not ignored. Its first parent is HEAD; the
 * second, "state", has for its tree
 *
 *   index/      the index as a tree (in a conflict, our side)
 *   index.raw   its bytes
 *   git/        HEAD, MERGE_HEAD, REBASE state and the like: small files of
 *               .git as they stand, the reflog of the stash among them
 *   refs        a line each: "NAME NAME-OF-OBJECT [PEELED]"
 *   tags/       annotated tags, their bytes
 *
 * and for its parents every tip, stash entry and such that no ref of the origin
 * is at.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  gitrescue_publish: synced, and read back, before the ref moves
 *   Threads     one; in the command's process
 *   Errors      -ENOENT: no repository in the environment, or the origin is
 *               gone; -EROFS, -ENOSPC, -EACCES: of the origin; -EFSCORRUPTED:
 *               damage; others as in lib_int.h. diag says it. The origin is as
 *               before then, but for objects that gc takes away
 */
#ifndef COWFS_GIT_RESCUE_H
#define COWFS_GIT_RESCUE_H

#include "base/diag.h"
#include "git/work.h"

/* What is written already, but that no ref leads to yet. diag and all of work
 * but its store must live as long. */
struct gitrescue;
/* Gathers the objects. Notes in diag say what git cannot hold. */
_must_check_ int gitrescue_gather(const struct gitwork *work, struct diag *diag,
				  struct gitrescue **ret);
/* Writes the commit, verifies all by reading it back, and sets the ref (which
 * must not exist: -EEXIST). Once. */
_must_check_ int gitrescue_publish(struct gitrescue *g, const char *ref,
				   const char *message,
				   char ret_commit[GIT_HEX_BYTES]);
void gitrescue_close(struct gitrescue *g); /* or NULL */
void gitrescue_closep(struct gitrescue **g);
#define _cleanup_gitrescue_ _cleanup_(gitrescue_closep)

/* Finds where the ref is, for who does not know: the commit must have that
 * message. 1: there is none, or it is another's. */
_must_check_ int gitrescue_find(const char *origin, const char *ref,
				const char *message, struct diag *diag,
				char ret_commit[GIT_HEX_BYTES]);
/* Deletes the ref if it is still at that commit; one that is gone, or an
 * origin that is gone, is no error. -EBUSY: it is at another. */
_must_check_ int gitrescue_drop(const char *origin, const char *ref,
				const char *commit, struct diag *diag);

#endif
