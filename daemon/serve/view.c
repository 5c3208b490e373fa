/* SPDX-License-Identifier: MIT */
/*
 * How: a kept environment, or a snapshot, is opened for reading only, mounted
 * below mnt/ under a hidden name, for the owner of the store alone, and served
 * for as long as the client keeps its connection: the thread of that
 * connection waits for its end. So a client that is killed leaves nothing.
 *
 * An environment stays as it is meanwhile: who wants to change it needs it
 * alone (env_open).
 *
 * A place in the registry, under the hidden name, tells the server that it is
 * not idle.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "fuse/session.h"

enum {
	END_WAIT_MS = 2000,
	WHAT_BYTES = 256,
};

struct view {
	struct server *s;
	struct env *env;
	struct session *session;
	struct envs_entry *place;
	struct keeper_reply *reply; /* of the mount: where it is */
	uint32_t keeper_id;
	bool mounted;
};

static void on_end(void *ctx)
{
	(void)ctx;
}

static int take_place(struct view *v)
{
	static unsigned counter;
	char name[NAME_MAX_LABEL + 1];

	(void)snprintf(name, sizeof name, ".view-%u",
		       __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED));
	return envs_acquire(v->s->envs, name, 0, &v->place);
}

/* --- what to show -------------------------------------------------------- */

static int open_env(struct view *v, const struct msg *request,
		    struct diag *diag)
{
	struct envs_entry *entry;
	int r = handlers_acquire(v->s, request, diag, &entry);

	if (r)
		return r;
	if (entry->mount.state != ENVS_NONE) {
		diag_add(diag, "%s: busy: it is mounted", entry->name);
		r = CODE_BUSY;
	} else {
		r = env_open(v->s->store, entry->name, ENV_READ_ONLY, diag,
			     &v->env);
	}
	if (r < 0) {
		diag_add(diag, "%s: cannot open: %s", entry->name, err_text(r));
		r = r == -EBUSY ? CODE_BUSY : CODE_FAILED;
	}
	envs_release(entry);
	return r;
}

static int open_snapshot(struct view *v, const struct msg *request,
			 struct diag *diag)
{
	char what[WHAT_BYTES];
	struct oid id;
	int r = msg_get_str(request, CTL_TAG_SNAPSHOT, what, sizeof what);

	if (r < 0) {
		diag_add(diag, "not a name of a snapshot");
		return CODE_USAGE;
	}
	/* One that only environments or rescues need has no record. */
	if (oid_from_hex(what, &id) < 0)
		r = store_resolve(v->s->store, what, diag, &id);
	if (r == 0)
		r = env_open_snapshot(v->s->store, &id, &v->env);
	if (r == -ENOENT)
		diag_add(diag, "%s: unknown environment or snapshot", what);
	else if (r < 0)
		diag_add(diag, "%s: %s", what, err_text(r));
	return r < 0 ? CODE_FAILED : CODE_DONE;
}

static int open_what(struct view *v, const struct msg *request,
		     struct diag *diag)
{
	size_t n;

	return msg_get(request, CTL_TAG_SNAPSHOT, 0, &n)
		       ? open_snapshot(v, request, diag)
		       : open_env(v, request, diag);
}

/* --- mounting ------------------------------------------------------------ */

static int mount_it(struct view *v, struct diag *diag)
{
	struct keeper_request q = {.op = KEEPER_MOUNT,
				   .flags = KEEPER_FLAG_READ_ONLY |
					    KEEPER_FLAG_PRIVATE};
	int fd = -1;
	int r;

	(void)snprintf(q.path, sizeof q.path, "%s/mnt/%s", v->s->path,
		       v->place->name);
	r = link_call(v->s->link, &q, v->reply, &fd);
	if (r == 0) {
		v->keeper_id = q.id;
		v->mounted = true;
		r = session_start(v->env, fd, NULL, on_end, NULL, &v->session);
	}
	if (r == 0)
		return CODE_DONE;
	if (v->reply->text_len > 0 && !v->mounted)
		diag_add(diag, "%s: %.*s", q.path, (int)v->reply->text_len,
			 v->reply->text);
	else
		diag_add(diag, "%s: cannot mount: %s", q.path, err_text(r));
	return CODE_FAILED;
}

static void unmount_it(struct view *v)
{
	struct keeper_request q = {.op = KEEPER_UMOUNT,
				   .flags = KEEPER_FLAG_DETACH |
					    KEEPER_FLAG_REMOVE,
				   .mount = v->keeper_id,
				   .major = v->reply->major,
				   .minor = v->reply->minor};

	(void)snprintf(q.path, sizeof q.path, "%s", v->reply->path);
	if (link_call(v->s->link, &q, v->reply, NULL) < 0)
		log_warn("view: %s cannot be unmounted", q.path);
	link_forget(v->s->link, v->keeper_id);
}

static void view_fini(struct view *v)
{
	if (v->mounted)
		unmount_it(v);
	if (v->session && session_wait_end(v->session, END_WAIT_MS) < 0) {
		/* Nobody gets in any more, but somebody is still there; both
		 * live on until the server ends. */
		log_warn("view: still used after its end");
		__atomic_store_n(&v->s->held, true, __ATOMIC_SEQ_CST);
		v->session = NULL;
		v->env = NULL;
	}
	session_free(v->session);
	env_close(v->env);
	if (v->place)
		envs_release(v->place);
	free(v->reply);
}

/* Waits for the client's end, or its next word. */
static void wait_client(const struct ctl_peer *peer)
{
	struct pollfd p = {.fd = peer->fd, .events = POLLIN | POLLRDHUP};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static int show(struct view *v, const struct ctl_peer *peer)
{
	_cleanup_msg_ struct msg row = {0};
	int r;

	msg_begin(&row, CTL_ROW);
	msg_put_str(&row, CTL_TAG_PATH, v->reply->path);
	r = ctl_send_row(peer, &row);
	if (r == 0)
		wait_client(peer);
	return r < 0 ? r : CODE_DONE;
}

int view_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag)
{
	_cleanup_(view_fini) struct view v = {
		.s = s, .reply = calloc(1, sizeof *v.reply)};
	int r = v.reply ? take_place(&v) : -ENOMEM;

	if (r == 0)
		r = open_what(&v, request, diag);
	if (r == 0)
		r = mount_it(&v, diag);
	return r ? r : show(&v, peer);
}
