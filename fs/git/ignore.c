/* SPDX-License-Identifier: MIT */
/*
 * ignore.c - gitignore(5), asked path by path.
 *
 * For a path, the file in its own directory has the first word, then those
 * above it, then info/exclude, then core.excludesFile; in a file the last
 * pattern that fits. A directory that is ignored ends it: what is below it is
 * ignored whatever patterns say. The rules of the directories on the way to the
 * last path are kept, so that sorted paths cost one look at each directory.
 *
 * Not libgit2's own: it would look up every directory on the way for each path,
 * and follow a link in place of .gitignore.
 */
#include "git/ignore.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/io.h"
#include "git/ignore_int.h"
#include "git/lib_int.h"
#include "git/wild_int.h"

#include <fcntl.h>

enum { FILE_BYTES = 16 << 20, INDEX_BYTES = 1 << 30 };

struct pattern {
	size_t text; /* offset into the file */
	bool negative;
	bool only_dir;
	bool only_name; /* it has no slash: fits the last part of a path */
};

struct rules {
	struct buf text;
	struct pattern *list;
	size_t count, cap;
};

/* A directory on the way to the last path. */
struct level {
	size_t path_len;
	bool ignored;
	struct rules rules;
};

struct gitignore {
	struct gitview view;
	struct gitentries index;
	struct rules exclude, global;
	struct level *levels;
	size_t count, cap;
	struct buf path; /* of the last level, then of what is asked */
	unsigned flags;	 /* of gitwild_match */
};

/* --- patterns ------------------------------------------------------------- */

static void rules_fini(struct rules *r)
{
	buf_fini(&r->text);
	free(TAKE_PTR(r->list));
	r->count = r->cap = 0;
}

/* Cuts blanks at the end, unless a backslash is before them. */
static void cut_blanks(char *line)
{
	char *blank = NULL;

	for (char *p = line; *p; p++) {
		if (*p == ' ') {
			if (!blank)
				blank = p;
			continue;
		}
		blank = NULL;
		if (*p == '\\' && p[1])
			p++;
	}
	if (blank)
		*blank = '\0';
}

static int rules_add(struct rules *r, char *line)
{
	struct pattern *p;
	size_t len;

	if (GROW(r->list, r->count, r->cap, 16) < 0)
		return -ENOMEM;
	p = &r->list[r->count++];
	*p = (struct pattern){.negative = *line == '!'};
	line += p->negative;
	len = strlen(line);
	p->only_dir = len && line[len - 1] == '/';
	if (p->only_dir)
		line[len - 1] = '\0';
	p->only_name = !strchr(line, '/');
	line += *line == '/';
	p->text = (size_t)(line - (char *)r->text.data);
	return 0;
}

/* Makes rules of r->text. */
static int rules_parse(struct rules *r)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
	char *line;

	buf_put_u8(&r->text, 0);
	if (r->text.failed)
		return -ENOMEM;
	line = (char *)r->text.data;
	line += !strncmp(line, mark, 3) ? 3 : 0;
	while (*line) {
		char *end = line + strcspn(line, "\n");
		char *next = *end ? end + 1 : end;
		int r2 = 0;

		if (end > line && end[-1] == '\r')
			end[-1] = '\0';
		*end = '\0';
		if (*line && *line != '#') {
			cut_blanks(line);
			r2 = rules_add(r, line);
		}
		if (r2 < 0)
			return r2;
		line = next;
	}
	return 0;
}

/* git compares what comes before the first wildcard by itself, so that a "**"
 * behind it is at the beginning of what is left: "a**" then reaches below. */
static bool match_path(const struct gitignore *g, const char *pattern,
		       const char *path)
{
	const size_t plain = strcspn(pattern, "*?[\\");

	if (g->flags & WILD_CASE ? strncasecmp(pattern, path, plain) != 0
				 : strncmp(pattern, path, plain) != 0)
		return false;
	return gitwild_match(pattern + plain, path + plain,
			     g->flags | WILD_PATH);
}

