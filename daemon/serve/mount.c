/* SPDX-License-Identifier: MIT */
/*
 * How: find out what is meant (an environment that exists, or a snapshot and a
 * new name), then: folder, open, mount, session. Each step is undone when a
 * later one fails. Nothing on this path syncs the disk.
 *
 * A made-up name is the origin's last component and the smallest free number;
 * whoever is quicker gets it, the other one tries the next.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "fuse/session.h"
#include "serve/mounts_int.h"
#include "store/settings.h"

enum {
	NAME_TRIES = 100000,
	STEM_BYTES = 50, /* leaves room for a number in a label */
	REF_BYTES = 160,
	END_WAIT_MS = 1000,
};

/* What a request asks for. */
struct wish {
	char ref[REF_BYTES];
	char snapshot[OID_HEX + 1]; /* or "" */
	char name[NAME_MAX_LABEL + 1];
	char at[KEEPER_PATH_BYTES];
	uint64_t flags;
	struct limits_wish limits;
	struct publish_wish ports;
};

/* Reads an optional field; false when it is malformed. */
static bool read_optional(const struct msg *m, enum ctl_tag tag, char *s,
			  size_t size)
{
	int r = msg_get_str(m, tag, s, size);

	if (r == -ENOENT)
		s[0] = '\0';
	return r == 0 || r == -ENOENT;
}

static int read_wish(const struct msg *m, struct wish *w, struct diag *diag)
{
	int r;

	if (msg_get_str(m, CTL_TAG_REF, w->ref, sizeof w->ref) < 0 ||
	    !read_optional(m, CTL_TAG_SNAPSHOT, w->snapshot,
			   sizeof w->snapshot)) {
		diag_add(diag, "mount: not a name of a snapshot");
		return CODE_USAGE;
	}
	if (!read_optional(m, CTL_TAG_NAME, w->name, sizeof w->name) ||
	    (w->name[0] && !name_is_label(w->name))) {
		diag_add(diag, "bad environment name: 1 to 64 of "
			       "[A-Za-z0-9._-], the first a letter, digit "
			       "or '_'");
		return CODE_USAGE;
	}
	if (!read_optional(m, CTL_TAG_AT, w->at, sizeof w->at) ||
	    (w->at[0] && w->at[0] != '/')) {
		diag_add(diag, "--at: not an absolute path");
		return CODE_USAGE;
	}
	w->flags = msg_get_u64(m, CTL_TAG_FLAGS, 0);
	r = limits_read(m, &w->limits, diag);
	return r ? r : publish_read(m, &w->ports, diag);
}

/* A client in another mount name space would not see what we mount. */
static int check_namespace(const struct ctl_peer *peer, struct diag *diag)
{
	uint64_t own = mounts_namespace(0);
	uint64_t theirs = peer->pid > 0 ? mounts_namespace(peer->pid) : own;

	if (theirs == 0 || theirs == own)
		return 0;
	diag_add(diag,
		 "the server of this store runs in another mount name space "
		 "(pid %d)",
		 (int)getpid());
	diag_add(diag, "stop it first: cowfs daemon stop");
	return CODE_BUSY;
}

/* --- the steps ---------------------------------------------------------- */

static int fail_mount(struct diag *diag, const char *path, int err,
		      const struct keeper_reply *reply)
{
	if (reply->text_len > 0)
		diag_add(diag, "%s: %.*s", path, (int)reply->text_len,
			 reply->text);
	else
		diag_add(diag, "%s: cannot mount: %s", path, err_text(err));
	return err == -ENOTDIR ? CODE_USAGE : CODE_FAILED;
}

static void undo_mount(struct server *s, const struct envs_mount *m,
		       struct keeper_reply *reply)
{
	struct keeper_request q = {.op = KEEPER_UMOUNT,
				   .flags =
					   KEEPER_FLAG_DETACH |
					   (m->remove ? KEEPER_FLAG_REMOVE : 0),
				   .mount = m->keeper_id,
				   .major = m->major,
				   .minor = m->minor};

	(void)snprintf(q.path, sizeof q.path, "%s", m->real);
	if (link_call(s->link, &q, reply, NULL) < 0)
		log_warn("mount: %s cannot be undone", m->real);
	link_forget(s->link, m->keeper_id);
}

/* Lets the keeper mount; returns the descriptor, m says where. */
static int ask_keeper(struct server *s, const struct env_info *info,
		      uint64_t flags, struct envs_mount *m,
		      struct keeper_reply *reply)
{
	struct keeper_request q = {.op = KEEPER_MOUNT};
	int fd = -1;
	int r;

