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
#include "box/box.h"

enum { GRACE_MS = 1000, LAST_GRACE_MS = 200 };

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

/* Takes the lines of a sandbox's processes out of a list of users. The sandbox
 * was looked at after the list was made: who is not in it may have ended since,
 * as what a busy script calls does all the time. */
static void take_out(const struct buf *pids, struct keeper_reply *reply)
{
	size_t from = 0, to = 0;

	while (from < reply->text_len) {
		const char *line = reply->text + from;
		const char *end = memchr(line, '\n', reply->text_len - from);
		const size_t n =
			end ? (size_t)(end - line) + 1 : reply->text_len - from;
		char number[16];
		pid_t pid;

		(void)snprintf(number, sizeof number, "%.*s",
			       (int)MIN(n, sizeof number - 1), line);
		pid = (pid_t)strtol(number, NULL, 10);
		/* A mount has no process: its line stays. */
		if (!is_one_of(pids, pid) && !(pid && box_has_ended(pid))) {
			memmove(reply->text + to, line, n);
			to += n;
		}
		from += n;
	}
	reply->text_len = (uint32_t)to;
}

void boxes_take_out(struct server *s, const char *name,
		    struct keeper_reply *reply)
{
	_cleanup_buf_ struct buf pids = {0};

	if (box_processes(s->path, name, &pids) == 0)
		take_out(&pids, reply);
}

static int find_others(struct server *s, const struct envs_entry *entry,
		       struct diag *diag)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	const struct envs_mount *m = &entry->mount;
	struct keeper_request q = {
		.op = KEEPER_USERS, .major = m->major, .minor = m->minor};

	if (!reply)
		return -ENOMEM;
	(void)snprintf(q.path, sizeof q.path, "%s", m->real);
	if (m->state != ENVS_MOUNTED || link_call(s->link, &q, reply, NULL) < 0)
		return 0;
	boxes_take_out(s, entry->name, reply);
	if (!reply->text_len)
		return 0;
	diag_add(diag, "%s: busy", entry->name);
	for (char *line = reply->text, *end;
	     line < reply->text + reply->text_len; line = end + 1) {
		end = memchr(line, '\n',
			     (size_t)(reply->text + reply->text_len - line));
		if (!end)
			break;
		diag_add(diag, "%.*s", (int)(end - line), line);
	}
	return CODE_BUSY;
}

int boxes_end(struct server *s, const struct envs_entry *entry,
	      struct diag *diag)
{
	_cleanup_buf_ struct buf pids = {0};
	struct box_ended ended;
	int r = box_processes(s->path, entry->name, &pids);

	if (r == -ESRCH)
		return 0;
	r = find_others(s, entry, diag);
	if (r)
		return r;
	r = box_end(s->path, entry->name, GRACE_MS, &ended);
	if (r < 0) {
		diag_add(diag, "%s: busy: its sandbox does not end: %s",
			 entry->name, err_text(r));
		return CODE_BUSY;
	}
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
