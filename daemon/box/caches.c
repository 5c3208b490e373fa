/* SPDX-License-Identifier: MIT */
/*
 * caches.c - the caches of tools: which variables move them, where to, and what
 * of them may be shared.
 *
 * How: each path is where the tool has it in a HOME of its own, so that a
 * command of `run`, which has the environment's HOME, and one outside that only
 * has these variables use the same caches. Tools that ignore XDG's variables
 * have their own; where a tool takes no path, a word stands there as it is.
 *
 * Of what may be warm only the parts are taken that tools fetched or built.
 * Settings, credentials and logs, which may have tokens in them, lie beside
 * them: where a tool's layout is known it is a list of what is taken, and in
 * any case names that are known to hold secrets are left out.
 */
#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Tools that have no folder of their own stand here, too: jest's goes by
 * TMPDIR, and what cargo, tsc, next and turbo build lies in the tree, where it
 * is as warm as the snapshot. */
static const struct box_cache caches[] = {
	{.name = "xdg", .variable = "XDG_CACHE_HOME", .path = ".cache"},
	{.name = "xdg", .variable = "XDG_CONFIG_HOME", .path = ".config"},
	{.name = "xdg", .variable = "XDG_DATA_HOME", .path = ".local/share"},
	{.name = "xdg", .variable = "XDG_STATE_HOME", .path = ".local/state"},
	{.name = "tmp", .variable = "TMPDIR", .path = ".cache/tmp"},
	/* It has the sources of all projects that its user has ever tested, so
	 * nobody's is taken unasked. */
	{.name = "jest",
	 .path = ".cache/tmp/jest_",
	 .by_user = true,
	 .warm = BOX_WARM_ASKED},
	{.name = "npm",
	 .variable = "npm_config_cache",
	 .path = ".npm",
	 .warm = BOX_WARM_YES,
	 .only = LIST("_cacache", "_npx", "_prebuilds", "_libvips")},
	{.name = "npm",
	 .variable = "npm_config_update_notifier",
	 .before = "false"},
	{.name = "npm", .variable = "npm_config_logs_max", .before = "0"},
	{.name = "pip",
	 .variable = "PIP_DISABLE_PIP_VERSION_CHECK",
	 .before = "1"},
	{.name = "pnpm",
	 .variable = "npm_config_store_dir",
	 .path = ".local/share/pnpm/store",
	 .warm = BOX_WARM_YES},
	{.name = "yarn",
	 .variable = "YARN_CACHE_FOLDER",
	 .path = ".cache/yarn",
	 .warm = BOX_WARM_YES},
	{.name = "yarn-berry",
	 .variable = "YARN_GLOBAL_FOLDER",
	 .path = ".yarn/berry",
	 .warm = BOX_WARM_YES,
	 .only = LIST("cache", "index", "metadata")},
	{.name = "bun",
	 .variable = "BUN_INSTALL_CACHE_DIR",
	 .path = ".bun/install/cache",
	 .warm = BOX_WARM_YES},
	{.name = "pip",
	 .variable = "PIP_CACHE_DIR",
	 .path = ".cache/pip",
	 .warm = BOX_WARM_YES,
	 .only = LIST("http", "http-v2", "wheels", "selfcheck")},
	{.name = "uv",
	 .variable = "UV_CACHE_DIR",
	 .path = ".cache/uv",
	 .warm = BOX_WARM_YES},
	{.name = "poetry",
	 .variable = "POETRY_CACHE_DIR",
	 .path = ".cache/pypoetry",
	 .warm = BOX_WARM_YES,
	 .only = LIST("artifacts", "cache")},
	{.name = "cargo",
	 .variable = "CARGO_HOME",
	 .path = ".cargo",
	 .warm = BOX_WARM_YES,
	 .only = LIST("registry", "git"),
	 .never = LIST("/git/db/*/FETCH_HEAD")},
	{.name = "go-build",
	 .variable = "GOCACHE",
	 .path = ".cache/go-build",
	 .warm = BOX_WARM_YES},
	{.variable = "GOPATH", .path = "go"},
	{.name = "go",
	 .variable = "GOMODCACHE",
	 .path = "go/pkg/mod",
	 .warm = BOX_WARM_YES,
	 .never = LIST("/cache/vcs", "/cache/lock")},
	{.variable = "GOENV", .path = ".config/go/env"},
	{.name = "maven",
	 .variable = "MAVEN_OPTS",
	 .before = "-Dmaven.repo.local=",
	 .path = ".m2/repository",
	 .warm = BOX_WARM_YES},
	{.name = "gradle",
	 .variable = "GRADLE_USER_HOME",
	 .path = ".gradle",
	 .warm = BOX_WARM_YES,
	 .only = LIST("caches", "wrapper", "jdks", "native")},
	{.name = "ccache",
	 .variable = "CCACHE_DIR",
	 .path = ".cache/ccache",
	 .warm = BOX_WARM_YES},
	{.name = "sccache",
	 .variable = "SCCACHE_DIR",
	 .path = ".cache/sccache",
	 .warm = BOX_WARM_YES},
	{.name = "composer",
	 .variable = "COMPOSER_HOME",
	 .path = ".config/composer"},
	{.name = "composer",
	 .variable = "COMPOSER_CACHE_DIR",
	 .path = ".cache/composer",
	 .warm = BOX_WARM_YES,
	 .never = LIST("/vcs")},
	{.name = "bundler",
	 .variable = "BUNDLE_USER_HOME",
	 .path = ".bundle",
	 .warm = BOX_WARM_YES,
	 .only = LIST("cache")},
	{.name = "nuget",
	 .variable = "NUGET_PACKAGES",
	 .path = ".nuget/packages",
	 .warm = BOX_WARM_YES},
	{.name = "playwright",
	 .variable = "PLAYWRIGHT_BROWSERS_PATH",
	 .path = ".cache/ms-playwright",
	 .warm = BOX_WARM_YES},
	{.name = "huggingface",
	 .variable = "HF_HOME",
	 .path = ".cache/huggingface",
	 .warm = BOX_WARM_YES,
	 .only = LIST("hub", "datasets", "modules", "assets", "xet")},
	/* It keeps what tasks printed, so nobody's is taken unasked. */
	{.name = "turbo",
	 .variable = "TURBO_CACHE_DIR",
	 .path = ".cache/turbo",
	 .warm = BOX_WARM_ASKED},
	{.name = "next", .variable = "NEXT_TELEMETRY_DISABLED", .before = "1"},
};

