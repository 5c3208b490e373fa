/* SPDX-License-Identifier: MIT */
/*
 * home.c - HOME in a sandbox: a private folder with the caller's tool chains.
 *
 * The folder is part of the environment (STORE/envs/NAME/box/home) and starts
 * empty, or it is a view of warm caches that the server has mounted. What is on
 * PATH below the real home, or in another folder that is not shown, is bound
 * read-only with the folder that its `bin` lies in: tool chains find their
 * libraries there. Settings are bound as files; of npm's the lines with secrets
 * are left out.
 */
#include "box/box_int.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/name.h"

enum { SETTINGS_MAX = 1 << 20 };

/* Below HOME. Folders that hold credentials beside programs (.cargo, .m2) are
 * not bound as a whole. */
static const char *const tools[] = {
	".asdf",
	".bun/bin",
	".cargo/bin",
	".composer/vendor",
	".deno/bin",
	".dotnet",
	".fnm",
	".ghcup/bin",
	".ghcup/ghc",
	".goenv",
	".jenv",
	".juliaup",
	".krew/bin",
	".linuxbrew",
	".local/bin",
	".local/lib",
	".local/pipx",
	".local/share/fnm",
	".local/share/mise",
	".local/share/pipx",
	".local/share/pnpm",
	".local/share/uv",
	".luarocks/bin",
	".nodenv",
	".nvm",
	".opam",
	".poetry",
	".pyenv",
	".rbenv",
	".rustup",
	".sdkman",
	".tfenv",
	".volta",
	".yarn/bin",
	"anaconda3",
	"go/bin",
	"go/pkg/mod/golang.org/toolchain@*",
	"miniconda3",
	"miniforge3",
};

static const char *const settings[] = {
	".gitconfig",	      ".gitignore",	    ".gitignore_global",
	".config/git/config", ".config/git/ignore", ".inputrc",
	".editorconfig",
};

/* Words of npm's settings that stand before a secret. */
static const char *const npm_secrets[] = {
	"_auth", "_password", "token", "username", "email", "keyfile",
};

/* The last part may be a pattern. */
static void add_tool(const char *path, struct view *v)
{
	glob_t found = {0};

	if (!strchr(path, '*')) {
		if (!access(path, F_OK))
			view_add(v, VIEW_RO, path, NULL);
		return;
	}
	if (glob(path, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			view_add(v, VIEW_RO, found.gl_pathv[i], NULL);
	globfree(&found);
}

static void add_tools(const char *home, struct view *v)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (snprintf(path, sizeof path, "%s/%s", home, tools[i]) <
		    (int)sizeof path)
			add_tool(path, v);
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (snprintf(path, sizeof path, "%s/%s", home, settings[i]) <
			    (int)sizeof path &&
		    !access(path, R_OK))
			view_add(v, VIEW_RO, path, NULL)->is_file = true;
	}
}

static bool has_secret(const char *line)
{
	size_t n = strcspn(line, "=");

	for (size_t i = 0; i < ARRAY_SIZE(npm_secrets); i++) {
		const char *at = strcasestr(line, npm_secrets[i]);

		if (at && (size_t)(at - line) < n)
			return true;
	}
	/* A variable may hold one, and is not passed on; an address may have
	 * one in it. */
	return strchr(line, '@') && strstr(line, "://");
}

/* npm's settings, line by line, into memory. */
static void add_npm(const char *home, struct view *v)
{
	_cleanup_buf_ struct buf text = {0};
	char path[PATH_MAX];
	char *save = NULL, *line;
	_cleanup_close_ int made = -1;
	int fd;

	if (snprintf(path, sizeof path, "%s/.npmrc", home) >=
		    (int)sizeof path ||
	    io_read_file(AT_FDCWD, path, SETTINGS_MAX, &text) < 0 ||
	    !buf_str(&text))
		return;
	made = memfd_create("npmrc", MFD_CLOEXEC);
	fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, BOX_FD_ABOVE);
	if (fd < 0)
		return;
	for (line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (!has_secret(line))
			(void)dprintf(fd, "%s\n", line);
	(void)lseek(fd, 0, SEEK_SET);
	view_add(v, VIEW_TEXT, path, NULL)->fd = fd;
}

/* Whether a folder may be shown because a command's PATH has it. */
static bool may_show(const struct box_spec *spec, const char *dir)
{
	static const char *const never[] = {
		"/tmp", "/var/tmp", "/run", "/home", "/root", "/dev", "/proc"};

	if (name_below(spec->home, dir) || name_below(spec->at, dir) ||
	    name_below(spec->store, dir) || name_below(dir, spec->store))
		return false;
	for (size_t i = 0; i < spec->hidden_count; i++)
		if (name_below(dir, spec->hidden[i]) ||
		    name_below(spec->hidden[i], dir))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (!strcmp(dir, never[i]))
			return false;
	return true;
}

/* Whether credentials lie beside programs, as in a CARGO_HOME elsewhere. */
static bool has_credentials(const char *dir)
{
	static const char *const names[] = {"credentials", "credentials.toml",
					    "settings.xml", "auth.json",
					    "gradle.properties"};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) <
			    (int)sizeof path &&
		    !access(path, F_OK))
			return true;
	return false;
}

