/* SPDX-License-Identifier: MIT */
/*
 * homes.c - the HOME of an environment's commands, when it has warm caches.
 *
 * How: it is an environment of its own, in the folder of the one that it
 * belongs to: a private, writable view of all snapshots of caches together,
 * each where its tool has it below HOME. It is made for the first command,
 * mounted beside the environment under a hidden name, and in the registry as
 * NAME/home; lists of environments do not have it. Where nobody imported a
 * cache, or a command has run already, HOME is a plain folder (box/home).
 *
 * A HOME is unmounted before its environment, and only when neither is in use:
 * tools outside that were told of it (cowfs env) would else make its folders
 * anew, beside the mount. The end of the environment is its end, by the same
 * rename.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/name.h"
#include "box/box.h"
#include "exchange/compose.h"
#include "fuse/session.h"

enum { CACHES_MAX = 64, TRIES = 3, PATH_BYTES = 160 };

static int acquire(struct server *s, const struct envs_entry *entry,
		   struct diag *diag, struct envs_entry **ret_home)
{
	char name[NAME_MAX_ENV + 1];

	name_of_home(entry->name, name);
	return handlers_acquire_name(s, name, diag, ret_home);
}

/* No environment's name begins with a dot. */
void homes_point(const struct server *s, const char *home, char *path,
		 size_t size)
{
	(void)snprintf(path, size, "%s/mnt/.%.*s.home", s->path,
		       (int)strcspn(home, "/"), home);
}

/* --- making one ---------------------------------------------------------- */

/* What a HOME is composed of, and the paths in it. */
struct parts {
	struct compose_part v[CACHES_MAX];
	char paths[CACHES_MAX][PATH_BYTES];
	size_t count;
};

/* Finds the snapshots of caches that there are. */
static int find_caches(struct server *s, uid_t uid, struct parts *p)
{
	const struct box_cache *c;
	char ref[STORE_REF_MAX];

	p->count = 0;
	for (size_t i = 0; (c = box_cache_at(i)) && p->count < CACHES_MAX;
	     i++) {
		const size_t n = p->count;
		int r;

		if (c->warm == BOX_WARM_NO)
			continue;
		(void)snprintf(ref, sizeof ref, BOX_CACHE_REF ":%s", c->name);
		r = box_cache_path(c, uid, p->paths[n], sizeof p->paths[n]);
		p->v[n].path = p->paths[n];
		if (r == 0)
			r = store_ref_get(s->store, ref, &p->v[n].id);
		if (r < 0 && r != -ENOENT)
			return r;
		p->count += r == 0;
	}
	return 0;
}

/* From the look at the snapshot until the folder is there nothing else keeps it
 * from gc. -EAGAIN: gc has been quicker. */
static int create_pinned(struct server *s, const char *home,
			 const struct env_info *info)
{
	_cleanup_close_ int pin = -1;
	int r = store_pin(s->store, &pin);

	if (r == 0)
		r = store_has(s->store, &info->snapshot);
	if (r == 0)
		return -EAGAIN;
	return r < 0 ? r : env_create(s->store, home, info);
}

/* Makes the folder, if there are caches. */
static int make_home(struct server *s, const char *home, struct env_info *info)
{
	_cleanup_free_ struct parts *p = malloc(sizeof *p);
	int r = p ? -EAGAIN : -ENOMEM;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		r = find_caches(s, info->uid, p);
		if (r < 0 || !p->count)
			return r;
		r = compose(s->store, p->v, p->count, &info->snapshot);
		if (r == 0)
			r = create_pinned(s, home, info);
	}
	return r;
}

static bool has_plain(struct server *s, const char *env)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof path, "envs/%.64s/box/home", env);
	return faccessat(store_fd(s->store), path, F_OK, AT_SYMLINK_NOFOLLOW) ==
	       0;
}

static int make_wanted(struct server *s, const char *env, const char *home,
		       const struct msg *request, struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	int r;

	if (!info)
		return -ENOMEM;
	info->created_sec = clock_now().tv_sec;
	info->owned = true;
	info->uid = (uint32_t)msg_get_u64(request, CTL_TAG_UID, geteuid());
	info->gid = (uint32_t)msg_get_u64(request, CTL_TAG_GID, getegid());
	r = make_home(s, home, info);
	if (r == 0)
		return 0;
	diag_add(diag, "%s: cannot make a HOME with warm caches: %s", env,
		 err_text(r));
	diag_add(diag,
		 "\"cowfs snapshots\" lists them, \"cowfs rm " BOX_CACHE_REF
		 ":NAME\" takes one away");
	return CODE_FAILED;
}

