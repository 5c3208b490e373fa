/* SPDX-License-Identifier: MIT */
/*
 * How, in this order: unmount, wait until the connection has ended, and only
 * then look at the delta and decide. Before the end somebody could still
 * write; umount(2) returning 0 is no proof, since a copy of the mount in
 * another mount name space keeps the connection alive. Such an environment
 * stays served ("dead": no path, but alive elsewhere), and the next umount
 * waits for its end again.
 *
 * Without changes it is thrown away. With changes it is kept, and the client
 * is told: it has it rescued (rescue.c) and comes again with the rescue's name.
 * Nothing else destroys changes but an explicit "discard".
 *
 * Throwing away is one rename into the trash; closing and deleting happen in
 * the background.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fuse/session.h"

enum {
	LAST_WAIT_MS = 500, /* at SIGTERM */
	ACQUIRE_MS = 5000,
};

/* What a request asks for. */
struct wish {
	uint64_t flags;
	bool rescued;
	pid_t asker;
	const struct msg *request;
	struct msg *done;
};

/* --- talking to the keeper --------------------------------------------- */

static int ask(struct server *s, const struct envs_entry *entry, uint32_t op,
	       uint32_t flags, struct keeper_reply *reply)
{
	const struct envs_mount *m = &entry->mount;
	struct keeper_request q = {.op = op,
				   .flags = flags,
				   .mount = m->keeper_id,
				   .major = m->major,
				   .minor = m->minor};

	if (m->remove)
		q.flags |= KEEPER_FLAG_REMOVE;
	(void)snprintf(q.path, sizeof q.path, "%s", m->real);
	return link_call(s->link, &q, reply, NULL);
}

static void add_lines(struct diag *diag, const struct keeper_reply *reply)
{
	const char *p = reply->text;
	size_t left = reply->text_len;

	while (left > 0) {
		const char *end = memchr(p, '\n', left);
		size_t n = end ? (size_t)(end - p) : left;

		diag_add(diag, "%.*s", (int)n, p);
		n += end ? 1 : 0;
		p += n;
		left -= n;
	}
}

static void set_detached(struct envs_entry *entry)
{
	struct envs_mount *m = malloc(sizeof *m);

	if (!m)
		return; /* the state stays "mounted": tried again next time */
	*m = entry->mount;
	m->state = ENVS_DETACHED;
	m->path[0] = '\0';
	envs_publish(entry, m);
	free(m);
}

static int unmount(struct server *s, struct envs_entry *entry,
		   struct keeper_reply *reply, struct diag *diag)
{
	int r = ask(s, entry, KEEPER_UMOUNT, 0, reply);

	if (r == -EBUSY) {
		diag_add(diag, "%s: busy", entry->name);
		add_lines(diag, reply);
		return CODE_BUSY;
	}
	if (r < 0) {
		diag_add(diag, "%s: cannot unmount: %s", entry->name,
			 err_text(r));
		add_lines(diag, reply);
		return r == -ETIMEDOUT ? CODE_BUSY : CODE_FAILED;
	}
	set_detached(entry);
	return 0;
}

/* Waits for the end of the connection; names who keeps it. */
static int wait_end(struct server *s, struct envs_entry *entry,
		    unsigned wait_ms, struct keeper_reply *reply,
		    struct diag *diag)
{
	if (session_wait_end(entry->mount.session, wait_ms) == 0)
		return 0;
	diag_add(diag, "%s: busy: unmounted here, but still used elsewhere",
		 entry->name);
	if (ask(s, entry, KEEPER_USERS, 0, reply) == 0)
		add_lines(diag, reply);
	return CODE_BUSY;
}

/* Takes the environment out of an entry whose connection has ended. */
static struct env *take_env(struct server *s, struct envs_entry *entry)
{
	struct env *env = entry->mount.env;

	session_free(entry->mount.session);
	tend_remove(s->tend, env);
	link_forget(s->link, entry->mount.keeper_id);
	envs_clear(entry);
	return env;
}

/* --- deciding ----------------------------------------------------------- */

void umount_empty_trash(void *ctx, void *arg)
{
	struct server *s = ctx;
	int r = env_empty_trash(s->store);

	if (r < 0)
		log_warn("trash: %s", err_text(r));
}

static void close_and_empty(void *ctx, void *arg)
{
	env_close(arg);
	umount_empty_trash(ctx, NULL);
}

