/* SPDX-License-Identifier: MIT */
/*
 * import_githead.c - which branch and commit a snapshot stands on.
 *
 * Read from what was taken, so that it is true of the snapshot whatever the
 * origin does meanwhile. Recorded beside the snapshot, as a branch may move
 * without any file of the work tree changing: it tells people, and work that
 * is saved, where the snapshot came from. With reftable the files do not tell.
 */
#include "exchange/import_int.h"

#include <string.h>

#include "base/err.h"

enum {
	PACKED_BYTES = 256 << 20,
	REF_BYTES = 4000,
	COMMIT_HEX_MIN = 40,
	COMMIT_HEX_MAX = 64,
};

/* Reads a small file as one line; NULL: there is none. */
static char *read_line(struct importer *imp, const struct tree_entry *e)
{
	_cleanup_buf_ struct buf text = {0};
	const char *s;

	if (!S_ISREG(e->mode) ||
	    import_content_get(imp, e, IMPORT_LINE_BYTES, &text) < 0)
		return NULL;
	s = buf_str(&text);
	return s ? strndup(s, strcspn(s, "\r\n")) : NULL;
}

static bool is_commit(const char *s)
{
	const size_t n = strspn(s, "0123456789abcdef");

	return !s[n] && (n == COMMIT_HEX_MIN || n == COMMIT_HEX_MAX);
}

/* Finds a ref among the loose ones. */
static char *find_loose(struct importer *imp, const struct import_set *in,
			const char *ref)
{
	_cleanup_(import_tree_fini) struct import_tree tree = {.bytes = {0}};
	const struct import_item *refs = import_set_find(in, "refs");
	struct tree_entry e;

	if (!refs || !S_ISDIR(refs->n.e.mode) || strncmp(ref, "refs/", 5) != 0)
		return NULL;
	if (import_graft_find(imp, &refs->n.e.content, ref + 5, &tree, &e) < 0)
		return NULL;
	return read_line(imp, &e);
}

/* Finds it among the packed ones: "HEX REF", a line each. */
static char *find_packed(struct importer *imp, const struct import_set *in,
			 const char *ref)
{
	const struct import_item *packed = import_set_find(in, "packed-refs");
	_cleanup_buf_ struct buf text = {0};
	const size_t n = strlen(ref);
	const char *s;

	if (!packed ||
	    import_content_get(imp, &packed->n.e, PACKED_BYTES, &text) < 0)
		return NULL;
	for (s = buf_str(&text); s && *s;) {
		const size_t len = strcspn(s, "\n");
		const size_t hex = strcspn(s, " \n");

		if (len == hex + 1 + n && !memcmp(s + hex + 1, ref, n))
			return strndup(s, hex);
		s += len + (s[len] == '\n');
	}
	return NULL;
}

int import_githead(struct importer *imp, const struct import_gitdir *where,
		   const struct import_set *in)
{
	const struct import_item *head = import_set_find(in, "HEAD");
	_cleanup_free_ char *line = NULL, *commit = NULL;
	const char *ref;

	if (strcmp(import_path(imp), ".git") != 0 || imp->git_dir)
		return 0;
	imp->git_dir = import_real(where->fd);
	line = head ? read_line(imp, &head->n.e) : NULL;
	if (!line)
		return 0;
	if (strncmp(line, "ref:", 4) != 0) {
		imp->git_commit = is_commit(line) ? TAKE_PTR(line) : NULL;
		return 0;
	}
	ref = line + 4 + strspn(line + 4, " ");
	commit = find_loose(imp, in, ref);
	if (!commit)
		commit = find_packed(imp, in, ref);
	if (commit && is_commit(commit))
		imp->git_commit = TAKE_PTR(commit);
	if (strlen(ref) > REF_BYTES)
		return 0; /* not a name that git could use */
	imp->git_head = strdup(ref);
	return imp->git_head ? 0 : -ENOMEM;
}