/* Says what the rules of a directory (its path has base_len bytes) make of a
 * path: 1 ignored, 0 not, -1 they do not say. */
static int rules_ask(const struct gitignore *g, const struct rules *r,
		     size_t base_len, const char *path, bool is_dir)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *below = path + base_len + (base_len > 0);

	for (size_t i = r->count; i-- > 0;) {
		const struct pattern *p = &r->list[i];
		const char *text = (const char *)r->text.data + p->text;

		if (p->only_dir && !is_dir)
			continue;
		if (p->only_name ? gitwild_match(text, name, g->flags)
				 : match_path(g, text, below))
			return !p->negative;
	}
	return -1;
}

/* --- levels --------------------------------------------------------------- */

/* Whether the rules of the levels say that a path is ignored. */
static bool ask(const struct gitignore *g, const char *path, bool is_dir)
{
	int r = -1;

	for (size_t i = g->count; i-- > 0 && r < 0;)
		r = rules_ask(g, &g->levels[i].rules, g->levels[i].path_len,
			      path, is_dir);
	if (r < 0)
		r = rules_ask(g, &g->exclude, 0, path, is_dir);
	if (r < 0)
		r = rules_ask(g, &g->global, 0, path, is_dir);
	return r > 0;
}

static int read_rules(struct gitignore *g, const char *path, struct rules *r)
{
	int err = gitview_read(&g->view, path, FILE_BYTES, &r->text);

	/* git ignores one that it cannot read */
	if (err == -ENOMEM)
		return err;
	if (err < 0)
		buf_clear(&r->text);
	return r->text.len ? rules_parse(r) : 0;
}

static void level_drop(struct gitignore *g)
{
	rules_fini(&g->levels[--g->count].rules);
}

/* Adds a directory: its path is the first len bytes of path. */
static int level_add(struct gitignore *g, const char *path, size_t len)
{
	_cleanup_buf_ struct buf name = {0};
	const char *text;
	struct level *l;
	bool ignored = g->count && g->levels[g->count - 1].ignored;

	if (GROW(g->levels, g->count, g->cap, 16) < 0)
		return -ENOMEM;
	buf_put(&name, path, len);
	text = buf_str(&name);
	if (!text)
		return -ENOMEM;
	if (len && !ignored)
		ignored = ask(g, text, true);
	l = &g->levels[g->count++];
	*l = (struct level){.path_len = len, .ignored = ignored};
	if (ignored)
		return 0;
	buf_printf(&name, "%s.gitignore", len ? "/" : "");
	text = buf_str(&name);
	return text ? read_rules(g, text, &l->rules) : -ENOMEM;
}

