/* SPDX-License-Identifier: MIT */
/*
 * import_gitconfig.c - a repository's settings, and where its work tree is.
 *
 * An environment's repository is its own: no gc runs in it unasked, which
 * would only copy what the store has already. core.worktree must not lead to
 * the origin: what is the default, or lies outside of the tree, is taken out;
 * what lies in the tree (submodules) is made relative. All other bytes of the
 * file stay.
 *
 * With the work tree known, the index is noted for import_index.c.
 */
#include "exchange/import_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "git/config.h"

enum { CONFIG_BYTES = 16 << 20 };

struct settings {
	struct importer *imp;
	const struct import_gitdir *where;
	char *real;	 /* of the git directory */
	struct buf work; /* the work tree's path from the root */
	bool has_work;
	struct buf off; /* extensions with which not all works */
	bool index_off;
};

static void settings_fini(struct settings *s)
{
	free(s->real);
	buf_fini(&s->work);
	buf_fini(&s->off);
}

/* --- the work tree -------------------------------------------------------- */

/* Says whether a path lies in the imported tree; ret_rest is its path there. */
static bool in_root(const struct importer *imp, const char *path,
		    const char **ret_rest)
{
	const size_t n = imp->root_real ? strlen(imp->root_real) : 0;

	if (!n || strncmp(path, imp->root_real, n) != 0 ||
	    (path[n] && path[n] != '/'))
		return false;
	*ret_rest = path + n + (path[n] == '/');
	return true;
}

/* The work tree of a directory named ".git" is what it lies in. */
static bool default_work(struct settings *s)
{
	const char *path = import_path(s->imp);
	const char *last = strrchr(path, '/');

	if (strcmp(last ? last + 1 : path, ".git") != 0)
		return false;
	buf_clear(&s->work);
	if (last)
		buf_put(&s->work, path, (size_t)(last - path));
	return true;
}

/* Where a value of core.worktree leads: into the tree? */
static bool named_work(struct settings *s, const char *value)
{
	_cleanup_buf_ struct buf joined = {0};
	_cleanup_free_ char *real = NULL;
	const char *text, *rest;

	if (value[0] != '/')
		buf_printf(&joined, "%s/", s->real ? s->real : "");
	buf_printf(&joined, "%s", value);
	text = buf_str(&joined);
	real = text ? realpath(text, NULL) : NULL;
	if (!real || !in_root(s->imp, real, &rest))
		return false;
	buf_clear(&s->work);
	buf_printf(&s->work, "%s", rest);
	return true;
}

/* The work tree's path from the git directory. */
static void put_relative(struct settings *s, struct buf *out)
{
	buf_printf(out, "..");
	for (const char *p = import_path(s->imp); (p = strchr(p, '/')); p++)
		buf_printf(out, "/..");
	if (s->work.len)
		buf_printf(out, "/%.*s", (int)s->work.len,
			   (const char *)s->work.data);
}

/* --- the files ------------------------------------------------------------ */

static void replace(struct buf *text, struct buf *with)
{
	struct buf old = *text;

	*text = *with;
	*with = old;
	buf_clear(with);
}

static void drop(struct buf *text, const char *section, const char *key)
{
	_cleanup_buf_ struct buf kept = {0};

	gitconfig_drop(text->data, text->len, section, key, &kept);
	replace(text, &kept);
}

static bool has_value(const struct buf *text, const char *section,
		      const char *key, const char *want)
{
	_cleanup_buf_ struct buf value = {0};
	const char *have;

	if (!gitconfig_get(text->data, text->len, section, key, &value))
		return false;
	have = buf_str(&value);
	return have && !strcasecmp(have, want);
}

static void set(struct buf *text, const char *section, const char *key,
		const char *value)
{
	if (!has_value(text, section, key, value))
		gitconfig_add(text, section, key, value);
}

/* Lets core.worktree lead to the tree's own, or be the default. */
static void fix_work(struct settings *s, struct buf *text)
{
	_cleanup_buf_ struct buf value = {0}, relative = {0};
	const char *named, *path;

	if (!gitconfig_get(text->data, text->len, "core", "worktree", &value))
		return;
	named = buf_str(&value);
	if (!named)
		return;
	if (s->where->moved || !named_work(s, named)) {
		drop(text, "core", "worktree");
		return;
	}
	s->has_work = true;
	if (named[0] != '/')
		return;
	drop(text, "core", "worktree");
	put_relative(s, &relative);
	path = buf_str(&relative);
	if (path)
		gitconfig_add(text, "core", "worktree", path);
}

