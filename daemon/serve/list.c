/* SPDX-License-Identifier: MIT */
/*
 * How: a kept environment is a folder and nothing else, so the store tells what
 * there is, and who only wants to know that needs no server: neither does it
 * start one, nor does the store have to be one that can be written.
 */
#include "serve/list_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/err.h"
#include "base/io.h"
#include "env/check.h"
#include "serve/serve.h"
#include "serve/server_int.h"

static const char *state_text(enum envs_state state)
{
	switch (state) {
	case ENVS_MOUNTED:
		return "mounted";
	case ENVS_DETACHED:
		return "dead";
	case ENVS_NONE:
		break;
	}
	return "kept";
}

int list_put_row(struct store *s, const struct buf *leases, const char *name,
		 const struct envs_look *look, struct env_info *info,
		 struct msg *m)
{
	char hex[OID_HEX + 1];
	int r = env_read_info(s, name, info);

	msg_put_str(m, CTL_TAG_NAME, name);
	if (look->path[0])
		msg_put_str(m, CTL_TAG_PATH, look->path);
	if (r < 0) {
		msg_put_str(m, CTL_TAG_STATE, "damaged");
		return r;
	}
	msg_put_str(m, CTL_TAG_STATE, state_text(look->state));
	oid_to_hex(&info->snapshot, hex);
	msg_put_str(m, CTL_TAG_SNAPSHOT, hex);
	msg_put_u64(m, CTL_TAG_TIME, (uint64_t)info->created_sec);
	msg_put_str(m, CTL_TAG_REF, info->ref);
	msg_put_str(m, CTL_TAG_SOURCE, info->source);
	limits_put(&info->limits, look, m);
	publish_put(leases, name, info, m);
	return 0;
}

/* --- without a server ---------------------------------------------------- */

bool serve_is_held(const char *store)
{
	_cleanup_close_ int dir = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd =
		dir < 0 ? -1 : io_open_file(dir, "server.lock", O_RDONLY);

	return fd >= 0 && io_lock(fd, LOCK_SH | LOCK_NB) == -EBUSY;
}

static int tell_one(struct store *s, const struct buf *leases, const char *name,
		    serve_row_fn fn, void *ctx)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	const struct envs_look look = {.state = ENVS_NONE};
	_cleanup_msg_ struct msg row = {0};

	if (!info)
		return -ENOMEM;
	/* The next server clears it away. */
	if (env_is_unborn(s, name))
		return 0;
	msg_begin(&row, CTL_ROW);
	if (list_put_row(s, leases, name, &look, info, &row) == -ENOENT)
		return 0;
	return fn(ctx, &row);
}

int serve_list(const char *store, serve_row_fn fn, void *ctx, struct diag *diag)
{
	_cleanup_buf_ struct buf names = {0}, leases = {0};
	struct store *s = NULL;
	int r = store_open(store, 0, diag, &s);

	if (r < 0)
		return r;
	r = store_env_names(s, 0, &names);
	if (r == -ENOENT)
		r = 0;
	if (r < 0)
		r = diag_fail(diag, r, "cannot list environments: %s",
			      err_text(r));
	/* Without them a row tells all the rest. */
	if (store_leases(s, &leases) < 0)
		buf_clear(&leases);
	for (size_t i = 0; r == 0 && i < names.len; i += NAME_MAX_LABEL + 1)
		r = tell_one(s, &leases, (const char *)names.data + i, fn, ctx);
	store_close(s);
	return r;
}
