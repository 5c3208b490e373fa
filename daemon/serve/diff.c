/* SPDX-License-Identifier: MIT */
/*
 * How: delta_walk calls back with the environment's lock held, and a client
 * may be slow. So the rows are collected in memory first, as whole messages
 * one after the other, and sent when the environment is free again.
 *
 * What was written through a shared mapping may still be in the kernel alone.
 * A child of the keeper has it written back first: the server must never wait
 * for a mount of its own.
 *
 * syncfs on FUSE starts the writing and does not wait for it, so the child
 * then asks something that is answered by us, behind the pages that are already
 * queued for us. The kernel queues a few requests of that kind at a time, and
 * the next when one is done: pages were left as long as any came between two
 * such questions.
 */
#include "serve/server_int.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "env/delta.h"
#include "fuse/session.h"

#define WRITE_BACK_NS UINT64_C(5000000000)

struct rows {
	struct buf all; /* blocks, each the bytes of a message */
	struct msg row;
	uint64_t count;
};

static void rows_fini(struct rows *r)
{
	buf_fini(&r->all);
	msg_fini(&r->row);
}

static int add_row(void *ctx, const struct delta_row *d)
{
	struct rows *rows = ctx;
	struct msg *m = &rows->row;

	msg_begin(m, CTL_ROW);
	msg_put_u64(m, CTL_TAG_KIND, d->kind);
	msg_put(m, CTL_TAG_PATH, d->path, d->path_len);
	if (d->old_path)
		msg_put(m, CTL_TAG_OLD_PATH, d->old_path, d->old_path_len);
	msg_put_u64(m, CTL_TAG_OLD_SIZE, d->old_size);
	msg_put_u64(m, CTL_TAG_NEW_SIZE, d->new_size);
	msg_put_u64(m, CTL_TAG_OLD_MODE, d->old_mode);
	msg_put_u64(m, CTL_TAG_NEW_MODE, d->new_mode);
	msg_put_u64(m, CTL_TAG_IS_DIR, d->is_dir);
	msg_put_u64(m, CTL_TAG_CONTENT, d->content_changed);
	if (m->bytes.failed)
		return -ENOMEM;
	if (m->bytes.len > CTL_MAX_MESSAGE)
		return -ENAMETOOLONG;
	buf_put_block(&rows->all, m->bytes.data, m->bytes.len);
	rows->count++;
	return buf_error(&rows->all);
}

static uint64_t cached_writes(const struct envs_mount *m)
{
	struct session_counters c;

	session_count(m->session, &c);
	return c.cached_writes;
}

int diff_write_back(struct server *s, const struct envs_mount *m)
{
	_cleanup_free_ struct keeper_reply *reply = calloc(1, sizeof *reply);
	struct keeper_request q = {
		.op = KEEPER_SYNC, .major = m->major, .minor = m->minor};
	uint64_t end = clock_mono_ns() + WRITE_BACK_NS;
	uint64_t before;
	int r;

	if (!reply)
		return -ENOMEM;
	(void)snprintf(q.path, sizeof q.path, "%s", m->real);
	/* Somebody may go on changing pages for ever: not so long. */
	do {
		before = cached_writes(m);
		r = link_call(s->link, &q, reply, NULL);
	} while (r == 0 && cached_writes(m) != before && clock_mono_ns() < end);
	return r == -ENOENT ? 0 : r;
}

static int collect(struct server *s, struct envs_entry *entry, unsigned flags,
		   struct rows *rows, struct diag *diag)
{
	struct env *env = entry->mount.env;
	int r = 0;

	if (entry->mount.state == ENVS_MOUNTED)
		r = diff_write_back(s, &entry->mount);
	if (r < 0)
		return r;
	if (entry->mount.state != ENVS_NONE)
		return delta_walk(env, flags, add_row, rows);
	r = env_open(s->store, entry->name, ENV_READ_ONLY, diag, &env);
	if (r < 0)
		return r;
	r = delta_walk(env, flags, add_row, rows);
	env_close(env);
	return r;
}

static int send_rows(const struct ctl_peer *peer, struct rows *rows)
{
	struct bytes left = bytes_of(rows->all.data, rows->all.len);
	int r = 0;

	while (r == 0 && left.left > 0) {
		size_t n;
		const uint8_t *p = bytes_block(&left, CTL_MAX_MESSAGE, &n);

		buf_clear(&rows->row.bytes);
		buf_put(&rows->row.bytes, p, n);
		r = ctl_send_row(peer, &rows->row);
	}
	return r;
}

int diff_handle(struct server *s, const struct ctl_peer *peer,
		const struct msg *request, struct msg *done, struct diag *diag)
{
	_cleanup_(rows_fini) struct rows rows = {0};
	uint64_t flags = msg_get_u64(request, CTL_TAG_FLAGS, 0);
	struct envs_entry *entry;
	int r = handlers_acquire(s, request, diag, &entry);

	if (r)
		return r;
	r = collect(s, entry, flags & CTL_FLAG_TIMES ? DELTA_WITH_TIMES : 0,
		    &rows, diag);
	if (r < 0)
		diag_add(diag, "%s: its changes cannot be read: %s",
			 entry->name, err_text(r));
	envs_release(entry);
	if (r < 0)
		return CODE_FAILED;
	r = send_rows(peer, &rows);
	msg_put_u64(done, CTL_TAG_COUNT, rows.count);
	return r < 0 ? r : CODE_DONE;
}
