/* SPDX-License-Identifier: MIT */
/*
 * import_report.c - the path for messages, and what the user is told.
 *
 * The path is kept for messages and globs only; nothing is opened by it. What
 * is left out is counted by sort and told in one line each, with the first
 * name: a tree may hold thousands of sockets.
 */
#include "exchange/import_int.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"

size_t import_path_push(struct importer *imp, const char *name)
{
	size_t len = imp->path.len;

	if (len)
		buf_put_u8(&imp->path, '/');
	buf_put(&imp->path, name, strlen(name));
	return len;
}

void import_path_pop(struct importer *imp, size_t len)
{
	imp->path.len = len;
}

const char *import_path(struct importer *imp)
{
	const char *path = buf_str(&imp->path);

	if (!path)
		return "?";
	return *path ? path : ".";
}

int import_fail(struct importer *imp, int err)
{
	return diag_fail(imp->diag, err, "%s: %s", import_path(imp),
			 err_text(err));
}

int import_unreadable(struct importer *imp, int err)
{
	if (imp->options->skip_unreadable) {
		import_left_out(imp, &imp->skipped);
		return IMPORT_LEFT_OUT;
	}
	if (!imp->unreadable)
		imp->unreadable = err == -EIO ? -EIO : -EACCES;
	import_fail(imp, err);
	imp->skipped.count++;
	if (imp->skipped.count < IMPORT_NAMED)
		return IMPORT_LEFT_OUT;
	imp->failed = true;
	return diag_fail(imp->diag, imp->unreadable,
			 "stopped after %d unreadable files", IMPORT_NAMED);
}

int import_settle(struct importer *imp, int r)
{
	if (r >= 0 || imp->failed)
		return r;
	if (r == -ENOENT)
		return IMPORT_GONE;
	if (r == -EACCES || r == -EPERM || r == -EIO)
		return import_unreadable(imp, r);
	return r;
}

int import_put(struct importer *imp, enum oid_kind kind, const void *data,
	       size_t len, struct oid *ret_id)
{
	int r = batch_put(imp->batch, kind, data, len, ret_id);

	if (r < 0)
		imp->failed = true;
	return r;
}

void import_left_out(struct importer *imp, struct import_left *left)
{
	left->count++;
	if (!left->first) /* a pass made again sets the count back, not this */
		left->first = strdup(import_path(imp));
}

static void report_one(struct importer *imp, const struct import_left *left,
		       const char *one, const char *many)
{
	const char *first = left->first ? left->first : "?";

	if (left->count == 1)
		diag_add(imp->notes, "left out %s: %s", one, first);
	else if (left->count > 1)
		diag_add(imp->notes, "left out %" PRIu64 " %s, the first: %s",
			 left->count, many, first);
}

void import_report(struct importer *imp)
{
	report_one(imp, &imp->sockets, "a socket", "sockets");
	report_one(imp, &imp->locks, "a lock or temporary file of git",
		   "locks and temporary files of git");
	report_one(imp, &imp->mounts, "what is mounted on",
		   "mounted file systems");
	report_one(imp, &imp->skipped, "an unreadable file",
		   "unreadable files");
	report_one(imp, &imp->linked, "another work tree of the repository",
		   "other work trees of the repository");
	if (imp->outward.count)
		diag_add(imp->notes,
			 "%s leads out of the tree to no repository: git does "
			 "not work there",
			 imp->outward.first ? imp->outward.first : "?");
	if (imp->lent.count)
		diag_add(imp->notes,
			 "%s: borrows objects from a directory that cannot be "
			 "read; they are missing",
			 imp->lent.first ? imp->lent.first : "?");
	imp->result.sockets = imp->sockets.count;
	imp->result.locks = imp->locks.count;
	imp->result.skipped = imp->skipped.count;
}

void import_progress(struct importer *imp)
{
	struct import_progress p = {.files = imp->result.files,
				    .bytes = imp->result.bytes};

	if (imp->options->progress && ++imp->entries % 256 == 0)
		imp->options->progress(imp->options->progress_ctx, &p);
}