/* At the top of a cache, whichever it is: as patterns of import. */
static const char *const secrets[] = {
	"/.npmrc",
	"/npmrc",
	"/.yarnrc*",
	"/credentials*",
	"/.credentials*",
	"/config",
	"/config.toml",
	"/settings*.xml",
	"/pip.conf",
	"/pip.ini",
	"/gradle.properties",
	"/init.d",
	"/auth.json",
	"/auth.toml",
	"/token",
	"/stored_tokens",
	"/.netrc",
	"/_netrc",
	"/.pypirc",
	"/nuget.config",
	"/NuGet.Config",
	"/ccache.conf",
	"/.git-credentials",
	"/.ssh",
	"/.gnupg",
	"/.aws",
	"/.docker",
	"/.kube",
	"/.config",
	"/_logs",
	"/log",
	"/logs",
};

const struct box_cache *box_cache_at(size_t i)
{
	return i < ARRAY_SIZE(caches) ? &caches[i] : NULL;
}

/* Of several rows with one name that which may be warm. */
const struct box_cache *box_cache_find(const char *name)
{
	const struct box_cache *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(caches); i++)
		if (caches[i].name && !strcmp(caches[i].name, name) &&
		    (!found || caches[i].warm != BOX_WARM_NO))
			found = &caches[i];
	return found;
}

size_t box_cache_never(const struct box_cache *c, const char **ret_globs)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		ret_globs[n++] = secrets[i];
	for (size_t i = 0; c->never && c->never[i] && n < BOX_NEVER_MAX; i++)
		ret_globs[n++] = c->never[i];
	return n;
}

/* Returns the folder that a row's variable names, or NULL. */
static const char *folder_of(const struct box_cache *c)
{
	const char *value = c->before || !c->path || !c->variable
				    ? NULL
				    : getenv(c->variable);

	return value && value[0] == '/' ? value : NULL;
}

