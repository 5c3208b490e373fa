/* SPDX-License-Identifier: MIT */
/*
 * How: the store's part of a rescue. A kept environment is frozen to a
 * snapshot (env/freeze.h), which is on stable storage and read back; then a
 * record makes it a root. Only with that record, and only while the
 * environment is still in the state that it is of, does `umount` destroy
 * anything (rescue_check). The origin's part is written by the command in
 * between: the record has the name of its ref from the beginning, and the
 * commit when it is known to be there.
 *
 * Restoring makes an environment that stands on the rescue's snapshot: one
 * folder with one file, whatever the size.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "env/freeze.h"
#include "store/rescues.h"

enum {
	STEM_BYTES = 44, /* of an environment's name, in a rescue's */
	NAME_TRIES = 100,
	RECORD_BYTES = 96, /* of a name, which is a label */
	REF_BYTES = 128,
	COMMIT_BYTES = 128,
};

#define REF_PREFIX "refs/cowfs/rescue/"

/* What a rescue is made from. */
struct making {
	struct server *s;
	const struct ctl_peer *peer;
	const char *env;
	struct env_info info;
	struct env_mark mark;
	struct buf left;  /* the list of the record */
	struct buf paths; /* to leave out, for the freeze */
	struct freeze_result frozen;
	uint64_t files;
	char git_dir[RESCUE_TEXT_MAX + 1];
	char name[RECORD_BYTES];
	char ref[REF_BYTES];
};

static void making_fini(struct making *m)
{
	freeze_fini(&m->frozen);
	buf_fini(&m->left);
	buf_fini(&m->paths);
}

static void making_freep(struct making **m)
{
	if (*m)
		making_fini(*m);
	free(*m);
}

/* --- the request --------------------------------------------------------- */

/* Takes the list of what to leave out, and its paths. */
static int read_left(struct making *m, const struct msg *request)
{
	struct rescue_left one;
	struct bytes in;
	size_t n = 0;
	const uint8_t *list = msg_get(request, CTL_TAG_LEFT, 0, &n);

	if (!list)
		return 0;
	in = bytes_of(list, n);
	while (rescue_left_next(&in, &one)) {
		size_t len = one.path_len;

		while (len > 0 && one.path[len - 1] == '/')
			len--;
		if (!len)
			return -EPROTO;
		buf_put(&m->paths, one.path, len);
		buf_put_u8(&m->paths, 0);
	}
	if (in.bad || n > RESCUE_LEFT_MAX)
		return -EPROTO;
	buf_put(&m->left, list, n);
	return buf_error(&m->paths) < 0 ? -ENOMEM : buf_error(&m->left);
}

static void add_sockets(struct making *m)
{
	const struct buf *list = &m->frozen.sockets;

	for (size_t i = 0; i < list->len;) {
		const char *path = (const char *)list->data + i;
		size_t n = strlen(path);

		/* What finds no room was no file with content. */
		if (m->left.len + n + 32 <= RESCUE_LEFT_MAX &&
		    n <= RESCUE_TEXT_MAX)
			rescue_left_put(&m->left, &(struct rescue_left){
							  .why = RESCUE_SOCKET,
							  .path = path,
							  .path_len = n,
							  .files = 1});
		i += n + 1;
	}
}

/* --- names --------------------------------------------------------------- */

/* A part of a ref must not have "..". */
static void make_stem(const char *env, char ret_stem[STEM_BYTES + 1])
{
	size_t n = 0;

	for (; env[n] && n < STEM_BYTES; n++)
		ret_stem[n] = n && env[n] == '.' && ret_stem[n - 1] == '.'
				      ? '_'
				      : env[n];
	ret_stem[n] = '\0';
}

static int take_git_dir(void *ctx, const struct snapshot_info *snapshot)
{
	struct making *m = ctx;

	(void)snprintf(m->git_dir, sizeof m->git_dir, "%s", snapshot->git_dir);
	return 0;
}

static void fill(const struct making *m, int64_t now, struct rescue *ret)
{
	*ret = (struct rescue){
		.name = m->name,
		.env = m->env,
		.ref = m->info.ref,
		.source = m->info.source,
		.git_dir = m->git_dir,
		.git_ref = m->ref,
		.git_commit = "",
		.time_sec = now,
		.snapshot = m->frozen.snapshot,
		.base = m->info.snapshot,
		.salt = m->mark.salt,
		.frames = m->mark.frames,
		.files = m->files,
		.bytes = m->frozen.bytes,
		.left = m->left.data,
		.left_len = m->left.len,
	};
}

