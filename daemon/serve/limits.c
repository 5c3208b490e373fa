/* SPDX-License-Identifier: MIT */
/*
 * How: bounds stand in the environment's file `env`, which is synced before an
 * environment that is open hears of them: what was answered holds after any
 * death. A quota is kept by the environment itself, a ttl here.
 *
 * A ttl begins with each mount, and anew when it is set. The main thread looks
 * once a second for what is over; the worker unmounts it, as `umount --keep`
 * does, with the same patience: who is busy is asked again every RETRY_S, for
 * as long as it takes, and nothing is ended or thrown away. The log has a line
 * when that begins and one when it is done.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "object/format.h"

enum { ACQUIRE_MS = 5000, RETRY_S = 5 };

#define NS_PER_S UINT64_C(1000000000)

/* --- bounds -------------------------------------------------------------- */

int limits_read(const struct msg *m, struct limits_wish *ret_wish,
		struct diag *diag)
{
	static const struct {
		enum ctl_tag tag;
		unsigned set;
		uint64_t most;
	} all[] = {
		{CTL_TAG_QUOTA, LIMITS_BYTES, INT64_MAX},
		{CTL_TAG_QUOTA_INODES, LIMITS_INODES, FORMAT_MAX_INODE},
		{CTL_TAG_TTL, LIMITS_TTL, FORMAT_MAX_TTL},
	};
	struct limits_wish w = {0};
	uint64_t *const to[] = {&w.to.bytes, &w.to.inodes, &w.to.ttl_sec};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t v = msg_get_u64(m, all[i].tag, UINT64_MAX);

		if (v == UINT64_MAX)
			continue;
		if (v > all[i].most) {
			diag_add(diag, "%" PRIu64 ": too large for a bound", v);
			return CODE_USAGE;
		}
		*to[i] = v;
		w.set |= all[i].set;
	}
	*ret_wish = w;
	return 0;
}

void limits_merge(const struct limits_wish *w, struct env_limits *limits)
{
	if (w->set & LIMITS_BYTES)
		limits->bytes = w->to.bytes;
	if (w->set & LIMITS_INODES)
		limits->inodes = w->to.inodes;
	if (w->set & LIMITS_TTL)
		limits->ttl_sec = w->to.ttl_sec;
}

uint64_t limits_due(const struct env_limits *limits)
{
	return limits->ttl_sec ? clock_mono_ns() + limits->ttl_sec * NS_PER_S
			       : 0;
}

int limits_change(struct server *s, struct envs_entry *entry,
		  const struct limits_wish *w, struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	int r = info ? env_read_info(s->store, entry->name, info) : -ENOMEM;

	if (r == 0) {
		limits_merge(w, &info->limits);
		r = env_write_info(s->store, entry->name, info);
	}
	if (r < 0) {
		diag_add(diag, "%s: cannot be set: %s", entry->name,
			 err_text(r));
		return CODE_FAILED;
	}
	if (entry->mount.state == ENVS_NONE)
		return CODE_DONE;
	env_set_limits(entry->mount.env, &info->limits);
	if (w->set & LIMITS_TTL)
		envs_set_due(entry, limits_due(&info->limits));
	return CODE_DONE;
}

int limits_handle(struct server *s, const struct ctl_peer *peer,
		  const struct msg *request, struct msg *done,
		  struct diag *diag)
{
	struct envs_entry *entry;
	struct limits_wish w;
	int r = limits_read(request, &w, diag);

	if (r)
		return r;
	r = handlers_acquire(s, request, diag, &entry);
	if (r)
		return r;
	r = limits_change(s, entry, &w, diag);
	envs_release(entry);
	return r;
}

void limits_put(const struct env_limits *limits, const struct envs_look *look,
		struct msg *m)
{
	int64_t left;

	if (limits->bytes)
		msg_put_u64(m, CTL_TAG_QUOTA, limits->bytes);
	if (limits->inodes)
		msg_put_u64(m, CTL_TAG_QUOTA_INODES, limits->inodes);
	if (limits->ttl_sec)
		msg_put_u64(m, CTL_TAG_TTL, limits->ttl_sec);
	if (look->state == ENVS_NONE)
		return;
	limits_put_use(&look->use, m);
	if (look->read_only)
		msg_put_u64(m, CTL_TAG_READ_ONLY, 1);
	if (!look->due_ns)
		return;
	left = (int64_t)(look->due_ns - clock_mono_ns()) / (int64_t)NS_PER_S;
	msg_put_u64(m, CTL_TAG_EXPIRES, (uint64_t)(clock_now().tv_sec + left));
}

void limits_put_use(const struct env_use *use, struct msg *m)
{
	msg_put_u64(m, CTL_TAG_USED, use->bytes);
	msg_put_u64(m, CTL_TAG_USED_INODES, use->inodes);
}

/* --- the end of a ttl ---------------------------------------------------- */

static void say_expired(struct envs_entry *entry, int code, struct diag *diag)
{
	const char *what = diag_line(diag, 0), *who = diag_line(diag, 1);

	if (code == CODE_DONE) {
		log_info("%s: its ttl is over: unmounted and kept",
			 entry->name);
		return;
	}
	if (entry->mount.told)
		return;
	entry->mount.told = true;
	log_warn("%s: its ttl is over, tried again every %d s: %s%s%s",
		 entry->name, RETRY_S, what ? what : "failed", who ? ": " : "",
		 who ? who : "");
}

static void expire(void *ctx, void *arg)
{
	_cleanup_diag_ struct diag diag = {0};
	_cleanup_free_ char *name = arg;
	struct server *s = ctx;
	struct envs_entry *entry;
	uint64_t due;

	if (envs_acquire(s->envs, name, ACQUIRE_MS, &entry) < 0)
		return;
	/* Another may have unmounted it meanwhile, or given it more time. */
	due = entry->mount.due_ns;
	if (entry->mount.state != ENVS_NONE && due && due <= clock_mono_ns())
		say_expired(entry, umount_keep(s, entry, &diag), &diag);
	envs_release(entry);
}

void limits_expire(struct server *s)
{
	_cleanup_buf_ struct buf names = {0};
	uint64_t now = clock_mono_ns();

	envs_due(s->envs, now, now + RETRY_S * NS_PER_S, &names);
	for (size_t i = 0; i < names.len;) {
		char *name = strdup((const char *)names.data + i);

		i += strlen((const char *)names.data + i) + 1;
		if (!name || worker_add(s->worker, expire, s, name) < 0)
			free(name); /* there is a next time */
	}
}
