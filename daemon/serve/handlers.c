/* SPDX-License-Identifier: MIT */
/*
 * How: a table from verb to handler. Handlers collect their words in a diag,
 * which the dispatcher turns into the LINE fields of the answer together with
 * the code; so an answer has the same form whatever failed.
 *
 * What lists environments reads STORE/envs: a kept environment is a folder and
 * nothing else.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fuse/session.h"
#include "serve/list_int.h"

enum {
	ACQUIRE_MS = 20000,
	PATH_BYTES = 128,
};

bool handlers_env_exists(struct server *s, const char *name)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof path, "envs/%s", name);
	return faccessat(store_fd(s->store), path, F_OK, AT_SYMLINK_NOFOLLOW) ==
	       0;
}

int handlers_acquire_name(struct server *s, const char *name, struct diag *diag,
			  struct envs_entry **ret_entry)
{
	int r = envs_acquire(s->envs, name, ACQUIRE_MS, ret_entry);

	if (r == -ETIMEDOUT) {
		diag_add(diag, "%s: busy: another command works on it", name);
		return CODE_BUSY;
	}
	return r;
}

int handlers_acquire(struct server *s, const struct msg *request,
		     struct diag *diag, struct envs_entry **ret_entry)
{
	char name[NAME_MAX_LABEL + 1];
	struct envs_entry *entry;
	int r = msg_get_str(request, CTL_TAG_NAME, name, sizeof name);

	if (r < 0 || !name_is_label(name)) {
		diag_add(diag, "not a name of an environment");
		return CODE_USAGE;
	}
	r = handlers_acquire_name(s, name, diag, &entry);
	if (r)
		return r;
	if (entry->mount.state == ENVS_NONE && !handlers_env_exists(s, name)) {
		envs_release(entry);
		diag_add(diag, "%s: unknown environment", name);
		return CODE_FAILED;
	}
	*ret_entry = entry;
	return 0;
}

/* --- list and show ------------------------------------------------------- */

static int put_row(struct server *s, const struct buf *leases, const char *name,
		   struct env_info *info, struct msg *m)
{
	struct envs_look look;

	envs_peek(s->envs, name, &look);
	return list_put_row(s->store, leases, name, &look, info, m);
}

static int list_handle(struct server *s, const struct ctl_peer *peer,
		       const struct msg *request, struct msg *done,
		       struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	_cleanup_buf_ struct buf names = {0}, leases = {0};
	_cleanup_msg_ struct msg row = {0};
	int r = info ? store_env_names(s->store, 0, &names) : -ENOMEM;

	if (r == -ENOENT)
		r = 0;
	if (r < 0) {
		diag_add(diag, "cannot list environments: %s", err_text(r));
		return CODE_FAILED;
	}
	/* Without them a row tells all the rest. */
	if (store_leases(s->store, &leases) < 0)
		buf_clear(&leases);
	for (size_t i = 0; i < names.len; i += NAME_MAX_LABEL + 1) {
		const char *name = (const char *)names.data + i;

		msg_begin(&row, CTL_ROW);
		/* Gone since it was listed. */
		if (put_row(s, &leases, name, info, &row) == -ENOENT)
			continue;
		r = ctl_send_row(peer, &row);
		if (r < 0)
			return r;
	}
	return CODE_DONE;
}

static int show_acquired(struct server *s, struct envs_entry *entry,
			 struct msg *done, struct diag *diag)
{
	struct env *env = entry->mount.env;
	struct session_counters count;
	struct env_stat st;
	struct env_use use;
	int r;

	if (entry->mount.state == ENVS_NONE) {
		r = env_open(s->store, entry->name, ENV_READ_ONLY, diag, &env);
		if (r < 0)
			return r;
		env_stat(env, &st);
		env_use(env, &use);
		env_close(env);
		limits_put_use(&use, done);
	} else {
		env_stat(env, &st);
		session_count(entry->mount.session, &count);
		msg_put_u64(done, CTL_TAG_REQUESTS, count.requests);
		msg_put_u64(done, CTL_TAG_READS, count.reads);
	}
	msg_put_u64(done, CTL_TAG_INODES, st.base_inodes);
	msg_put_u64(done, CTL_TAG_CHANGED, st.changed_inodes);
	msg_put_u64(done, CTL_TAG_DATA, st.data_bytes);
	msg_put_u64(done, CTL_TAG_JOURNAL, st.journal_bytes);
	msg_put_u64(done, CTL_TAG_VOLATILE, st.is_volatile);
	return 0;
}

