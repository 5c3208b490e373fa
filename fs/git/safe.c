/* SPDX-License-Identifier: MIT */
/*
 * safe.c - safe.directory, from where git takes it: the system's config, the
 * user's, and the environment (GIT_CONFIG_COUNT). Never from a repository's
 * own: that is what is not trusted. An empty value forgets those before it.
 */
#include "git/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "git/config.h"

enum { CONFIG_BYTES = 4 << 20, ENVIRONMENT_MAX = 1000 };

struct look {
	const char *path;
	bool safe;
};

/* The directory itself, the work tree of a git directory, or all below. */
static bool covers(const char *value, const char *path)
{
	size_t n = strlen(value);
	bool all = n >= 2 && !strcmp(value + n - 2, "/*");

	if (all)
		n -= 2;
	while (n > 1 && value[n - 1] == '/')
		n--;
	if (strncmp(path, value, n) != 0)
		return false;
	path += n;
	if (all || !*path)
		return !*path || *path == '/';
	return !strncmp(path, "/.git", 5) && (!path[5] || path[5] == '/');
}

static void see(void *ctx, const char *key, const char *value)
{
	struct look *l = ctx;

	if (strcasecmp(key, "directory") != 0)
		return;
	if (!*value)
		l->safe = false;
	else if (!strcmp(value, "*") || covers(value, l->path))
		l->safe = true;
}

static void see_file(struct look *l, const char *path)
{
	_cleanup_buf_ struct buf text = {0};

	if (io_read_file(AT_FDCWD, path, CONFIG_BYTES, &text) == 0)
		gitconfig_each(text.data, text.len, "safe", see, l);
}

static void see_below(struct look *l, const char *folder, const char *name)
{
	_cleanup_buf_ struct buf path = {0};
	const char *text;

	buf_printf(&path, "%s/%s", folder, name);
	text = buf_str(&path);
	if (text)
		see_file(l, text);
}

static void see_user(struct look *l)
{
	const char *global = getenv("GIT_CONFIG_GLOBAL");
	const char *home = getenv("HOME");
	const char *xdg = getenv("XDG_CONFIG_HOME");

	if (global) {
		see_file(l, global);
		return;
	}
	if (xdg && *xdg)
		see_below(l, xdg, "git/config");
	else if (home)
		see_below(l, home, ".config/git/config");
	if (home)
		see_below(l, home, ".gitconfig");
}

static void see_environment(struct look *l)
{
	const char *count = getenv("GIT_CONFIG_COUNT");
	const long n = count ? strtol(count, NULL, 10) : 0;
	char name[40];

	for (long i = 0; i < n && i < ENVIRONMENT_MAX; i++) {
		const char *key, *value;

		(void)snprintf(name, sizeof name, "GIT_CONFIG_KEY_%ld", i);
		key = getenv(name);
		(void)snprintf(name, sizeof name, "GIT_CONFIG_VALUE_%ld", i);
		value = getenv(name);
		if (key && value && !strcasecmp(key, "safe.directory"))
			see(l, "directory", value);
	}
}

bool gitsafe_is_owner(uid_t uid)
{
	const char *sudo = getenv("SUDO_UID");
	char *end = NULL;
	unsigned long number;

	if (uid == geteuid())
		return true;
	if (geteuid() != 0 || !sudo || !*sudo)
		return false;
	errno = 0;
	number = strtoul(sudo, &end, 10);
	return !*end && !errno && number == uid;
}

bool gitsafe_is_trusted(const char *path)
{
	const char *nosystem = getenv("GIT_CONFIG_NOSYSTEM");
	struct look l = {.path = path};

	if (!nosystem || !*nosystem || !strcmp(nosystem, "0"))
		see_file(&l, "/etc/gitconfig");
	see_user(&l);
	see_environment(&l);
	return l.safe;
}
