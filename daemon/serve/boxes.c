/* SPDX-License-Identifier: MIT */
/*
 * boxes.c - unmounting ends what runs in an environment's sandbox.
 *
 * How: who uses the mount is asked first. What is not in the sandbox makes the
 * environment busy, as ever, and then nothing is ended; else the sandbox ends,
 * with every process in it, and with its copy of the mount.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "box/box.h"

enum {
	GRACE_MS = 1000,
	LAST_GRACE_MS = 200,
	STOPPED_MAX = 512, /* a message has an end */
};

static bool is_one_of(const struct buf *pids, pid_t pid)
{
	for (size_t at = 0; at < pids->len; at += sizeof pid) {
		pid_t own;

		memcpy(&own, pids->data + at, sizeof own);
		if (own == pid)
			return true;
	}
	return false;
}

void boxes_each_user(struct keeper_reply *reply, boxes_user_fn fn, void *ctx)
{
	size_t from = 0, to = 0;

	while (from < reply->text_len) {
		const char *line = reply->text + from;
		const char *end = memchr(line, '\n', reply->text_len - from);
		const size_t len =
			end ? (size_t)(end - line) : reply->text_len - from;
		const size_t n = len + (end != NULL);
		char number[16];

		(void)snprintf(number, sizeof number, "%.*s",
			       (int)MIN(len, sizeof number - 1), line);
		/* A mount has no process: its line has a dash. */
		if (fn(ctx, (pid_t)MAX(strtol(number, NULL, 10), 0), line,
		       len)) {
			memmove(reply->text + to, line, n);
			to += n;
		}
		from += n;
	}
	reply->text_len = (uint32_t)to;
}

/* The sandbox was looked at after the list was made: who is not in it may have
 * ended since, as what a busy script calls does all the time. */
static bool is_other(void *ctx, pid_t pid, const char *line, size_t n)
{
	return !is_one_of(ctx, pid) && !(pid && proc_has_ended(pid));
}

void boxes_take_out(struct server *s, const char *name,
		    struct keeper_reply *reply)
{
	_cleanup_buf_ struct buf pids = {0};

	if (box_processes(s->path, name, &pids) == 0)
		boxes_each_user(reply, is_other, &pids);
}

int boxes_others(struct server *s, const struct envs_entry *entry,
		 struct keeper_reply *reply)
{
	const struct envs_mount *m = &entry->mount;
	struct keeper_request q = {
		.op = KEEPER_USERS, .major = m->major, .minor = m->minor};
	int r;

	reply->text_len = 0;
	if (m->state == ENVS_NONE)
		return 0;
	(void)snprintf(q.path, sizeof q.path, "%s", m->real);
	r = link_call(s->link, &q, reply, NULL);
	if (r < 0)
		return r;
	boxes_take_out(s, entry->name, reply);
	return 0;
}

static bool add_line(void *ctx, pid_t pid, const char *line, size_t n)
{
	diag_add(ctx, "%.*s", (int)n, line);
	return true;
}

int boxes_check_others(struct server *s, const struct envs_entry *entry,
		       struct diag *diag)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);

	if (!reply)
		return -ENOMEM;
	if (entry->mount.state != ENVS_MOUNTED ||
	    boxes_others(s, entry, reply) < 0 || !reply->text_len)
		return 0;
	diag_add(diag, "%s: busy", entry->name);
	boxes_each_user(reply, add_line, diag);
	return CODE_BUSY;
}

/* What a process is called, and whether it is the database's. */
static void put_stopped(struct msg *done, pid_t pid, const struct box_db *db)
{
	char name[PROC_COMMAND_BYTES], line[128];

	if (proc_command(pid, name) < 0)
		return; /* it has ended by itself */
	(void)snprintf(line, sizeof line, "%d %s %s", (int)pid,
		       pid == db->pid ? "database" : "process", name);
	msg_put_str(done, CTL_TAG_STOPPED, line);
}

static void tell_stopped(struct server *s, const char *env,
			 const struct buf *pids, struct msg *done)
{
	const size_t count = pids->len / sizeof(pid_t);
	struct box_db *db = calloc(1, sizeof *db);

	if (!db)
		return;
	if (box_db_read(s->path, env, db) < 0 || !box_db_runs(db))
		db->pid = 0;
	/* Without the first. */
	for (size_t i = 1; i < count && i <= STOPPED_MAX; i++) {
		pid_t pid;

		memcpy(&pid, pids->data + i * sizeof pid, sizeof pid);
		put_stopped(done, pid, db);
	}
	if (count > STOPPED_MAX + 1)
		msg_put_u64(done, CTL_TAG_MORE, count - STOPPED_MAX - 1);
	free(db);
}

int boxes_end(struct server *s, const struct envs_entry *entry,
	      struct msg *done, struct diag *diag, bool *ret_checked)
{
	_cleanup_buf_ struct buf pids = {0};
	struct box_ended ended;
	int r = box_processes(s->path, entry->name, &pids);

	*ret_checked = r != -ESRCH;
	/* Where none runs, one that was killed may have left something. */
	if (r != -ESRCH)
		r = boxes_check_others(s, entry, diag);
	if (r && r != -ESRCH)
		return r;
	if (done && *ret_checked)
		tell_stopped(s, entry->name, &pids, done);
	r = box_end(s->path, entry->name, GRACE_MS, &ended);
	if (r < 0) {
		diag_add(diag, "%s: busy: its sandbox does not end: %s",
			 entry->name, err_text(r));
		return CODE_BUSY;
	}
	if (!ended.was_there)
		return 0;
	if (done)
		msg_put_str(done, CTL_TAG_FREED, "sandbox");
	log_info("%s: its sandbox ended, with %zu processes", entry->name,
		 ended.processes);
	return 0;
}

void boxes_end_last(struct server *s, const char *name)
{
	struct box_ended ended;
	int r = box_end(s->path, name, LAST_GRACE_MS, &ended);

	if (r < 0)
		log_warn("%s: its sandbox does not end: %s", name, err_text(r));
}