static void add_path(const struct box_spec *spec, struct view *v,
		     const char *dir)
{
	_cleanup_free_ char *real = realpath(dir, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	const struct view_step *up;
	struct stat st;

	if (!real || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    name_below(real, spec->at) || !may_show(spec, real))
		return;
	up = NULL;
	for (size_t i = 0; i < v->count; i++)
		if (name_below(real, v->steps[i].path) &&
		    (!up || strlen(v->steps[i].path) >= strlen(up->path)))
			up = &v->steps[i];
	if (up && up->kind == VIEW_RO)
		return; /* it shows already */
	if (!strcmp(slash, "/bin")) {
		*slash = 0;
		if (!*real || !may_show(spec, real) || has_credentials(real))
			*slash = '/';
	}
	view_add(v, VIEW_RO, real, NULL);
}

static void add_paths(const struct box_spec *spec, struct view *v)
{
	const char *path = getenv("PATH");
	_cleanup_free_ char *copy = path ? strdup(path) : NULL;
	char *save = NULL, *dir;

	if (!copy)
		return;
	for (dir = strtok_r(copy, ":", &save); dir;
	     dir = strtok_r(NULL, ":", &save))
		if (*dir == '/')
			add_path(spec, v, dir);
}

/* Whether a folder of the host's HOME shows at a path. */
static bool is_covered(const struct view *v, const char *home, const char *path)
{
	const struct view_step *up = NULL;

	for (size_t i = 0; i < v->count; i++)
		if (name_below(path, v->steps[i].path) &&
		    (!up || strlen(v->steps[i].path) >= strlen(up->path)))
			up = &v->steps[i];
	return up && up->kind == VIEW_RO && name_below(up->path, home);
}

/* A cache that lies in a tool chain (pnpm's store) is the environment's own
 * all the same. */
static void add_caches(const char *home, const char *folder, struct view *v)
{
	char path[PATH_MAX], from[PATH_MAX];
	const struct box_cache *c;
	struct stat st;

	for (size_t i = 0; (c = box_cache_at(i)); i++) {
		if (c->warm == BOX_WARM_NO ||
		    snprintf(path, sizeof path, "%s/%s", home, c->path) >=
			    (int)sizeof path ||
		    snprintf(from, sizeof from, "%s/%s", folder, c->path) >=
			    (int)sizeof from ||
		    lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) ||
		    !is_covered(v, home, path))
			continue;
		view_add(v, VIEW_RW, path, from)->make = true;
	}
}

/* Caches that their tools look for in the folder for temporary files, which
 * is another one in a sandbox: links there lead to them. */
static void link_temporary(const struct box_spec *spec, const char *home,
			   const char *folder, struct view *v)
{
	char below[NAME_MAX], path[PATH_MAX], from[PATH_MAX];
	_cleanup_close_ int top =
		spec->home_view
			? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)
			: -1;
	const struct box_cache *c;
	struct stat st;

	/* All of it belongs to the user whom it was made for. */
	if (top < 0 || fstat(top, &st) < 0)
		return;
	for (size_t i = 0; (c = box_cache_at(i)); i++) {
		_cleanup_close_ int there = -1;

		if (!c->by_user ||
		    box_cache_path(c, st.st_uid, below, sizeof below) < 0)
			continue;
		there = io_open_beneath(top, below, O_PATH | O_DIRECTORY);
		(void)snprintf(path, sizeof path, "/tmp%s",
			       strrchr(below, '/'));
		if (there >= 0 && !name_below(spec->at, path) &&
		    snprintf(from, sizeof from, "%s/%s", home, below) <
			    (int)sizeof from)
			view_add(v, VIEW_LINK, path, from);
	}
}

void home_view(const struct box_spec *spec, const char *home, struct view *v)
{
	char folder[PATH_MAX];
	int n = spec->home_view
			? snprintf(folder, sizeof folder, "%s", spec->home_view)
			: snprintf(folder, sizeof folder, "%s/envs/%s/box/home",
				   spec->store, spec->env);

	if (n >= (int)sizeof folder) {
		v->failed = true;
		return;
	}
	view_add(v, VIEW_RW, home, folder);
	/* By its other name, too, where that leads nowhere else. */
	if (strcmp(home, spec->home) != 0 && (name_below(spec->home, "/home") ||
					      name_below(spec->home, "/root")))
		view_add(v, VIEW_RW, spec->home, folder);
	add_tools(home, v);
	add_npm(home, v);
	add_paths(spec, v);
	add_caches(home, folder, v);
	link_temporary(spec, home, folder, v);
}

/* --- mount points -------------------------------------------------------- */

int home_prepare(const struct box_spec *spec, int folder, struct view *v)
{
	_cleanup_free_ char *at = NULL;
	_cleanup_close_ int home = -1;
	size_t exists;
	int r = box_resolve(spec->home, &at, &exists);

	if (r)
		return r;
	home = openat(folder, spec->home_view ? spec->home_view : "home",
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (home < 0)
		return -errno;
	for (size_t i = 0; i < v->count && !r; i++) {
		const struct view_step *s = &v->steps[i];
		const struct view_step *up = view_above(v, i, s->path);

		/* What is bound from HOME has to be there, and no link. */
		if (s->make ||
		    (up && up->kind == VIEW_RW && !strcmp(up->path, at) &&
		     strcmp(up->from, up->path) != 0))
			r = point_make(home, s->path + strlen(at),
				       s->is_file || s->kind == VIEW_TEXT,
				       true);
	}
	return r;
}