/* Makes the levels those of the directories that a path is in. */
static int levels_set(struct gitignore *g, const char *path)
{
	const char *kept = buf_str(&g->path);
	size_t at;

	if (!kept)
		return -ENOMEM;
	while (g->count > 1) {
		const size_t n = g->levels[g->count - 1].path_len;

		if (!strncmp(path, kept, n) && path[n] == '/')
			break;
		level_drop(g);
	}
	if (!g->count) {
		int r = level_add(g, path, 0);

		if (r < 0)
			return r;
	}
	at = g->levels[g->count - 1].path_len;
	for (const char *slash = strchr(path + at + (at > 0), '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		int r = level_add(g, path, (size_t)(slash - path));

		if (r < 0)
			return r;
	}
	buf_clear(&g->path);
	buf_put(&g->path, path, g->levels[g->count - 1].path_len);
	return buf_error(&g->path);
}

int gitignore_check(struct gitignore *g, const char *path, bool is_dir)
{
	int r = levels_set(g, path);

	if (r < 0)
		return r;
	return g->levels[g->count - 1].ignored || ask(g, path, is_dir);
}

/* --- the whole ------------------------------------------------------------ */

static int read_global(struct gitignore *g, git_config *config)
{
	_cleanup_buf_ struct buf path = {0};
	git_buf named = {0};
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	const char *text;

	if (git_config_get_path(&named, config, "core.excludesfile") == 0)
		buf_printf(&path, "%s", named.ptr);
	else if (xdg && *xdg)
		buf_printf(&path, "%s/git/ignore", xdg);
	else if (home)
		buf_printf(&path, "%s/.config/git/ignore", home);
	git_buf_dispose(&named);
	text = buf_str(&path);
	if (!text)
		return -ENOMEM;
	if (*text &&
	    io_read_file(AT_FDCWD, text, FILE_BYTES, &g->global.text) < 0)
		buf_clear(&g->global.text);
	return g->global.text.len ? rules_parse(&g->global) : 0;
}

static int read_all(struct gitignore *g, git_repository *repo)
{
	git_config *config = NULL;
	int without_case = 0;
	int r = git_repository_config_snapshot(&config, repo);

	if (r < 0)
		return -EIO;
	if (git_config_get_bool(&without_case, config, "core.ignorecase") ==
		    0 &&
	    without_case)
		g->flags = WILD_CASE;
	r = read_global(g, config);
	git_config_free(config);
	if (r == 0)
		r = read_rules(g, ".git/info/exclude", &g->exclude);
	return r;
}

int gitignore_make(git_repository *repo, const char *path,
		   struct gitignore **ret_ignore)
{
	_cleanup_gitignore_ struct gitignore *g = calloc(1, sizeof *g);
	int r;

	if (!g)
		return -ENOMEM;
	r = gitview_open(&g->view, path);
	if (r == 0)
		r = read_all(g, repo);
	if (r < 0)
		return r;
	*ret_ignore = TAKE_PTR(g);
	return 0;
}

void gitignore_close(struct gitignore *g)
{
	if (!g)
		return;
	while (g->count)
		level_drop(g);
	free(g->levels);
	rules_fini(&g->exclude);
	rules_fini(&g->global);
	buf_fini(&g->path);
	gitentries_fini(&g->index);
	gitview_close(&g->view);
	free(g);
}

int gitignore_open(const char *path, struct diag *diag,
		   struct gitignore **ret_ignore)
{
	_cleanup_git_repository_ git_repository *repo = NULL;
	struct gitignore *g;
	int r = gitlib_open(path, diag, &repo);

	if (r < 0)
		return r;
	r = gitignore_make(repo, path, &g);
	if (r < 0)
		return diag_fail(diag, r, "%s: %s", path, err_text(r));
	if (gitview_read(&g->view, ".git/index", INDEX_BYTES, &g->index.raw) <
		    0 ||
	    gitentries_read(&g->index, NULL) < 0)
		gitentries_fini(&g->index);
	*ret_ignore = g;
	return 0;
}

/* Whether a path is in the index, or in a submodule of it. */
static bool is_tracked(struct gitignore *g, const char *path, size_t len)
{
	if (gitentries_find(&g->index, path, len))
		return true;
	for (size_t i = 1; i < len; i++) {
		const struct gitentry *e = NULL;

		if (path[i] == '/')
			e = gitentries_find(&g->index, path, i);
		if (e && e->mode == GITMODE_LINK)
			return true;
	}
	return false;
}

static bool is_git(const char *path)
{
	return !strncmp(path, ".git", 4) && (!path[4] || path[4] == '/');
}

int gitignore_mark(struct gitignore *g, struct gitchanges *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		struct gitchange *row = &changes->rows[i];
		const char *path = gitchange_path(changes, row);
		int r = 0;

		if (row->kind != DELTA_DELETED && strcmp(path, ".") != 0 &&
		    !is_git(path) && !is_tracked(g, path, row->path_len))
			r = gitignore_check(g, path, row->is_dir);
		if (r < 0)
			return r;
		row->ignored = r > 0;
	}
	return 0;
}