void umount_close(struct server *s, struct env *env)
{
	if (worker_add(s->worker, close_and_empty, s, env) < 0)
		close_and_empty(s, env);
}

/* env may be NULL: it is not open. */
static int throw_away(struct server *s, const char *name, struct env *env,
		      struct diag *diag)
{
	int r = leases_drop(s->leases, name);

	/* A table that cannot be written is no reason to stay: the next server
	 * frees it. */
	if (r < 0)
		log_warn("%s: its leases: %s", name, err_text(r));
	r = env_remove(s->store, name);
	if (r < 0) {
		env_close(env);
		diag_add(diag, "%s: cannot be removed: %s", name, err_text(r));
		return CODE_FAILED;
	}
	umount_close(s, env);
	return CODE_DONE;
}

/* Closes one that is kept: what it has is on stable storage then. */
static void close_kept(const char *name, struct env *env)
{
	int r = env_close_kept(env);

	if (r < 0)
		log_error("%s: kept, but its last commit failed: %s", name,
			  err_text(r));
}

/* Discards, and says what that was. */
static int discard(struct server *s, const char *name, struct env *env,
		   struct diag *diag)
{
	_cleanup_diag_ struct diag said = {0};
	const char *line;
	int code;

	changes_say(env, name, &said);
	code = throw_away(s, name, env, diag);
	line = diag_line(&said, 0);
	if (!code && line)
		diag_add(diag, "%s", line);
	return code;
}

/* What becomes of an environment that nobody uses any more; owns env. With
 * changes it is kept, and the client, who is told, sees to a rescue. */
static int decide(struct server *s, const char *name, struct env *env,
		  const struct wish *w, struct diag *diag)
{
	struct changes c = {0};
	int r;

	if (w->flags & CTL_FLAG_DISCARD)
		return discard(s, name, env, diag);
	if (w->flags & CTL_FLAG_KEEP) {
		close_kept(name, env);
		return CODE_DONE;
	}
	r = changes_count(env, &c);
	if (r == 0 && c.paths == 0)
		return throw_away(s, name, env, diag);
	close_kept(name, env);
	if (r < 0) {
		diag_add(diag, "%s: its changes cannot be read: %s; kept", name,
			 err_text(r));
		return CODE_FAILED;
	}
	msg_put_u64(w->done, CTL_TAG_COUNT, c.paths);
	return CODE_DONE;
}

static void put_freed(const char *path, struct msg *done)
{
	_cleanup_buf_ struct buf text = {0};

	buf_printf(&text, "mount %s", path);
	if (done && buf_str(&text))
		msg_put_str(done, CTL_TAG_FREED, buf_str(&text));
}

int umount_end(struct server *s, struct envs_entry *entry, unsigned wait_ms,
	       struct diag *diag, struct env **ret_env)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	int r = reply ? 0 : -ENOMEM;

	if (r == 0 && entry->mount.state == ENVS_MOUNTED)
		r = unmount(s, entry, reply, diag);
	if (r == 0)
		r = wait_end(s, entry, wait_ms, reply, diag);
	if (r == 0)
		*ret_env = take_env(s, entry);
	return r;
}

static int umount_mounted(struct server *s, struct envs_entry *entry,
			  const struct wish *w, struct diag *diag)
{
	_cleanup_free_ char *real = strdup(entry->mount.real);
	/* Whoever has lost its processes is cleaning up. */
	const unsigned wait_ms =
		w->flags & CTL_FLAG_KILL ? UMOUNT_KILL_MS : UMOUNT_WAIT_MS;
	struct env *env;
	int r = real ? umount_end(s, entry, wait_ms, diag, &env) : -ENOMEM;

	if (r)
		return r;
	put_freed(real, w->done);
	return decide(s, entry->name, env, w, diag);
}

static int umount_kept(struct server *s, const char *name, const struct wish *w,
		       struct diag *diag)
{
	_cleanup_diag_ struct diag why = {0};
	struct env *env = NULL;
	int r;

	if (w->flags & CTL_FLAG_KEEP)
		return CODE_DONE;
	r = env_open(s->store, name, ENV_READ_ONLY, &why, &env);
	if (r < 0 && !(w->flags & CTL_FLAG_DISCARD)) {
		diag_add(diag, "%s: cannot open: %s; kept", name,
			 diag_line(&why, 0) ? diag_line(&why, 0) : err_text(r));
		return CODE_FAILED;
	}
	return decide(s, name, env, w, diag);
}