static void see_extension(void *ctx, const char *key, const char *value)
{
	static const char *const known[] = {"noop", "noop-v1", "partialclone",
					    "preciousobjects",
					    "worktreeconfig"};
	struct settings *s = ctx;
	bool sha1 =
		!strcasecmp(key, "objectformat") && !strcasecmp(value, "sha1");
	bool files =
		!strcasecmp(key, "refstorage") && !strcasecmp(value, "files");

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcasecmp(key, known[i]))
			return;
	if (sha1 || files)
		return;
	s->index_off |= !strcasecmp(key, "objectformat");
	buf_printf(&s->off, "%s%s=%s", s->off.len ? ", " : "", key, value);
}

/* What is the same in "config" and "config.worktree", then what is not. */
static void fix_text(struct settings *s, struct buf *text, bool is_main)
{
	fix_work(s, text);
	/* git does not look at it in a linked work tree. */
	if (s->where->own >= 0 && has_value(text, "core", "bare", "true")) {
		drop(text, "core", "bare");
		gitconfig_add(text, "core", "bare", "false");
	}
	if (!is_main)
		return;
	set(text, "gc", "auto", "0");
	set(text, "maintenance", "auto", "false");
	gitconfig_each(text->data, text->len, "extensions", see_extension, s);
}

static int fix_file(struct settings *s, struct import_set *in, const char *name,
		    bool is_main)
{
	struct import_item *item = import_set_find(in, name);
	_cleanup_buf_ struct buf text = {0}, old = {0};
	struct import_node node;
	int r;

	if (!item || !S_ISREG(item->n.e.mode))
		return 0;
	r = import_content_get(s->imp, &item->n.e, CONFIG_BYTES, &text);
	if (r == -EFBIG)
		return 0;
	buf_put(&old, text.data, text.len);
	fix_text(s, &text, is_main);
	if (r == 0)
		r = buf_error(&text);
	if (r == 0)
		r = buf_error(&old);
	if (r < 0 ||
	    (old.len == text.len && !memcmp(old.data, text.data, text.len)))
		return r;
	/* With other bytes it is no longer the same file as another name. */
	import_links_drop(s->imp, &item->n);
	node = item->n;
	node.link_begin = node.link_end = s->imp->member_count;
	r = import_content_put(s->imp, text.data, text.len, &node.e);
	return r < 0 ? r : import_set_put(s->imp, in, name, &node);
}

/* --- the index ------------------------------------------------------------ */

static int note_index(struct settings *s)
{
	struct importer *imp = s->imp;
	_cleanup_buf_ struct buf index = {0};
	struct import_repo *grown;
	const char *path, *work;

	buf_printf(&index, "%s/index", import_path(imp));
	path = buf_str(&index);
	work = buf_str(&s->work);
	if (!path || !work)
		return -ENOMEM;
	grown = realloc(imp->repos, (imp->repo_count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	imp->repos = grown;
	grown += imp->repo_count++;
	*grown = (struct import_repo){.index = strdup(path),
				      .work = strdup(work)};
	return grown->index && grown->work ? 0 : -ENOMEM;
}

static void tell_off(struct settings *s)
{
	const char *off = buf_str(&s->off);

	if (!off || !*off)
		return;
	s->imp->told_index = true;
	diag_add(s->imp->notes,
		 "%s uses %s: its files are there, but cowfs cannot save, "
		 "rescue or switch branches by git there%s",
		 import_path(s->imp), off,
		 s->index_off ? ", and its index is left as it is" : "");
}

int import_gitconfig(struct importer *imp, const struct import_gitdir *where,
		     struct import_set *in)
{
	_cleanup_(settings_fini) struct settings s = {
		.imp = imp,
		.where = where,
		.real = import_real(where->own >= 0 ? where->own : where->fd)};
	int r = fix_file(&s, in, "config", true);

	if (r == 0)
		r = fix_file(&s, in, "config.worktree", false);
	if (r < 0)
		return r;
	tell_off(&s);
	if (!s.has_work)
		s.has_work = default_work(&s);
	if (!s.has_work || s.index_off || !import_set_find(in, "index"))
		return 0;
	return note_index(&s);
}
