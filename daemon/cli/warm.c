/* SPDX-License-Identifier: MIT */
/*
 * warm.c - the caches of tools become snapshots, named cache:NAME.
 *
 * The table of tools (box/caches.c) says what of a cache may be shared, and
 * where it is looked for. A place that leads out of HOME, by a symlink, is
 * left out: only who names a path means it. A cache that is in a store is an
 * environment's own and is left out, too.
 */
#include "cli/warm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/name.h"

static void put_names(struct buf *b)
{
	const struct box_cache *c;

	for (size_t i = 0; (c = box_cache_at(i)); i++)
		if (c->warm != BOX_WARM_NO)
			buf_printf(b, "%s%s", b->len ? ", " : "", c->name);
}

int warm_parse(const struct call *c, const char *text,
	       const struct box_cache **ret_cache, const char **ret_path)
{
	const char *path = strchr(text, '=');
	_cleanup_free_ char *name =
		path ? strndup(text, (size_t)(path - text)) : NULL;
	_cleanup_buf_ struct buf names = {0};

	if (!path || !path[1] || path == text)
		return call_fail(c, CODE_USAGE, "--cache: %s: not NAME=PATH",
				 text);
	if (!name)
		return call_fail_err(c, -ENOMEM, NULL, "import");
	*ret_path = path + 1;
	*ret_cache = box_cache_find(name);
	if (*ret_cache && (*ret_cache)->warm != BOX_WARM_NO)
		return CODE_DONE;
	put_names(&names);
	(void)call_fail(c, 0, "--cache: %s: %s", name,
			*ret_cache ? "is not shared between environments"
				   : "unknown cache");
	call_hint("known: %s", buf_str(&names) ? buf_str(&names) : "?");
	return CODE_USAGE;
}

int warm_import(const struct call *c, const struct box_cache *cache,
		const char *path, struct import_options *o,
		char ret_ref[STORE_REF_MAX], struct import_result *ret_result)
{
	const char *never[BOX_NEVER_MAX];

	(void)snprintf(ret_ref, STORE_REF_MAX, BOX_CACHE_REF ":%s",
		       cache->name);
	o->only = cache->only;
	o->exclude_count = box_cache_never(cache, never);
	o->excludes = never;
	return import_path_of(c, path, ret_ref, o, ret_result);
}

/* --- the caller's own ---------------------------------------------------- */

/* By the real paths of both. */
static bool is_below(const char *real, const char *dir)
{
	_cleanup_free_ char *top = realpath(dir, NULL);

	return top && name_below(real, top);
}

static void import_own(const struct call *c, const struct box_cache *cache,
		       const char *home, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct import_options o = {.skip_unreadable = true};
	const char *rest = name_below(path, home);
	struct import_result result;
	char ref[STORE_REF_MAX];
	struct stat st;

	if (!real || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    is_below(real, c->store))
		return;
	if (rest && *rest && !is_below(real, home)) {
		(void)call_fail(c, 0,
				"--warm: %s: leads out of HOME, and is left "
				"out",
				path);
		return;
	}
	(void)!warm_import(c, cache, real, &o, ref, &result);
}

void warm_import_own(const struct call *c, const char *home)
{
	const struct box_cache *cache;
	char path[PATH_MAX];

	for (size_t i = 0; (cache = box_cache_at(i)); i++)
		if (cache->warm == BOX_WARM_YES &&
		    box_cache_place(cache, home, path, sizeof path) == 0)
			import_own(c, cache, home, path);
}

/* --- the environment's HOME ---------------------------------------------- */

int warm_home(const struct call *c, int *fd, const char *env,
	      const struct box_command *owner, struct warm_home *ret_home)
{
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int code;

	*ret_home = (struct warm_home){.state = "none"};
	msg_begin(&request, CTL_HOME);
	msg_put_str(&request, CTL_TAG_NAME, env);
	if (owner) {
		msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_MAKE);
		msg_put_u64(&request, CTL_TAG_UID,
			    owner->has_user ? owner->uid : geteuid());
		msg_put_u64(&request, CTL_TAG_GID,
			    owner->has_user ? owner->gid : getegid());
	}
	code = remote_call(c, fd, &request, NULL, NULL, &done);
	if (code)
		return code;
	if (msg_get_str(&done, CTL_TAG_STATE, ret_home->state,
			sizeof ret_home->state) < 0 ||
	    (!strcmp(ret_home->state, "view") &&
	     msg_get_str(&done, CTL_TAG_PATH, ret_home->path,
			 sizeof ret_home->path) < 0))
		return call_fail_err(c, -EPROTO, NULL, "server");
	return CODE_DONE;
}
