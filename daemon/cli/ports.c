/* SPDX-License-Identifier: MIT */
/*
 * ports.c - the network, the published ports and the leases of an environment.
 *
 * What is leased comes with the rows that tell of environments; the server is
 * asked only for what is missing there, which is so when a network was not
 * known before a sandbox started.
 */
#include "cli/ports.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "box/ports.h"
#include "cli/number.h"
#include "cli/remote.h"
#include "store/leases.h"

/* --- options ------------------------------------------------------------- */

int ports_parse_net(const struct call *c, const char *text,
		    enum ctl_net *ret_net)
{
	static const char *const names[] = {[CTL_NET_HOST] = "host",
					    [CTL_NET_PRIVATE] = "private",
					    [CTL_NET_NONE] = "none"};

	*ret_net = CTL_NET_AUTO;
	for (size_t i = CTL_NET_HOST; text && i < ARRAY_SIZE(names); i++)
		if (!strcmp(text, names[i]))
			*ret_net = (enum ctl_net)i;
	return !text || *ret_net != CTL_NET_AUTO
		       ? CODE_DONE
		       : call_fail(c, CODE_USAGE,
				   "--net: %s: not host, private or none",
				   text);
}

static int add_port(const struct call *c, const char *text,
		    struct ports_wish *w)
{
	uint64_t n;

	if (number_read(text, UINT16_MAX, &n) || !n)
		return call_fail(c, CODE_USAGE,
				 "--port: %s: not a port, 1 to 65535", text);
	if (n == BOX_PROXY)
		return call_fail(c, CODE_USAGE,
				 "--port: %s: the proxy of a private network "
				 "is there",
				 text);
	for (size_t i = 0; i < w->count; i++)
		if (w->v[i] == n)
			return call_fail(c, CODE_USAGE, "--port: %s: twice",
					 text);
	if (w->count == FORMAT_MAX_PORTS)
		return call_fail(c, CODE_USAGE, "--port: %d are too many",
				 FORMAT_MAX_PORTS + 1);
	w->v[w->count++] = (uint16_t)n;
	return CODE_DONE;
}

int ports_parse(const struct call *c, size_t net_opt, size_t port_opt,
		struct ports_wish *ret_wish)
{
	const struct opt_args *a = c->args;
	struct ports_wish w = {0};
	bool none = false;
	int r = ports_parse_net(c, opt_value(a, net_opt), &w.net);

	w.has_net = w.net != CTL_NET_AUTO;
	for (size_t i = 0; i < a->item_count && !r; i++) {
		if (a->items[i].opt != port_opt)
			continue;
		w.has_ports = true;
		if (!strcmp(a->items[i].value, "none"))
			none = true;
		else
			r = add_port(c, a->items[i].value, &w);
	}
	if (!r && none && w.count)
		r = call_fail(c, CODE_USAGE, "--port: none, and others");
	if (!r && w.count && w.has_net && w.net == CTL_NET_NONE)
		r = call_fail(c, CODE_USAGE, "--port: not with --net none");
	*ret_wish = w;
	return r;
}

void ports_ask(struct msg *m, const struct ports_wish *w)
{
	if (w->has_net)
		msg_put_u64(m, CTL_TAG_NET, w->net);
	for (size_t i = 0; i < w->count; i++)
		msg_put_u64(m, CTL_TAG_PORT, w->v[i]);
	if (w->has_ports && !w->count)
		msg_put_u64(m, CTL_TAG_PORT, 0);
}

/* --- what the server says ------------------------------------------------ */

static void read_lease(uint64_t packed, struct ports_row *p)
{
	const unsigned use = packed >> 32 & 0xffff;

	if (packed >> 48 == LEASE_ADDRESS)
		p->address = (uint32_t)packed;
	else if (use == LEASE_DATABASE)
		p->database = (uint16_t)packed;
	else if (use < FORMAT_MAX_PORTS)
		p->host[use] = (uint16_t)packed;
}