/* Sets the record under the first name that is free. */
static int put_record(struct making *m)
{
	const struct timespec now = clock_now();
	char stem[STEM_BYTES + 1];
	struct rescue one;
	char when[20];
	struct tm tm;
	int r = -EEXIST;

	make_stem(m->env, stem);
	if (!gmtime_r(&now.tv_sec, &tm) ||
	    !strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &tm))
		return -EOVERFLOW;
	for (unsigned i = 1; r == -EEXIST && i <= NAME_TRIES; i++) {
		char more[8] = "";

		if (i > 1)
			(void)snprintf(more, sizeof more, "-%u", i % 1000);
		(void)snprintf(m->name, sizeof m->name, "%s-%s%s", stem, when,
			       more);
		if (m->git_dir[0])
			(void)snprintf(m->ref, sizeof m->ref, REF_PREFIX "%s",
				       m->name);
		fill(m, now.tv_sec, &one);
		r = store_rescue_put(m->s->store, &one, true);
	}
	return r;
}

/* --- freezing ------------------------------------------------------------ */

/* The client gathers the origin's part meanwhile. */
static int tell_base(const struct making *m)
{
	_cleanup_msg_ struct msg row = {0};
	char hex[OID_HEX + 1];

	oid_to_hex(&m->info.snapshot, hex);
	msg_begin(&row, CTL_ROW);
	msg_put_str(&row, CTL_TAG_SNAPSHOT, hex);
	msg_put_str(&row, CTL_TAG_GIT_DIR, m->git_dir);
	return ctl_send_row(m->peer, &row);
}

static int freeze_open(struct making *m, struct env *env, struct diag *diag)
{
	int r;

	env_get_mark(env, &m->mark);
	r = env_read_info(m->s->store, m->env, &m->info);
	if (r == 0)
		r = store_snapshot(m->s->store, &m->info.snapshot, take_git_dir,
				   m);
	if (r == 0 || r == -ENOENT)
		r = tell_base(m);
	if (r == 0)
		r = env_freeze(env, &m->paths, diag, &m->frozen);
	if (r == 0) {
		add_sockets(m);
		r = put_record(m);
	}
	return r;
}

static int freeze_acquired(struct making *m, struct envs_entry *entry,
			   struct diag *diag)
{
	struct env *env = NULL;
	int r;

	m->env = entry->name;
	if (entry->mount.state != ENVS_NONE) {
		diag_add(diag, "%s: busy: it is mounted", entry->name);
		return CODE_BUSY;
	}
	r = env_open(m->s->store, entry->name, ENV_READ_ONLY, diag, &env);
	if (r == 0)
		r = freeze_open(m, env, diag);
	env_close(env);
	if (r == 0)
		return CODE_DONE;
	/* One line: whatever it was, this is what follows from it. */
	if (diag_line(diag, 0))
		diag_add(diag, "%s is kept as it is", entry->name);
	else
		diag_add(diag, "%s: cannot be rescued, and is kept: %s",
			 entry->name, err_text(r));
	return r == -EBUSY ? CODE_BUSY : CODE_FAILED;
}

static int freeze_answer(const struct making *m, struct msg *done)
{
	msg_put_str(done, CTL_TAG_RESCUE, m->name);
	msg_put_str(done, CTL_TAG_GIT_REF, m->ref);
	msg_put(done, CTL_TAG_LEFT, m->left.data, m->left.len);
	log_info("%s: rescued as %s", m->env, m->name);
	return CODE_DONE;
}

int freeze_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag)
{
	_cleanup_(making_freep) struct making *m = calloc(1, sizeof *m);
	struct envs_entry *entry;
	int r;

	if (!m)
		return -ENOMEM;
	m->s = s;
	m->peer = peer;
	m->frozen.pin = -1;
	m->files = msg_get_u64(request, CTL_TAG_COUNT, 0);
	r = read_left(m, request);
	if (r == 0)
		r = handlers_acquire(s, request, diag, &entry);
	if (r)
		return r;
	r = freeze_acquired(m, entry, diag);
	if (r == CODE_DONE)
		r = freeze_answer(m, done);
	envs_release(entry);
	return r;
}

/* --- before anything is destroyed ---------------------------------------- */

struct checking {
	struct server *s;
	const char *env;
	struct oid snapshot;
	struct env_mark mark;
	const char *commit; /* in the origin's repository; "": none */
};

/* 1: the rescue is another state's. */
static int check_record(void *ctx, const struct rescue *found)
{
	const struct checking *c = ctx;
	struct rescue one = *found;

	if (strcmp(one.env, c->env) != 0 ||
	    !oid_equal(&one.base, &c->snapshot) || one.salt != c->mark.salt ||
	    one.frames != c->mark.frames)
		return 1;
	if (!one.git_ref[0])
		return 0;
	one.git_commit = c->commit;
	if (!c->commit[0])
		one.git_ref = "";
	return store_rescue_put(c->s->store, &one, false);
}

