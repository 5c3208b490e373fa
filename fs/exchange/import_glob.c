/* SPDX-License-Identifier: MIT */
/*
 * import_glob.c - names that the user wants left out, or nothing else.
 *
 * A pattern without '/' is matched against each name, one with '/' against the
 * path from the root; a '/' at the end restricts it to directories and does
 * not count. fnmatch does the matching; '*' does not cross a '/', and a
 * leading dot is nothing special.
 */
#include "exchange/import_int.h"

#include <fnmatch.h>
#include <string.h>

#include "base/err.h"

struct import_glob {
	char *pattern;
	bool whole_path;
	bool dirs_only;
};

static int glob_parse(const char *text, struct import_glob *ret_glob)
{
	struct import_glob g = {.whole_path = false};
	size_t len;

	while (text[0] == '.' && text[1] == '/') {
		text += 2;
		g.whole_path = true;
	}
	while (*text == '/') {
		text++;
		g.whole_path = true;
	}
	len = strlen(text);
	while (len && text[len - 1] == '/') {
		len--;
		g.dirs_only = true;
	}
	if (!len)
		return -EINVAL;
	g.pattern = strndup(text, len);
	if (!g.pattern)
		return -ENOMEM;
	if (strchr(g.pattern, '/'))
		g.whole_path = true;
	*ret_glob = g;
	return 0;
}

int import_globs_init(struct importer *imp)
{
	const struct import_options *o = imp->options;
	int r;

	if (!o->exclude_count)
		return 0;
	imp->globs = calloc(o->exclude_count, sizeof *imp->globs);
	if (!imp->globs)
		return -ENOMEM;
	for (size_t i = 0; i < o->exclude_count; i++) {
		r = glob_parse(o->excludes[i], &imp->globs[i]);
		if (r < 0)
			return diag_fail(imp->diag, r,
					 "\"%s\" excludes everything or "
					 "nothing",
					 o->excludes[i]);
		imp->glob_count++;
		imp->globs_need_path |= imp->globs[i].whole_path;
	}
	return 0;
}

void import_globs_fini(struct importer *imp)
{
	for (size_t i = 0; i < imp->glob_count; i++)
		free(imp->globs[i].pattern);
	free(imp->globs);
	imp->globs = NULL;
	imp->glob_count = 0;
}

bool import_excluded(struct importer *imp, const char *name, bool is_dir)
{
	const char *path = imp->globs_need_path ? import_path(imp) : NULL;

	for (size_t i = 0; i < imp->glob_count; i++) {
		const struct import_glob *g = &imp->globs[i];

		if (g->dirs_only && !is_dir)
			continue;
		if (g->whole_path &&
		    fnmatch(g->pattern, path, FNM_PATHNAME) == 0)
			return true;
		if (!g->whole_path && fnmatch(g->pattern, name, 0) == 0)
			return true;
	}
	return false;
}

bool import_is_wanted(const struct importer *imp, const char *name)
{
	const char *const *only = imp->options->only;

	if (!only || imp->path.len > strlen(name))
		return true;
	while (*only && strcmp(*only, name) != 0)
		only++;
	return *only;
}