void ports_read_row(const struct msg *row, struct ports_row *p)
{
	const uint8_t *v;
	size_t n;

	*p = (struct ports_row){
		.net = (enum ctl_net)msg_get_u64(row, CTL_TAG_NET, 0)};
	while (p->count < FORMAT_MAX_PORTS &&
	       (v = msg_get(row, CTL_TAG_PORT, p->count, &n)) && n == 8)
		p->v[p->count++] = (uint16_t)bytes_load_u64(v);
	for (size_t i = 0; (v = msg_get(row, CTL_TAG_LEASE, i, &n)) && n == 8;
	     i++)
		read_lease(bytes_load_u64(v), p);
}

size_t ports_host_count(const struct ports_row *p)
{
	return MAX(p->count, (size_t)1);
}

static bool has_all(const struct ports_row *p, enum box_net net)
{
	if (net != BOX_NET_HOST)
		return net == BOX_NET_NONE || !p->count || p->address;
	for (size_t i = 0; i < ports_host_count(p); i++)
		if (!p->host[i])
			return false;
	return p->database;
}

int ports_lease(const struct call *c, int *fd, const char *env,
		enum box_net net, bool renew, struct ports_row *p)
{
	static const enum ctl_net nets[] = {[BOX_NET_HOST] = CTL_NET_HOST,
					    [BOX_NET_NONE] = CTL_NET_NONE,
					    [BOX_NET_PRIVATE] =
						    CTL_NET_PRIVATE};
	_cleanup_msg_ struct msg request = {0}, done = {0};
	int r;

	if (has_all(p, net) && !renew)
		return CODE_DONE;
	msg_begin(&request, CTL_PORTS);
	msg_put_str(&request, CTL_TAG_NAME, env);
	msg_put_u64(&request, CTL_TAG_NET, nets[net]);
	if (renew)
		msg_put_u64(&request, CTL_TAG_FLAGS, CTL_FLAG_DATABASE);
	r = remote_call(c, fd, &request, NULL, NULL, &done);
	if (!r)
		ports_read_row(&done, p);
	return r;
}

enum box_net ports_net(const struct call *c, const struct remote_env *e)
{
	const struct box_spec spec = {
		.store = c->store, .env = e->name, .mount = e->path};
	const struct ports_row *p = &e->ports;
	_cleanup_box_ struct box box = {0};
	struct box_look look;

	if (box_join_any(&spec, &box, &look) == 0)
		return look.net;
	if (p->net == CTL_NET_NONE)
		return BOX_NET_NONE;
	/* One that has ports of the host, and no address, has found that
	 * nothing else works here. */
	return p->net == CTL_NET_HOST || (p->net == CTL_NET_AUTO &&
					  p->database && !p->address)
		       ? BOX_NET_HOST
		       : BOX_NET_PRIVATE;
}

/* Where there is no sandbox nobody listens. */
bool ports_served(const struct call *c, const struct remote_env *e,
		  bool *ret_served)
{
	const struct box_spec spec = {
		.store = c->store, .env = e->name, .mount = e->path};
	_cleanup_box_ struct box box = {0};
	struct box_look look;
	const int r = box_join_any(&spec, &box, &look);

	memset(ret_served, 0, e->ports.count * sizeof *ret_served);
	return r == -ESRCH ||
	       (r == 0 && box_ports_served(box.pid, e->ports.v, e->ports.count,
					   ret_served) == 0);
}

/* --- variables ----------------------------------------------------------- */

void ports_vars(const struct ports_row *p, enum box_net net, struct buf *vars)
{
	struct box_ports v = {
		.v = p->v, .count = p->count, .host = "localhost"};

	if (net == BOX_NET_HOST) {
		v.v = p->host;
		v.count = ports_host_count(p);
		v.database = p->database;
	}
	box_ports_vars(&v, vars);
}

void ports_vars_outside(const struct ports_row *p, enum box_net net,
			struct buf *vars)
{
	char address[BOX_ADDRESS_BYTES];
	struct box_ports v = {.v = p->v, .count = p->count, .host = address};

	if (net == BOX_NET_HOST) {
		ports_vars(p, BOX_NET_HOST, vars);
	} else if (net == BOX_NET_PRIVATE && p->address) {
		box_address_text(p->address, address);
		box_ports_vars(&v, vars);
	}
}