	if (info->at[0])
		q.flags |= KEEPER_FLAG_AT;
	if (flags & CTL_FLAG_READ_ONLY)
		q.flags |= KEEPER_FLAG_READ_ONLY;
	if (flags & CTL_FLAG_OTHERS)
		q.flags |= KEEPER_FLAG_OTHERS;
	(void)snprintf(q.path, sizeof q.path, "%s", m->path);
	r = link_call(s->link, &q, reply, &fd);
	if (r < 0)
		return r;
	m->keeper_id = q.id;
	m->major = reply->major;
	m->minor = reply->minor;
	m->remove =
		!info->at[0] || (reply->flags & KEEPER_FLAG_MADE) ||
		(info->made_mountpoint && (reply->flags & KEEPER_FLAG_CLEARED));
	(void)snprintf(m->real, sizeof m->real, "%s", reply->path);
	return fd;
}

/* Damaged settings are no reason not to mount. */
static bool no_births(struct server *s)
{
	_cleanup_diag_ struct diag diag = {0};
	struct settings settings = {0};
	const int r = settings_read(s->store, &diag, &settings);

	if (r < 0)
		log_warn("%s", diag_line(&diag, 0) ? diag_line(&diag, 0)
						   : err_text(r));
	return settings.no_births;
}

static int start_session(struct server *s, struct envs_entry *entry,
			 struct envs_mount *m, int fd)
{
	struct umount_watch *watch = malloc(sizeof *watch);
	const struct session_options options = {.no_births = no_births(s)};
	int r;

	if (!watch) {
		(void)close(fd);
		return -ENOMEM;
	}
	*watch = (struct umount_watch){.server = s, .entry = entry};
	r = session_start(m->env, fd, &options, umount_on_end, watch,
			  &m->session);
	if (r < 0)
		free(watch);
	return r;
}

/* Writes down that the place was made by us, when that is news. */
static void note_made(struct server *s, const char *name, struct env_info *info,
		      bool made)
{
	if (!info->at[0] || info->made_mountpoint == made)
		return;
	info->made_mountpoint = made;
	if (env_write_info(s->store, name, info) < 0)
		log_warn("%s: cannot note its mount point", name);
}

/* What opening had to say of one that was opened: a tail that was cut off. */
static void log_notes(const struct diag *diag)
{
	const char *line;

	for (size_t i = 0; (line = diag_line(diag, i)); i++)
		log_warn("%s", line);
}

int mount_open(struct server *s, struct envs_entry *entry,
	       struct env_info *info, uint64_t flags, struct diag *diag)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	_cleanup_free_ struct envs_mount *m = calloc(1, sizeof *m);
	unsigned open_flags =
		(flags & CTL_FLAG_READ_ONLY ? ENV_READ_ONLY : 0) |
		(flags & CTL_FLAG_VOLATILE ? ENV_VOLATILE : 0);
	int fd;
	int r;

	if (!reply || !m)
		return -ENOMEM;
	if (info->at[0])
		(void)snprintf(m->path, sizeof m->path, "%s", info->at);
	else if (!name_is_label(entry->name))
		homes_point(s, entry->name, m->path, sizeof m->path);
	else
		(void)snprintf(m->path, sizeof m->path, "%s/mnt/%s", s->path,
			       entry->name);
	r = env_open(s->store, entry->name, open_flags, diag, &m->env);
	if (r < 0) {
		diag_add(diag, "%s: cannot open: %s", entry->name, err_text(r));
		return r == -EBUSY ? CODE_BUSY : CODE_FAILED;
	}
	log_notes(diag);
	fd = ask_keeper(s, info, flags, m, reply);
	if (fd < 0) {
		env_close(m->env);
		return fail_mount(diag, m->path, fd, reply);
	}
	r = tend_add(s->tend, m->env);
	if (r < 0)
		(void)close(fd);
	else
		r = start_session(s, entry, m, fd);
	if (r < 0) {
		diag_add(diag, "%s: cannot serve: %s", entry->name,
			 err_text(r));
		undo_mount(s, m, reply);
		tend_remove(s->tend, m->env);
		env_close(m->env);
		return CODE_FAILED;
	}
	m->state = ENVS_MOUNTED;
	m->read_only = flags & CTL_FLAG_READ_ONLY;
	m->due_ns = limits_due(&info->limits);
	envs_publish(entry, m);
	note_made(s, entry->name, info, m->remove);
	return CODE_DONE;
}

static int answer_mounted(struct server *s, const char *name, struct msg *done)
{
	struct envs_look look;

	envs_peek(s->envs, name, &look);
	msg_put_str(done, CTL_TAG_NAME, name);
	msg_put_str(done, CTL_TAG_PATH, look.path);
	return CODE_DONE;
}

