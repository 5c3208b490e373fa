/* SPDX-License-Identifier: MIT */
/*
 * place.c - one statfs in the usual case, the list of mounts only on FUSE.
 *
 * A store that is to be made has no directory yet, so the nearest one above
 * is asked. Which mount a path is on is then told by the longest mount point
 * that it begins with, after links are resolved.
 */
#include "cli/place.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/err.h"
#include "cli/mountinfo.h"

/* Cuts path down to what exists, and tells the file system there. */
static int nearest(char *path, struct statfs *ret)
{
	while (statfs(path, ret) < 0) {
		char *slash = strrchr(path, '/');

		if (errno != ENOENT || !slash || !path[1])
			return -errno;
		slash[slash == path] = 0;
	}
	return 0;
}

static bool is_ours(const struct mountinfo *m, const char *path)
{
	size_t best = 0;
	bool ours = false;

	for (size_t i = 0; i < m->count; i++) {
		const char *s = m->v[i].path;
		size_t n = strlen(s);

		if (n < best || strncmp(s, path, n) != 0 ||
		    (n > 1 && path[n] && path[n] != '/'))
			continue;
		best = n;
		ours = !strcmp(m->v[i].type, "fuse.cowfs");
	}
	return ours;
}

bool place_is_inside(const char *path)
{
	_cleanup_(mountinfo_fini) struct mountinfo m = {0};

	return mountinfo_read(&m) == 0 && is_ours(&m, path);
}

int place_check(const struct call *c)
{
	_cleanup_free_ char *path = strdup(c->store), *real = NULL;
	struct statfs st;

	if (!path)
		return call_fail_err(c, -ENOMEM, NULL, "store");
	/* Whatever else is wrong there, opening the store will tell. */
	if (nearest(path, &st) || st.f_type != FUSE_SUPER_MAGIC)
		return CODE_DONE;
	real = realpath(path, NULL);
	if (!real || !place_is_inside(real))
		return CODE_DONE;
	return call_fail(c, CODE_FAILED,
			 "%s: a store cannot be inside an environment",
			 c->store);
}
