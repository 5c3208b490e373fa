/* SPDX-License-Identifier: MIT */
/*
 * ports.h - the network, the published ports and the leases of an environment.
 *
 * Contract
 *   Ownership   strings are lent
 *   Threads     one
 *   Errors      exit codes of exitcode.h; the error has been said
 */
#ifndef COWFS_CLI_PORTS_H
#define COWFS_CLI_PORTS_H

#include "box/box.h"
#include "cli/cmd.h"
#include "ctl/proto.h"
#include "object/format.h"

#define PORTS_HELP                                                             \
	"PORT is what a server in the environment listens at; \"cowfs "        \
	"ports\" "                                                             \
	"tells where the\nhost reaches it. \"none\": no port."

/* What options ask for. */
struct ports_wish {
	bool has_net, has_ports;
	enum ctl_net net;
	uint16_t v[FORMAT_MAX_PORTS];
	size_t count;
};

/* Reads the values of options by their numbers in the verb's table. */
_must_check_ int ports_parse(const struct call *c, size_t net_opt,
			     size_t port_opt, struct ports_wish *ret_wish);
/* Reads the value of --net; CTL_NET_AUTO when there is none. */
_must_check_ int ports_parse_net(const struct call *c, const char *text,
				 enum ctl_net *ret_net);
void ports_ask(struct msg *m, const struct ports_wish *w);

/* What a row of LIST or SHOW, or the answer to PORTS, says. */
struct ports_row {
	enum ctl_net net;
	uint16_t v[FORMAT_MAX_PORTS]; /* published */
	size_t count;
	uint32_t address;		 /* 0: none is leased */
	uint16_t host[FORMAT_MAX_PORTS]; /* leased ports of the host; 0 */
	uint16_t database;		 /* likewise */
};
void ports_read_row(const struct msg *row, struct ports_row *ret_row);
/* How many ports of the host an environment has with the host's network. */
size_t ports_host_count(const struct ports_row *p);
/* Asks for what a network needs, when it is not leased already. renew: another
 * port for the database where its is taken. */
_must_check_ int ports_lease(const struct call *c, int *fd, const char *env,
			     enum box_net net, bool renew, struct ports_row *p);

struct remote_env;
/* The network that its commands have, or will have. */
enum box_net ports_net(const struct call *c, const struct remote_env *e);
/* Says of each published port of a private network whether a server listens
 * there; false: nobody can tell. */
_must_check_ bool ports_served(const struct call *c, const struct remote_env *e,
			       bool *ret_served);

/* Sets the variables of a command with that network. */
void ports_vars(const struct ports_row *p, enum box_net net, struct buf *vars);
/* The same for who works on the host. */
void ports_vars_outside(const struct ports_row *p, enum box_net net,
			struct buf *vars);

#endif