static int put_git(void *ctx, const struct snapshot_info *snapshot)
{
	msg_put_str(ctx, CTL_TAG_GIT_DIR, snapshot->git_dir);
	msg_put_str(ctx, CTL_TAG_GIT_HEAD, snapshot->git_head);
	msg_put_str(ctx, CTL_TAG_GIT_COMMIT, snapshot->git_commit);
	return 0;
}

static int show_handle(struct server *s, const struct ctl_peer *peer,
		       const struct msg *request, struct msg *done,
		       struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	_cleanup_buf_ struct buf leases = {0};
	struct envs_entry *entry;
	int r = info ? handlers_acquire(s, request, diag, &entry) : -ENOMEM;

	if (r)
		return r;
	r = store_leases(s->store, &leases);
	if (r == 0)
		r = put_row(s, &leases, entry->name, info, done);
	/* A record that is gone says nothing; the environment is there. */
	if (r == 0)
		r = store_snapshot(s->store, &info->snapshot, put_git, done);
	if (r == 0 || r == -ENOENT)
		r = show_acquired(s, entry, done, diag);
	if (r < 0)
		diag_add(diag, "%s: cannot read: %s", entry->name, err_text(r));
	envs_release(entry);
	return r < 0 ? CODE_FAILED : CODE_DONE;
}

/* --- the server itself --------------------------------------------------- */

static int status_handle(struct server *s, const struct ctl_peer *peer,
			 const struct msg *request, struct msg *done,
			 struct diag *diag)
{
	/* Who has removed segments asks for the status to say so. */
	store_refresh(s->store);
	msg_put_u64(done, CTL_TAG_PID, (uint64_t)getpid());
	msg_put_u64(done, CTL_TAG_TIME, (uint64_t)s->started_sec);
	msg_put_u64(done, CTL_TAG_COUNT, envs_count(s->envs));
	msg_put_str(done, CTL_TAG_TEXT, COWFS_VERSION);
	return CODE_DONE;
}

static int stop_handle(struct server *s, const struct ctl_peer *peer,
		       const struct msg *request, struct msg *done,
		       struct diag *diag)
{
	uint64_t one = 1;
	size_t n;

	if (!envs_shut(s->envs)) {
		n = envs_count(s->envs);
		if (n > 0)
			diag_add(diag, "%zu environment%s mounted", n,
				 n == 1 ? " is" : "s are");
		else
			diag_add(diag, "busy: a command is at work");
		diag_add(diag, "unmount first: cowfs umount --all");
		return CODE_BUSY;
	}
	__atomic_store_n(&s->stop, true, __ATOMIC_SEQ_CST);
	(void)!write(s->events, &one, sizeof one);
	return CODE_DONE;
}

static const struct {
	const char *name;
	server_handler fn;
} handlers[] = {
	[CTL_STATUS] = {"status", status_handle},
	[CTL_MOUNT] = {"mount", mount_handle},
	[CTL_UMOUNT] = {"umount", umount_handle},
	[CTL_LIST] = {"list", list_handle},
	[CTL_SHOW] = {"show", show_handle},
	[CTL_DIFF] = {"diff", diff_handle},
	[CTL_STOP] = {"stop", stop_handle},
	[CTL_SET] = {"set", limits_handle},
	[CTL_VIEW] = {"view", view_handle},
	[CTL_FREEZE] = {"freeze", freeze_handle},
	[CTL_RESTORE] = {"restore", restore_handle},
	[CTL_PORTS] = {"ports", publish_handle},
	[CTL_SNAPSHOT] = {"snapshot", snapshot_handle},
	[CTL_HOME] = {"home", home_handle},
};

int handlers_answer(void *ctx, const struct ctl_peer *peer,
		    const struct msg *request, struct msg *done)
{
	_cleanup_diag_ struct diag diag = {0};
	unsigned verb = msg_verb(request);
	const char *line;
	int r;

	if (verb >= ARRAY_SIZE(handlers) || !handlers[verb].fn) {
		msg_put_u64(done, CTL_TAG_CODE, CODE_FAILED);
		msg_put_str(done, CTL_TAG_LINE,
			    "the server is of another version");
		msg_put_str(done, CTL_TAG_LINE,
			    "stop it first: cowfs daemon stop");
		return 0;
	}
	r = handlers[verb].fn(ctx, peer, request, done, &diag);
	if (r < 0)
		return r;
	if (r == CODE_FAILED && (line = diag_line(&diag, 0)))
		log_info("%s: %s", handlers[verb].name, line);
	msg_put_u64(done, CTL_TAG_CODE, (uint64_t)r);
	for (size_t i = 0; (line = diag_line(&diag, i)); i++)
		msg_put_str(done, CTL_TAG_LINE, line);
	return 0;
}