/* A kept environment whose rescue is there. */
static int umount_rescued(struct server *s, struct envs_entry *entry,
			  const struct wish *w, struct diag *diag)
{
	int r = CODE_BUSY;

	if (entry->mount.state != ENVS_NONE)
		diag_add(diag, "%s: busy: it was mounted again", entry->name);
	else
		r = rescue_check(s, entry->name, w->request, diag);
	return r ? r : throw_away(s, entry->name, NULL, diag);
}

/* --- a dry run ----------------------------------------------------------- */

static int check_users(struct server *s, struct envs_entry *entry,
		       const struct wish *w, struct diag *diag)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	int r;

	if (!reply)
		return -ENOMEM;
	if (boxes_others(s, entry, reply) < 0)
		return 0;
	if (w->flags & CTL_FLAG_KILL) {
		r = outside_would_end(entry, w->asker, reply, diag);
		if (r < 0)
			return r;
	}
	if (reply->text_len == 0)
		return 0;
	diag_add(diag, "%s: busy", entry->name);
	add_lines(diag, reply);
	return CODE_BUSY;
}

static int count_of(struct server *s, struct envs_entry *entry,
		    struct diag *diag, struct changes *ret)
{
	struct env *env = entry->mount.env;
	int r;

	if (entry->mount.state != ENVS_NONE)
		return changes_count(env, ret);
	r = env_open(s->store, entry->name, ENV_READ_ONLY, diag, &env);
	if (r < 0)
		return r;
	r = changes_count(env, ret);
	env_close(env);
	return r;
}

static int dry_run(struct server *s, struct envs_entry *entry,
		   const struct wish *w, struct diag *diag)
{
	bool mounted = entry->mount.state != ENVS_NONE;
	static const char rescued[] = "rescued and removed";
	const char *what = rescued;
	struct changes c = {0};
	int r = mounted ? check_users(s, entry, w, diag) : 0;

	if (r)
		return r;
	r = count_of(s, entry, diag, &c);
	if (r < 0) {
		diag_add(diag, "%s: %s", entry->name, err_text(r));
		return CODE_FAILED;
	}
	if (w->flags & CTL_FLAG_DISCARD)
		what = "thrown away";
	else if (w->flags & CTL_FLAG_KEEP)
		what = "kept";
	else if (c.paths == 0)
		what = "removed";
	diag_add(diag,
		 "%s: %llu changed path%s, %llu bytes, would be %s%s",
		 entry->name, (unsigned long long)c.paths,
		 c.paths == 1 ? "" : "s", (unsigned long long)c.bytes,
		 mounted ? what == rescued ? "unmounted, " : "unmounted and "
			: "",
		 what);
	return CODE_DONE;
}

/* --- the request --------------------------------------------------------- */

static int umount_env(struct server *s, struct envs_entry *entry,
		      const struct wish *w, struct diag *diag)
{
	if (w->rescued)
		return umount_rescued(s, entry, w, diag);
	if (entry->mount.state != ENVS_NONE)
		return umount_mounted(s, entry, w, diag);
	return umount_kept(s, entry->name, w, diag);
}

static int end_and_umount(struct server *s, struct envs_entry *entry,
			  const struct wish *w, struct diag *ended,
			  struct diag *diag)
{
	struct env *home = NULL;
	bool checked;
	int r = boxes_end(s, entry, w->done, diag, &checked);

	if (r == 0 && (w->flags & CTL_FLAG_KILL))
		r = homes_kill(s, entry, w->asker, w->done, ended);
	if (r == 0)
		r = homes_end(s, entry, checked, diag, &home);
	if (r == 0)
		r = umount_env(s, entry, w, diag);
	homes_close(s, entry->name, home);
	return r;
}

static int umount_acquired(struct server *s, struct envs_entry *entry,
			   const struct wish *w, struct diag *diag)
{
	_cleanup_diag_ struct diag ended = {0};
	const char *line;
	int r = 0;

	if (entry->mount.state != ENVS_NONE &&
	    session_wait_end(entry->mount.session, 0) == 0)
		umount_reap(s, entry);
	if (w->flags & CTL_FLAG_DRY_RUN)
		return dry_run(s, entry, w, diag);
	if (w->flags & CTL_FLAG_KILL)
		r = outside_end(s, entry, w->asker, w->done, &ended);
	if (r == 0)
		r = end_and_umount(s, entry, w, &ended, diag);
	/* What failed comes first. */
	for (size_t i = 0; (line = diag_line(&ended, i)); i++)
		diag_add(diag, "%s", line);
	return r;
}