/* --- the request --------------------------------------------------------- */

/* Sees to it that an existing one is mounted. */
static int mount_home(struct server *s, struct envs_entry *home,
		      struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	const struct envs_mount *m = &home->mount;
	int r;

	if (m->state != ENVS_NONE && session_wait_end(m->session, 0) == 0)
		umount_reap(s, home);
	if (m->state == ENVS_MOUNTED)
		return 0;
	if (m->state == ENVS_DETACHED) {
		diag_add(diag, "%s: another mount name space still uses it",
			 home->name);
		return CODE_BUSY;
	}
	r = info ? env_read_info(s->store, home->name, info) : -ENOMEM;
	if (r < 0) {
		diag_add(diag, "%s: cannot read: %s", home->name, err_text(r));
		return CODE_FAILED;
	}
	/* Caches can be had again: no tool waits for the disk. */
	return mount_open(s, home, info, CTL_FLAG_VOLATILE, diag);
}

static int answer(struct server *s, const struct envs_entry *entry,
		  struct envs_entry *home, const struct msg *request,
		  struct msg *done, struct diag *diag)
{
	const uint64_t flags = msg_get_u64(request, CTL_TAG_FLAGS, 0);
	const bool plain = has_plain(s, entry->name);
	const bool mounted = entry->mount.state == ENVS_MOUNTED;
	char path[KEEPER_PATH_BYTES];
	int r = 0;

	if ((flags & CTL_FLAG_MAKE) && mounted && !plain &&
	    !handlers_env_exists(s, home->name))
		r = make_wanted(s, entry->name, home->name, request, diag);
	if (r)
		return r;
	if (!handlers_env_exists(s, home->name)) {
		msg_put_str(done, CTL_TAG_STATE, plain ? "plain" : "none");
		return CODE_DONE;
	}
	if (mounted)
		r = mount_home(s, home, diag);
	homes_point(s, home->name, path, sizeof path);
	msg_put_str(done, CTL_TAG_STATE, "view");
	msg_put_str(done, CTL_TAG_PATH, path);
	return r;
}

int home_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag)
{
	struct envs_entry *entry, *home;
	int r = handlers_acquire(s, request, diag, &entry);

	if (r)
		return r;
	r = acquire(s, entry, diag, &home);
	if (r == 0) {
		r = answer(s, entry, home, request, done, diag);
		envs_release(home);
	}
	envs_release(entry);
	return r;
}

/* --- the end ------------------------------------------------------------- */

int homes_end(struct server *s, const struct envs_entry *entry, bool checked,
	      struct diag *diag, struct env **ret_home)
{
	struct envs_entry *home;
	int r = acquire(s, entry, diag, &home);

	if (r)
		return r;
	if (home->mount.state != ENVS_NONE && !checked)
		r = boxes_check_others(s, entry, diag);
	if (r == 0 && home->mount.state != ENVS_NONE)
		r = umount_end(s, home, UMOUNT_WAIT_MS, diag, ret_home);
	envs_release(home);
	return r;
}

int homes_kill(struct server *s, const struct envs_entry *entry, pid_t asker,
	       struct msg *done, struct diag *diag)
{
	struct envs_entry *home;
	int r = acquire(s, entry, diag, &home);

	if (r)
		return r;
	if (home->mount.state == ENVS_MOUNTED)
		r = outside_end(s, home, asker, done, diag);
	envs_release(home);
	return r;
}

void homes_drop(struct server *s, const struct envs_entry *entry)
{
	_cleanup_diag_ struct diag diag = {0};
	struct env *home = NULL;

	/* In use: the end of its sandbox, or the next umount, sees to it. */
	if (homes_end(s, entry, true, &diag, &home) == 0)
		homes_close(s, entry->name, home);
}

void homes_close(struct server *s, const char *env, struct env *home)
{
	if (!home)
		return;
	if (!handlers_env_exists(s, env)) {
		umount_close(s, home);
		return;
	}
	if (env_close_kept(home) < 0)
		log_error("%s: the last commit of its HOME failed", env);
}
