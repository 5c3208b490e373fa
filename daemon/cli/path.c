/* SPDX-License-Identifier: MIT */
/*
 * path.c - lexical work only.
 *
 * The working directory comes from getcwd, which the kernel answers from its
 * own tables even inside a mount whose server is gone.
 */
#include "cli/path.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "base/buf.h"

bool path_is_path(const char *arg)
{
	return strchr(arg, '/') || !strcmp(arg, ".") || !strcmp(arg, "..");
}

static void put_component(struct buf *b, const char *s, size_t n, bool clean)
{
	if (!n || (n == 1 && s[0] == '.'))
		return;
	if (clean && n == 2 && s[0] == '.' && s[1] == '.') {
		while (b->len && b->data[b->len - 1] != '/')
			b->len--;
		if (b->len)
			b->len--;
		return;
	}
	buf_put_u8(b, '/');
	buf_put(b, s, n);
}

static void put_components(struct buf *b, const char *path, bool clean)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		put_component(b, path, n, clean);
		path += n + (path[n] == '/');
	}
}

int path_absolute(const char *path, bool clean, char **ret_path)
{
	_cleanup_buf_ struct buf b = {0};
	const char *s;

	if (path[0] != '/') {
		_cleanup_free_ char *cwd = getcwd(NULL, 0);

		if (!cwd)
			return -errno;
		put_components(&b, cwd, clean);
	}
	put_components(&b, path, clean);
	if (!b.len)
		buf_put_u8(&b, '/');
	s = buf_error(&b) ? NULL : buf_str(&b);
	*ret_path = s ? strdup(s) : NULL;
	return *ret_path ? 0 : -ENOMEM;
}

const char *path_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* $XDG_DATA_HOME/cowfs or ~/.local/share/cowfs. */
static int user_store(char **ret_path)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	_cleanup_buf_ struct buf b = {0};
	const char *s;

	if (data && data[0] == '/') {
		buf_printf(&b, "%s/cowfs", data);
	} else {
		if (!home || home[0] != '/') {
			const struct passwd *pw = getpwuid(geteuid());

			home = pw ? pw->pw_dir : NULL;
		}
		if (!home)
			return -ENOENT;
		buf_printf(&b, "%s/.local/share/cowfs", home);
	}
	s = buf_error(&b) ? NULL : buf_str(&b);
	return s ? path_absolute(s, false, ret_path) : -ENOMEM;
}

int path_store(const char *option, char **ret_path)
{
	const char *env = getenv("COWFS_STORE");

	if (option)
		return path_absolute(option, false, ret_path);
	if (env && *env)
		return path_absolute(env, false, ret_path);
	if (geteuid() == 0)
		return path_absolute("/var/lib/cowfs", false, ret_path);
	return user_store(ret_path);
}
