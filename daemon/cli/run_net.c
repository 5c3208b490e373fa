/* SPDX-License-Identifier: MIT */
/*
 * run_net.c - the sandbox of a command, with the network that it can have.
 *
 * What --net asks for comes first, then what is kept with the environment.
 * Where neither says anything it is that of the sandbox that runs; else a
 * private one, and where bubblewrap cannot make that the host's. Only trying
 * tells: which name spaces a user may have depends on the program that asks.
 */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

static int find_allowed(const struct call *c, struct run_spec *s)
{
	const struct opt_args *a = c->args;

	s->allow = calloc(a->item_count + 1, sizeof *s->allow);
	if (!s->allow)
		return call_fail_err(c, -ENOMEM, NULL, "run");
	for (size_t i = 0; i < a->item_count; i++) {
		if (a->items[i].opt != RUN_ALLOW_HOST)
			continue;
		if (!proxy_is_rule(a->items[i].value))
			return call_fail(c, CODE_USAGE,
					 "--allow-host: %s: not HOST, "
					 "HOST:PORT or *.DOMAIN",
					 a->items[i].value);
		s->allow[s->spec.allow_count++] = a->items[i].value;
	}
	s->spec.allow = s->allow;
	if (!s->spec.allow_count)
		return CODE_DONE;
	s->any_net = false;
	return s->spec.net == BOX_NET_PRIVATE
		       ? CODE_DONE
		       : call_fail(c, CODE_USAGE,
				   "--allow-host: only with --net private");
}

int run_net_find(const struct call *c, const struct ports_row *kept,
		 struct run_spec *s)
{
	static const enum box_net nets[] = {[CTL_NET_AUTO] = BOX_NET_PRIVATE,
					    [CTL_NET_HOST] = BOX_NET_HOST,
					    [CTL_NET_PRIVATE] = BOX_NET_PRIVATE,
					    [CTL_NET_NONE] = BOX_NET_NONE};
	enum ctl_net net;
	int r = ports_parse_net(c, opt_value(c->args, RUN_NET), &net);

	if (r)
		return r;
	if (net == CTL_NET_AUTO && kept->net < ARRAY_SIZE(nets))
		net = kept->net;
	s->ports = *kept;
	s->spec.net = nets[net];
	s->any_net = net == CTL_NET_AUTO;
	return find_allowed(c, s);
}

/* What it has to have leased before it starts. */
static int lease(const struct call *c, int *fd, struct run_spec *s)
{
	int r = ports_lease(c, fd, s->spec.env, s->spec.net, false, &s->ports);

	s->spec.ports = s->ports.v;
	s->spec.port_count =
		s->spec.net == BOX_NET_PRIVATE ? s->ports.count : 0;
	s->spec.address = s->ports.address;
	return r;
}

static void take_running(struct run_spec *s)
{
	_cleanup_box_ struct box box = {0};
	struct box_look look;

	if (s->any_net && box_join_any(&s->spec, &box, &look) == 0)
		s->spec.net = look.net;
}

/* Whether AppArmor takes the rights from who makes a user name space. */
static bool is_restricted(void)
{
	enum { WORD_MAX = 64 };
	_cleanup_buf_ struct buf text = {0};

	return geteuid() != 0 &&
	       io_read_file(AT_FDCWD,
			    "/proc/sys/kernel/"
			    "apparmor_restrict_unprivileged_userns",
			    WORD_MAX, &text) == 0 &&
	       text.len && text.data[0] == '1';
}

/* Its commands see the host's servers, and listen at other ports. */
static void tell_host(const struct call *c, const char *why)
{
	(void)call_fail(c, 0,
			"no private network here, so it is the host's: %s; %s",
			why ? why : "bubblewrap has failed",
			is_restricted()
				? "install bubblewrap's AppArmor profile "
				  "(docs/sandbox.md)"
				: "\"cowfs doctor\" tells what is missing");
}

/* Returns CODE_DONE when the host's network is what works. */
static int open_with_host(const struct call *c, int *fd, struct run_spec *s,
			  struct box *ret_box)
{
	int r;

	s->spec.net = BOX_NET_HOST;
	r = lease(c, fd, s);
	if (r)
		return r;
	return box_open(&s->spec, NULL, ret_box) < 0 ? CODE_FAILED : CODE_DONE;
}

int run_box_open(const struct call *c, int *fd, struct run_spec *s,
		 struct box *ret_box)
{
	_cleanup_diag_ struct diag diag = {0};
	int code, err;

	take_running(s);
	code = lease(c, fd, s);
	if (code)
		return code;
	err = box_join(&s->spec, &diag, ret_box);
	if (err != -ESRCH)
		return err < 0 ? call_fail_err(c, err, &diag, "sandbox")
			       : CODE_DONE;
	code = run_spec_hide(c, fd, s);
	if (code)
		return code;
	err = box_open(&s->spec, &diag, ret_box);
	if (err == -EPERM && s->any_net &&
	    open_with_host(c, fd, s, ret_box) == CODE_DONE) {
		tell_host(c, diag_line(&diag, 0));
		err = 0;
	}
	return err < 0 ? call_fail_err(c, err, &diag, "sandbox") : CODE_DONE;
}
