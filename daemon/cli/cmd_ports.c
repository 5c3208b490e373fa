/* SPDX-License-Identifier: MIT */
/*
 * cmd_ports.c - `cowfs ports`: where the host reaches an environment's servers.
 *
 * With a private network that is the environment's address and a socket for
 * each published port; with the host's the ports that were leased, at which its
 * servers have to listen: the variables tell them. No server is started for
 * this, and none is asked whether it is there.
 */
#include "cli/cmd.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "box/ports.h"
#include "cli/remote.h"

static const struct out_col columns[] = {
	{"variable", "VARIABLE", OUT_STR}, {"port", "PORT", OUT_COUNT},
	{NULL, "ADDRESS", OUT_STR},	   {"host", NULL, OUT_STR},
	{"host_port", NULL, OUT_COUNT},	   {"url", NULL, OUT_STR},
	{"listening", "LISTENING", OUT_BOOL}, {"socket", "SOCKET", OUT_STR},
};

struct place {
	const char *variable;
	unsigned port; /* published; 0: none */
	const char *host;
	unsigned host_port;
	const char *socket;   /* or NULL */
	const bool *listening; /* NULL: nobody can tell */
};

static void put_place(struct out *o, const struct place *p)
{
	char address[32], url[48];

	(void)snprintf(address, sizeof address, "%s:%u", p->host, p->host_port);
	(void)snprintf(url, sizeof url, "http://%s", address);
	out_row(o, (struct out_cell[]){
			   out_str(p->variable),
			   out_num_if(p->port, p->port),
			   out_str(address),
			   out_str(p->host),
			   out_num(p->host_port),
			   out_str(p->variable[0] == 'P' ? NULL : url),
			   p->listening ? out_num(*p->listening)
					: (struct out_cell){.none = true},
			   out_str(p->socket),
		   });
}

static void put_private(struct out *o, const struct call *c,
			const struct remote_env *e)
{
	char host[BOX_ADDRESS_BYTES], variable[32], path[PATH_MAX];
	const struct ports_row *p = &e->ports;
	bool served[FORMAT_MAX_PORTS];
	const bool known = ports_served(c, e, served);

	box_address_text(p->address, host);
	for (size_t i = 0; i < p->count; i++) {
		(void)snprintf(variable, sizeof variable, "COWFS_PORT_%zu", i);
		(void)snprintf(path, sizeof path,
			       "%s/envs/%s/box/" BOX_RUN "/%u.sock", c->store,
			       e->name, p->v[i]);
		put_place(o, &(struct place){.variable = variable,
					     .port = p->v[i],
					     .host = host,
					     .host_port = p->v[i],
					     .listening = known ? &served[i]
								: NULL,
					     .socket = path});
	}
}

static void put_host(struct out *o, const struct ports_row *p)
{
	const size_t count = ports_host_count(p);
	uint16_t all[FORMAT_MAX_PORTS + 1];
	bool served[FORMAT_MAX_PORTS + 1], known;
	char variable[32];

	memcpy(all, p->host, count * sizeof *all);
	all[count] = p->database;
	known = box_ports_served(0, all, count + 1, served) == 0;
	for (size_t i = 0; i < count; i++) {
		(void)snprintf(variable, sizeof variable, "COWFS_PORT_%zu", i);
		put_place(o, &(struct place){.variable = variable,
					     .port = i < p->count ? p->v[i] : 0,
					     .host = "127.0.0.1",
					     .host_port = p->host[i],
					     .listening = known ? &served[i]
								: NULL});
	}
	put_place(o, &(struct place){.variable = "PGPORT",
				     .host = "127.0.0.1",
				     .host_port = p->database,
				     .listening = known ? &served[count]
							: NULL});
}

static int run(struct call *c)
{
	const char *name = c->args->args[0];
	_cleanup_out_ struct out o;
	struct remote_env e;
	enum box_net net;
	int r;

	out_init(&o, c->json, OUT_TABLE, columns, ARRAY_SIZE(columns));
	r = remote_list_one(c, name, &e);
	if (r)
		return r;
	net = ports_net(c, &e);
	if (net == BOX_NET_PRIVATE && e.ports.address)
		put_private(&o, c, &e);
	else if (net == BOX_NET_HOST && e.ports.database)
		put_host(&o, &e.ports);
	return call_finish(c, &o, CODE_DONE);
}

const struct verb cmd_ports = {
	.name = "ports",
	.synopsis = "ENV",
	.summary = "say where the host reaches an environment's servers",
	.text = "With a private network: at an address of its own and at a "
		"socket, by the ports that\n\"mount --port\" has named. With "
		"the host's network: at ports that are leased, which\nthe "
		"variables tell the commands of \"run\". LISTENING: whether a "
		"server is there now.",
	.arg = ARG_ENV,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
