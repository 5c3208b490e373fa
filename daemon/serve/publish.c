/* SPDX-License-Identifier: MIT */
/*
 * publish.c - the network and the ports that an environment was asked for.
 *
 * How: both stand in its file `env`. They do not change while a sandbox runs
 * that was made for them. What it needs on this machine is leased with the
 * request that asks for it, so that whoever asked knows at once when something
 * is taken; what else has been taken since an environment was kept is no reason
 * not to mount it.
 */
#include "serve/server_int.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "box/box.h"

_Static_assert(CTL_NET_HOST == (int)ENV_NET_HOST &&
		       CTL_NET_PRIVATE == (int)ENV_NET_PRIVATE &&
		       CTL_NET_NONE == (int)ENV_NET_NONE,
	       "the protocol's numbers are the file's");

/* --- requests and rows --------------------------------------------------- */

static int fail_usage(struct diag *diag, const char *text)
{
	diag_add(diag, "%s", text);
	return CODE_USAGE;
}

int publish_read(const struct msg *m, struct publish_wish *ret_wish,
		 struct diag *diag)
{
	uint64_t net = msg_get_u64(m, CTL_TAG_NET, ENV_NET_END);
	struct publish_wish w = {.has_net = net < ENV_NET_END};
	const uint8_t *p;
	size_t n;

	w.net = w.has_net ? (enum env_net)net : ENV_NET_AUTO;
	while ((p = msg_get(m, CTL_TAG_PORT, w.ports.count, &n))) {
		uint64_t port = n == 8 ? bytes_load_u64(p) : UINT64_MAX;

		/* A single 0: none. */
		w.has_ports = true;
		if (port == 0 && !w.ports.count)
			break;
		if (port == 0 || port > UINT16_MAX ||
		    env_has_port(&w.ports, port))
			return fail_usage(diag, "--port: not a port, or twice "
						"the same");
		if (w.ports.count == FORMAT_MAX_PORTS)
			return fail_usage(diag, "--port: too many");
		w.ports.v[w.ports.count++] = (uint16_t)port;
	}
	*ret_wish = w;
	return 0;
}

void publish_merge(const struct publish_wish *w, struct env_info *info)
{
	if (w->has_net)
		info->net = w->net;
	if (w->has_ports)
		info->ports = w->ports;
}

static bool is_same(const struct env_info *a, const struct publish_wish *w)
{
	return (!w->has_net || w->net == a->net) &&
	       (!w->has_ports ||
		(w->ports.count == a->ports.count &&
		 !memcmp(w->ports.v, a->ports.v,
			 w->ports.count * sizeof *w->ports.v)));
}

void publish_put(const struct buf *leases, const char *name,
		 const struct env_info *info, struct msg *m)
{
	if (info->net != ENV_NET_AUTO)
		msg_put_u64(m, CTL_TAG_NET, info->net);
	for (uint32_t i = 0; i < info->ports.count; i++)
		msg_put_u64(m, CTL_TAG_PORT, info->ports.v[i]);
	for (size_t i = 0; i < lease_count(leases); i++) {
		const struct lease l = lease_at(leases, i);

		if (!strcmp(l.env, name))
			msg_put_u64(m, CTL_TAG_LEASE,
				    ctl_lease_pack(l.kind, l.use, l.number));
	}
}

/* --- changing ------------------------------------------------------------ */

static bool has_sandbox(struct server *s, const char *name)
{
	_cleanup_buf_ struct buf pids = {0};

	return box_processes(s->path, name, &pids) == 0;
}

int publish_lease(struct server *s, const char *name,
		  const struct env_info *info, struct diag *diag)
{
	/* What a sandbox uses looks taken, and is by itself. */
	const enum leases_test test =
		has_sandbox(s, name) ? LEASES_MISSING : LEASES_ALL;
	int r = leases_have(s->leases, name, info->net, &info->ports, test,
			    diag);

	return r < 0 ? CODE_FAILED : CODE_DONE;
}

int publish_change(struct server *s, const char *name,
		   const struct publish_wish *w, struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	int r = info ? env_read_info(s->store, name, info) : -ENOMEM;

	if (r == 0 && is_same(info, w))
		return CODE_DONE;
	if (r == 0 && has_sandbox(s, name)) {
		diag_add(diag,
			 "%s: its sandbox runs with other ports or "
			 "another network",
			 name);
		diag_add(diag, "\"cowfs kill %s\" ends it and everything in it",
			 name);
		return CODE_BUSY;
	}
	if (r == 0) {
		publish_merge(w, info);
		r = publish_lease(s, name, info, diag);
		if (r)
			return r;
		r = env_write_info(s->store, name, info);
	}
	if (r < 0) {
		diag_add(diag, "%s: cannot be set: %s", name, err_text(r));
		return CODE_FAILED;
	}
	return CODE_DONE;
}

void publish_renew(struct server *s, const char *name,
		   const struct env_info *info)
{
	_cleanup_diag_ struct diag diag = {0};
	const char *line;

	if (publish_lease(s, name, info, &diag) && (line = diag_line(&diag, 0)))
		log_warn("%s: %s", name, line);
}

/* --- the request --------------------------------------------------------- */

int publish_handle(struct server *s, const struct ctl_peer *peer,
		   const struct msg *request, struct msg *done,
		   struct diag *diag)
{
	_cleanup_free_ struct env_info *info = calloc(1, sizeof *info);
	_cleanup_buf_ struct buf leases = {0};
	const bool renew =
		msg_get_u64(request, CTL_TAG_FLAGS, 0) & CTL_FLAG_DATABASE;
	struct envs_entry *entry;
	struct publish_wish w;
	int r = info ? publish_read(request, &w, diag) : -ENOMEM;

	if (r == 0)
		r = handlers_acquire(s, request, diag, &entry);
	if (r)
		return r;
	r = env_read_info(s->store, entry->name, info);
	if (r == 0)
		r = leases_have(s->leases, entry->name,
				w.has_net ? w.net : info->net, &info->ports,
				renew ? LEASES_DATABASE : LEASES_MISSING, diag);
	if (r == 0)
		r = store_leases(s->store, &leases);
	if (r == 0)
		publish_put(&leases, entry->name, info, done);
	envs_release(entry);
	if (r < 0 && !diag_line(diag, 0))
		diag_add(diag, "ports: %s", err_text(r));
	return r < 0 ? CODE_FAILED : CODE_DONE;
}
