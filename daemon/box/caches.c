/* SPDX-License-Identifier: MIT */
/*
 * caches.c - which variables move the caches of which tools, and where to.
 *
 * How: each path is where the tool has it in a HOME of its own, so that a
 * command of `run`, which has the environment's HOME, and one outside that only
 * has these variables use the same caches. Tools that ignore XDG's variables
 * have their own; where a tool takes no path, a word stands there as it is.
 */
#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	const char *before; /* stands before the path */
	const char *path;   /* below HOME; or NULL: before is the value */
} caches[] = {
	{"XDG_CACHE_HOME", "", ".cache"},
	{"XDG_CONFIG_HOME", "", ".config"},
	{"XDG_DATA_HOME", "", ".local/share"},
	{"XDG_STATE_HOME", "", ".local/state"},
	/* jest follows it, too */
	{"TMPDIR", "", ".cache/tmp"},
	{"npm_config_cache", "", ".npm"},
	{"npm_config_store_dir", "", ".local/share/pnpm/store"},
	{"npm_config_update_notifier", "false", NULL},
	{"npm_config_logs_max", "0", NULL},
	{"YARN_CACHE_FOLDER", "", ".cache/yarn"},
	{"YARN_GLOBAL_FOLDER", "", ".yarn/berry"},
	{"BUN_INSTALL_CACHE_DIR", "", ".bun/install/cache"},
	{"PIP_CACHE_DIR", "", ".cache/pip"},
	{"UV_CACHE_DIR", "", ".cache/uv"},
	{"POETRY_CACHE_DIR", "", ".cache/pypoetry"},
	{"CARGO_HOME", "", ".cargo"},
	{"GOCACHE", "", ".cache/go-build"},
	{"GOPATH", "", "go"},
	{"GOMODCACHE", "", "go/pkg/mod"},
	{"GOENV", "", ".config/go/env"},
	{"MAVEN_OPTS", "-Dmaven.repo.local=", ".m2/repository"},
	{"GRADLE_USER_HOME", "", ".gradle"},
	{"CCACHE_DIR", "", ".cache/ccache"},
	{"SCCACHE_DIR", "", ".cache/sccache"},
	{"COMPOSER_HOME", "", ".config/composer"},
	{"COMPOSER_CACHE_DIR", "", ".cache/composer"},
	{"BUNDLE_USER_HOME", "", ".bundle"},
	{"NUGET_PACKAGES", "", ".nuget/packages"},
	{"PLAYWRIGHT_BROWSERS_PATH", "", ".cache/ms-playwright"},
	{"HF_HOME", "", ".cache/huggingface"},
	{"TURBO_CACHE_DIR", "", ".cache/turbo"},
	{"NEXT_TELEMETRY_DISABLED", "1", NULL},
};

void box_caches(const char *home, struct buf *vars)
{
	char value[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_SIZE(caches); i++) {
		if (caches[i].path)
			(void)snprintf(value, sizeof value, "%s%s/%s",
				       caches[i].before, home, caches[i].path);
		else
			(void)snprintf(value, sizeof value, "%s",
				       caches[i].before);
		box_vars_set(vars, caches[i].name, value);
	}
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

int box_caches_make(const char *store, const char *env)
{
	_cleanup_buf_ struct buf path = {0};
	_cleanup_close_ int top = -1, box = -1, home = -1;

	buf_printf(&path, "%s/envs/%s", store, env);
	if (!buf_str(&path))
		return -ENOMEM;
	top = open(buf_str(&path),
		   O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return -errno;
	(void)mkdirat(top, "box", 0700);
	box = openat(top, "box", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (box < 0)
		return -errno;
	(void)mkdirat(box, "home", 0755);
	home = openat(box, "home",
		      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (home < 0)
		return -errno;
	/* Tools make their own folders, but not the one for temporary files. */
	return make_below(home, ".cache/tmp");
}
