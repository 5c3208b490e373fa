/* SPDX-License-Identifier: MIT */
/*
 * How: an environment becomes a snapshot that no record names, for a client
 * that wants to read it. A mounted one is frozen as it is at one moment: the
 * kernel writes back what is dirty first, and changes wait while the freeze
 * works, which takes as long as reading what has changed.
 *
 * gc would take the snapshot's objects, so the pin is handed over: the server
 * keeps it until the client, who has a pin of its own by then, has shut its
 * half of the connection. A client must not take its pin before it asks: a gc
 * that waits for that pin holds the gate that the freeze has to pass.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <poll.h>

#include "base/err.h"
#include "env/freeze.h"

enum { PIN_WAIT_MS = 10000 };

static int freeze(struct server *s, struct envs_entry *entry, struct diag *diag,
		  struct freeze_result *ret)
{
	struct env *env = NULL;
	int r = 0;

	if (entry->mount.state == ENVS_MOUNTED)
		r = diff_write_back(s, &entry->mount);
	if (r < 0)
		return r;
	if (entry->mount.state != ENVS_NONE)
		return env_snapshot(entry->mount.env, diag, ret);
	r = env_open(s->store, entry->name, ENV_READ_ONLY, diag, &env);
	if (r == 0)
		r = env_snapshot(env, diag, ret);
	env_close(env);
	return r;
}

/* Says what was left out: the paths end in NUL. */
static void add_sockets(struct msg *row, const struct buf *sockets)
{
	uint64_t count = 0;

	for (size_t i = 0; i < sockets->len; i++)
		count += !sockets->data[i];
	msg_put_u64(row, CTL_TAG_COUNT, count);
	if (count)
		msg_put_str(row, CTL_TAG_PATH, (const char *)sockets->data);
}

static int answer(const struct ctl_peer *peer, const struct freeze_result *res)
{
	struct pollfd p = {.fd = peer->fd, .events = POLLIN | POLLRDHUP};
	_cleanup_msg_ struct msg row = {0};
	char hex[OID_HEX + 1];
	int r;

	oid_to_hex(&res->snapshot, hex);
	msg_begin(&row, CTL_ROW);
	msg_put_str(&row, CTL_TAG_SNAPSHOT, hex);
	add_sockets(&row, &res->sockets);
	r = ctl_send_row(peer, &row);
	if (r < 0)
		return r;
	while (poll(&p, 1, PIN_WAIT_MS) < 0 && errno == EINTR)
		;
	return CODE_DONE;
}

int snapshot_handle(struct server *s, const struct ctl_peer *peer,
		    const struct msg *request, struct msg *done,
		    struct diag *diag)
{
	_cleanup_(freeze_fini) struct freeze_result res = {.pin = -1};
	struct envs_entry *entry;
	int r = handlers_acquire(s, request, diag, &entry);

	if (r)
		return r;
	r = freeze(s, entry, diag, &res);
	if (r < 0 && !diag_line(diag, 0))
		diag_add(diag, "%s: %s", entry->name, err_text(r));
	envs_release(entry);
	if (r < 0)
		return r == -EBUSY ? CODE_BUSY : CODE_FAILED;
	return answer(peer, &res);
}