/* As jest writes a user's number. */
static void put_base36(uint64_t n, char text[16])
{
	char *at = text + 15;

	*at = 0;
	do
		*--at = "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
	while (n /= 36);
	memmove(text, at, strlen(at) + 1);
}

int box_cache_path(const struct box_cache *c, uid_t uid, char *path,
		   size_t size)
{
	char user[16] = "";

	if (c->by_user)
		put_base36(uid, user);
	return snprintf(path, size, "%s%s", c->path, user) < (int)size
		       ? 0
		       : -ENAMETOOLONG;
}

int box_cache_place(const struct box_cache *c, const char *home, char *path,
		    size_t size)
{
	const char *top = folder_of(c), *rest = "";

	/* Or that of one around it: XDG's folders, GOPATH. */
	for (size_t i = 0; i < ARRAY_SIZE(caches) && !top; i++) {
		const size_t n = caches[i].path ? strlen(caches[i].path) : 0;

		if (!n || strncmp(c->path, caches[i].path, n) != 0 ||
		    c->path[n] != '/')
			continue;
		top = folder_of(&caches[i]);
		rest = c->path + n;
	}
	if (!top)
		return snprintf(path, size, "%s/%s", home, c->path) < (int)size
			       ? 0
			       : -ENAMETOOLONG;
	return snprintf(path, size, "%s%s", top, rest) < (int)size
		       ? 0
		       : -ENAMETOOLONG;
}

void box_caches(const char *home, struct buf *vars)
{
	char value[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_SIZE(caches); i++) {
		const struct box_cache *c = &caches[i];

		if (!c->variable)
			continue;
		(void)snprintf(value, sizeof value, "%s%s%s%s",
			       c->before ? c->before : "", c->path ? home : "",
			       c->path ? "/" : "", c->path ? c->path : "");
		box_vars_set(vars, c->variable, value);
	}
}

void box_switches(struct buf *vars)
{
	for (size_t i = 0; i < ARRAY_SIZE(caches); i++)
		if (caches[i].variable && !caches[i].path)
			box_vars_set(vars, caches[i].variable,
				     caches[i].before);
}

/* One level at a time; what is there already may be a link, and is refused. */
static int make_below(int home, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	int dir = fcntl(home, F_DUPFD_CLOEXEC, 3), next;
	char *save = NULL, *name;

	if (!copy || dir < 0) {
		if (dir >= 0)
			(void)close(dir);
		return -ENOMEM;
	}
	for (name = strtok_r(copy, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		(void)mkdirat(dir, name, 0755);
		next = openat(dir, name,
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(dir);
		if (next < 0)
			return -errno;
		dir = next;
	}
	(void)close(dir);
	return 0;
}

/* Who goes by these variables outside has the caller's rights: a folder that
 * became a link would guide it. */
static int check_links(int home, const char **ret_path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(caches); i++) {
		char path[NAME_MAX];
		int fd;

		if (!caches[i].path ||
		    box_cache_path(&caches[i], geteuid(), path, sizeof path))
			continue;
		fd = (int)syscall(SYS_openat2, home, path, &how, sizeof how);
		if (fd >= 0)
			(void)close(fd);
		if (fd < 0 && (errno == EXDEV || errno == ELOOP)) {
			*ret_path = caches[i].path;
			return -EXDEV;
		}
	}
	return 0;
}

static int open_dir(int at, const char *name)
{
	int fd =
		openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Opens STORE/envs/ENV/box/home. */
static int open_plain(const char *store, const char *env)
{
	_cleanup_close_ int top = box_env_open(store, env, ""), box = -1;

	if (top < 0)
		return top;
	(void)mkdirat(top, "box", 0700);
	box = open_dir(top, "box");
	if (box < 0)
		return box;
	(void)mkdirat(box, "home", 0755);
	return open_dir(box, "home");
}

int box_caches_make(const char *store, const char *env, const char *view,
		    const char **ret_path)
{
	_cleanup_close_ int home =
		view ? open_dir(AT_FDCWD, view) : open_plain(store, env);
	int r;

	if (home < 0)
		return home;
	r = check_links(home, ret_path);
	/* Tools make their own folders, but not the one for temporary files. */
	return r < 0 ? r : make_below(home, ".cache/tmp");
}