/* --- an environment that exists ---------------------------------------- */

/* Changes what is kept with it. */
static int change(struct server *s, struct envs_entry *entry,
		  const struct wish *w, struct diag *diag)
{
	int r = w->limits.set ? limits_change(s, entry, &w->limits, diag)
			      : CODE_DONE;

	if (r || (!w->ports.has_net && !w->ports.has_ports))
		return r;
	return publish_change(s, entry->name, &w->ports, diag);
}

/* Decides about one that is mounted, or still served elsewhere. Returns -1
 * when it has to be mounted. */
static int check_present(struct server *s, struct envs_entry *entry,
			 const struct wish *w, struct diag *diag)
{
	const struct envs_mount *m = &entry->mount;

	if (m->state != ENVS_NONE && session_wait_end(m->session, 0) == 0)
		umount_reap(s, entry);
	if (m->state == ENVS_NONE)
		return -1;
	if (m->state == ENVS_DETACHED) {
		diag_add(diag, "%s: another mount name space still uses it",
			 entry->name);
		return CODE_BUSY;
	}
	if (w->at[0] && strcmp(w->at, m->path) != 0) {
		diag_add(diag, "%s: mounted at %s already", entry->name,
			 m->path);
		return CODE_BUSY;
	}
	if ((w->flags & CTL_FLAG_READ_ONLY) && !m->read_only) {
		diag_add(diag, "%s: mounted writable already", entry->name);
		return CODE_BUSY;
	}
	return change(s, entry, w, diag);
}

static int mount_acquired(struct server *s, struct envs_entry *entry,
			  const struct wish *w, struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	int r = check_present(s, entry, w, diag);

	if (r >= 0)
		return r;
	r = change(s, entry, w, diag);
	if (r)
		return r;
	r = info ? env_read_info(s->store, entry->name, info) : -ENOMEM;
	if (r == 0 && w->at[0] && strcmp(w->at, info->at) != 0) {
		(void)snprintf(info->at, sizeof info->at, "%s", w->at);
		info->made_mountpoint = false;
		r = env_write_info(s->store, entry->name, info);
	}
	if (r < 0) {
		diag_add(diag, "%s: cannot read: %s", entry->name, err_text(r));
		return CODE_FAILED;
	}
	publish_renew(s, entry->name, info);
	return mount_open(s, entry, info, w->flags, diag);
}

static int mount_existing(struct server *s, const struct wish *w,
			  struct msg *done, struct diag *diag)
{
	struct envs_entry *entry;
	int r = handlers_acquire_name(s, w->ref, diag, &entry);

	if (r)
		return r;
	r = mount_acquired(s, entry, w, diag);
	envs_release(entry);
	return r ? r : answer_mounted(s, w->ref, done);
}

/* --- a new environment -------------------------------------------------- */

static int take_source(void *ctx, const struct snapshot_info *snapshot)
{
	struct env_info *info = ctx;

	(void)snprintf(info->source, sizeof info->source, "%s",
		       snapshot->source);
	return 0;
}

static int resolve(struct server *s, const struct wish *w,
		   struct env_info *info, struct diag *diag)
{
	_cleanup_diag_ struct diag near = {0};
	int r;

	if (w->snapshot[0])
		r = oid_from_hex(w->snapshot, &info->snapshot);
	else
		r = store_resolve(s->store, w->ref, &near, &info->snapshot);
	if (r == 0)
		r = store_snapshot(s->store, &info->snapshot, take_source,
				   info);
	if (r == 0)
		return 0;
	if (r == -ENOENT || r == -EINVAL)
		diag_add(diag, "%s: unknown environment or snapshot", w->ref);
	else if (r != -ENOTUNIQ || near.count == 0)
		diag_add(diag, "%s: %s", w->ref, err_text(r));
	for (size_t i = 0; i < near.count; i++)
		diag_add(diag, "%s", diag_line(&near, i));
	return CODE_FAILED;
}

/* Writes the part of a made-up name before the number. */
static void make_stem(const struct env_info *info, const char *ref,
		      bool ref_is_path, char ret_stem[STEM_BYTES])
{
	const char *from = strrchr(info->source, '/');
	size_t n = 0;

	from = !ref_is_path && from && from[1] ? from + 1 : ref;
	for (; *from && *from != ':' && n < STEM_BYTES - 1; from++) {
		char c[2] = {*from, '\0'};
		char test[3] = {'a', *from, '\0'};

		/* The first byte has the narrower rule. */
		if (n == 0 ? name_is_label(c) : name_is_label(test))
			ret_stem[n++] = *from;
		else if (n > 0)
			ret_stem[n++] = '-';
	}
	ret_stem[n] = '\0';
	if (n == 0)
		(void)snprintf(ret_stem, STEM_BYTES, "env");
}