int umount_keep(struct server *s, struct envs_entry *entry, struct diag *diag)
{
	const struct wish w = {.flags = CTL_FLAG_KEEP};

	return umount_acquired(s, entry, &w, diag);
}

int umount_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag)
{
	struct wish w = {.flags = msg_get_u64(request, CTL_TAG_FLAGS, 0),
			 .request = request,
			 .asker = peer->pid,
			 .done = done};
	struct envs_entry *entry;
	size_t n;
	int r = handlers_acquire(s, request, diag, &entry);

	if (r)
		return r;
	w.rescued = msg_get(request, CTL_TAG_RESCUE, 0, &n);
	r = umount_acquired(s, entry, &w, diag);
	envs_release(entry);
	return r;
}

/* --- ends that nobody asked for ------------------------------------------ */

void umount_reap(struct server *s, struct envs_entry *entry)
{
	struct keeper_reply *reply = calloc(1, sizeof *reply);

	/* The dead mount may still stand there; nothing is lost with it. */
	if (reply && entry->mount.state == ENVS_MOUNTED)
		(void)!ask(s, entry, KEEPER_UMOUNT, KEEPER_FLAG_DETACH, reply);
	free(reply);
	log_info("%s: its connection ended; kept", entry->name);
	close_kept(entry->name, take_env(s, entry));
	if (name_is_label(entry->name))
		homes_drop(s, entry);
}

static void reap_by_name(void *ctx, void *arg)
{
	_cleanup_free_ char *name = arg;
	struct envs_entry *entry;

	if (envs_acquire(((struct server *)ctx)->envs, name, ACQUIRE_MS,
			 &entry) < 0)
		return;
	if (entry->mount.state != ENVS_NONE &&
	    session_wait_end(entry->mount.session, 0) == 0)
		umount_reap(ctx, entry);
	envs_release(entry);
}

void umount_on_end(void *ctx)
{
	struct umount_watch *watch = ctx;
	char *name = NULL;

	/* An operation that has the entry takes care of it. */
	if (envs_is_resting(watch->entry))
		name = strdup(watch->entry->name);
	/* Not here when out of memory: this is the session's own thread. The
	 * next operation on the environment finds its end. */
	if (!name || worker_add(watch->server->worker, reap_by_name,
				watch->server, name) < 0)
		free(name);
	free(watch);
}

static void keep_one(struct server *s, const char *name)
{
	struct keeper_reply *reply = calloc(1, sizeof *reply);
	struct envs_entry *entry;

	if (!reply || envs_acquire(s->envs, name, ACQUIRE_MS, &entry) < 0) {
		free(reply);
		return;
	}
	if (name_is_label(name))
		boxes_end_last(s, name);
	if (entry->mount.state == ENVS_MOUNTED &&
	    ask(s, entry, KEEPER_UMOUNT, 0, reply) < 0) {
		log_warn("%s: busy, detached and kept", name);
		(void)!ask(s, entry, KEEPER_UMOUNT, KEEPER_FLAG_DETACH, reply);
	}
	/* Whoever still holds it loses the connection when we exit; what was
	 * acknowledged is in the journal. */
	if (entry->mount.state != ENVS_NONE &&
	    session_wait_end(entry->mount.session, LAST_WAIT_MS) == 0)
		close_kept(name, take_env(s, entry));
	else if (entry->mount.state != ENVS_NONE &&
		 env_sync(entry->mount.env) < 0)
		log_error("%s: its last commit failed", name);
	envs_release(entry);
	free(reply);
}

/* Environments first: with them their sandboxes end, which use the HOMEs. */
void umount_keep_all(struct server *s)
{
	_cleanup_buf_ struct buf names = {0};

	envs_names(s->envs, &names);
	for (int homes = 0; homes < 2; homes++) {
		for (size_t i = 0; i < names.len;) {
			const char *name = (const char *)names.data + i;

			i += strlen(name) + 1;
			if (name_is_label(name) == !homes)
				keep_one(s, name);
		}
	}
}