int rescue_check(struct server *s, const char *name, const struct msg *request,
		 struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	struct checking c = {.s = s, .env = name};
	char rescue[NAME_MAX_LABEL + 1];
	char commit[COMMIT_BYTES];
	struct env *env = NULL;
	int r;

	if (!info)
		return -ENOMEM;
	if (msg_get_str(request, CTL_TAG_RESCUE, rescue, sizeof rescue) < 0) {
		diag_add(diag, "not a name of a rescue");
		return CODE_USAGE;
	}
	if (msg_get_str(request, CTL_TAG_GIT_COMMIT, commit, sizeof commit) < 0)
		commit[0] = '\0';
	c.commit = commit;
	r = env_read_info(s->store, name, info);
	if (r == 0)
		r = env_open(s->store, name, ENV_READ_ONLY, diag, &env);
	if (r == 0) {
		c.snapshot = info->snapshot;
		env_get_mark(env, &c.mark);
		r = store_rescue(s->store, rescue, check_record, &c);
	}
	env_close(env);
	if (r == 0)
		return CODE_DONE;
	diag_add(diag, "%s: kept: %s", name,
		 r > 0 ? "it has changed since it was rescued" : err_text(r));
	return r > 0 || r == -EBUSY ? CODE_BUSY : CODE_FAILED;
}

/* --- restoring ----------------------------------------------------------- */

struct restoring {
	struct server *s;
	const char *env;
	struct snapshot_info
		base; /* what is known of the origin's repository */
	char git_head[RESCUE_TEXT_MAX + 1];
	char git_commit[COMMIT_BYTES];
	struct env_info info;
};

static int take_git(void *ctx, const struct snapshot_info *base)
{
	struct restoring *t = ctx;

	(void)snprintf(t->git_head, sizeof t->git_head, "%s", base->git_head);
	(void)snprintf(t->git_commit, sizeof t->git_commit, "%s",
		       base->git_commit);
	return 0;
}

/* The snapshot gets a record like an import's: from it one knows where the
 * environment's origin is. */
static int put_snapshot(struct restoring *t, const struct rescue *from)
{
	const struct snapshot_info info = {
		.id = from->snapshot,
		.time_sec = clock_now().tv_sec,
		.source = from->source,
		.message = from->name,
		.git_dir = from->git_dir,
		.git_head = t->git_head,
		.git_commit = t->git_commit,
	};
	struct batch *b;
	int r = batch_begin(t->s->store, &b);

	return r < 0 ? r : batch_commit(b, &info, NULL);
}

static int restore_from(void *ctx, const struct rescue *from)
{
	struct restoring *t = ctx;
	int r = store_snapshot(t->s->store, &from->base, take_git, t);

	if (r == 0 || r == -ENOENT)
		r = put_snapshot(t, from);
	if (r < 0)
		return r;
	t->info.snapshot = from->snapshot;
	t->info.created_sec = clock_now().tv_sec;
	(void)snprintf(t->info.source, sizeof t->info.source, "%s",
		       from->source);
	(void)snprintf(t->info.ref, sizeof t->info.ref, "%s", from->name);
	return env_create(t->s->store, t->env, &t->info);
}

static int restore_acquired(struct server *s, const char *env,
			    const char *rescue, struct diag *diag)
{
	_cleanup_free_ struct restoring *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->s = s;
	t->env = env;
	if (handlers_env_exists(s, env))
		r = -EEXIST;
	else
		r = store_rescue(s->store, rescue, restore_from, t);
	if (r == 0)
		return CODE_DONE;
	if (r == -EEXIST)
		diag_add(diag, "%s: environment exists", env);
	else
		diag_add(diag, "%s: %s", rescue,
			 r == -ENOENT ? "unknown rescue" : err_text(r));
	return CODE_FAILED;
}

int restore_handle(struct server *s, const struct ctl_peer *peer,
		   const struct msg *request, struct msg *done,
		   struct diag *diag)
{
	char rescue[NAME_MAX_LABEL + 1], name[NAME_MAX_LABEL + 1];
	struct envs_entry *entry;
	int r;

	if (msg_get_str(request, CTL_TAG_RESCUE, rescue, sizeof rescue) < 0 ||
	    msg_get_str(request, CTL_TAG_NAME, name, sizeof name) < 0 ||
	    !name_is_label(name)) {
		diag_add(diag, "not a name of a rescue and one of an "
			       "environment");
		return CODE_USAGE;
	}
	r = handlers_acquire_name(s, name, diag, &entry);
	if (r)
		return r;
	r = restore_acquired(s, name, rescue, diag);
	envs_release(entry);
	return r;
}