/* Acquires a name and makes its folder. Returns a code or -EEXIST. */
static int create_named(struct server *s, const char *name, unsigned wait_ms,
			const struct env_info *info,
			struct envs_entry **ret_entry)
{
	struct envs_entry *entry;
	int r = envs_acquire(s->envs, name, wait_ms, &entry);

	if (r < 0)
		return r;
	r = env_create(s->store, name, info);
	if (r < 0) {
		envs_release(entry);
		return r;
	}
	*ret_entry = entry;
	return 0;
}

static int create_numbered(struct server *s, const struct wish *w,
			   const struct env_info *info,
			   struct envs_entry **ret_entry)
{
	char name[NAME_MAX_LABEL + 1];
	char stem[STEM_BYTES];

	make_stem(info, w->ref, w->snapshot[0], stem);
	for (unsigned i = 1; i <= NAME_TRIES; i++) {
		int r;

		(void)snprintf(name, sizeof name, "%s-%u", stem, i);
		if (handlers_env_exists(s, name))
			continue;
		/* Not waiting: a name in work is as good as taken. */
		r = create_named(s, name, 0, info, ret_entry);
		if (r != -EEXIST && r != -ETIMEDOUT)
			return r;
	}
	return -EEXIST;
}

static int fail_create(const struct wish *w, int err, struct diag *diag)
{
	if (err == -ESHUTDOWN)
		return err;
	if (err == -EEXIST && w->name[0])
		diag_add(diag, "%s: environment exists", w->name);
	else
		diag_add(diag, "%s: cannot make an environment: %s",
			 w->name[0] ? w->name : w->ref, err_text(err));
	if (err == -ENOSPC || err == -EDQUOT)
		diag_add(diag, "make room on the disk of the store; \"cowfs "
			       "df\" tells what is not needed");
	if (err == -EEXIST && w->name[0])
		diag_add(diag, "cowfs mount %s mounts it", w->name);
	return CODE_FAILED;
}

/* Makes the folder of a new environment. From the look at the snapshot until
 * the folder is there nothing else keeps it from gc. */
static int make_new(struct server *s, const struct wish *w,
		    struct env_info *info, struct envs_entry **ret_entry,
		    struct diag *diag)
{
	enum { WAIT_MS = 20000 };
	_cleanup_close_ int pin = -1;
	int r = store_pin(s->store, &pin);

	if (r < 0)
		return fail_create(w, r, diag);
	r = resolve(s, w, info, diag);
	if (r)
		return r;
	r = w->name[0] ? create_named(s, w->name, WAIT_MS, info, ret_entry)
		       : create_numbered(s, w, info, ret_entry);
	return r < 0 ? fail_create(w, r, diag) : CODE_DONE;
}

static int mount_new(struct server *s, const struct wish *w, struct msg *done,
		     struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	char name[NAME_MAX_LABEL + 1];
	struct envs_entry *entry = NULL;
	int r;

	if (!info)
		return -ENOMEM;
	(void)snprintf(info->ref, sizeof info->ref, "%s", w->ref);
	(void)snprintf(info->at, sizeof info->at, "%s", w->at);
	info->created_sec = clock_now().tv_sec;
	limits_merge(&w->limits, &info->limits);
	publish_merge(&w->ports, info);
	r = make_new(s, w, info, &entry, diag);
	if (r)
		return r;
	if (info->ports.count || info->net == ENV_NET_HOST)
		r = publish_lease(s, entry->name, info, diag);
	if (r == 0)
		r = mount_open(s, entry, info, w->flags, diag);
	if (r && (leases_drop(s->leases, entry->name) < 0 ||
		  env_remove(s->store, entry->name) < 0))
		log_error("%s: cannot be removed again", entry->name);
	if (r)
		(void)!worker_add(s->worker, umount_empty_trash, s, NULL);
	(void)snprintf(name, sizeof name, "%.64s", entry->name);
	envs_release(entry);
	return r ? r : answer_mounted(s, name, done);
}

int mount_handle(struct server *s, const struct ctl_peer *peer,
		 const struct msg *request, struct msg *done, struct diag *diag)
{
	_cleanup_free_ struct wish *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	r = read_wish(request, w, diag);
	if (r == 0)
		r = check_namespace(peer, diag);
	if (r)
		return r;
	if (!w->name[0] && !w->snapshot[0] && name_is_label(w->ref) &&
	    handlers_env_exists(s, w->ref))
		return mount_existing(s, w, done, diag);
	return mount_new(s, w, done, diag);
}
