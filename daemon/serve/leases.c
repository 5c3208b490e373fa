/* SPDX-License-Identifier: MIT */
/*
 * How: what an environment has stands in the index, and this process claims it
 * on the machine for as long as it lives (box/ports.c). A new one is a random
 * one that no row has, that can be claimed and whose ports bind. All under one
 * lock: hand-outs are rare.
 *
 * An address is new when a published port is taken at it. One that is taken at
 * each address that is tried is listened to on all of them.
 */
#include "serve/leases_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mutex.h"
#include "box/ports.h"

enum {
	/* Below those that the kernel gives to outgoing connections. */
	PORT_FIRST = 21000,
	PORT_COUNT = 11000,
	/* 127.64.0.1 to 127.127.255.254: nothing else is known to be there. */
	ADDRESS_FIRST = 0x7f400000,
	ADDRESS_MASK = 0x003fffff,
	ADDRESS_TRIES = 64,
	HAVE_MAX = LEASE_PORTS_MAX + 2,
};

struct claim {
	struct claim *next;
	struct lease lease;
	int fd;
};

struct leases {
	struct store *store;
	struct mutex lock;
	struct claim *claims; /* protected by lock */
};

/* What one call wants. */
struct wanted {
	const char *env;
	const struct env_ports *ports;
	enum leases_test test;
	struct diag *diag;
	const struct buf *rows; /* of struct lease: all there are */
	struct lease all[HAVE_MAX];
	size_t count;
};

/* --- claims -------------------------------------------------------------- */

static bool is_same(const struct lease *a, const struct lease *b)
{
	return a->kind == b->kind && a->number == b->number;
}

static void lease_text(const struct lease *l, char text[BOX_ADDRESS_BYTES])
{
	if (l->kind == LEASE_ADDRESS)
		box_address_text(l->number, text);
	else
		(void)snprintf(text, BOX_ADDRESS_BYTES, "%u", l->number);
}

static bool has_claim(const struct leases *l, const struct lease *lease)
{
	for (const struct claim *c = l->claims; c; c = c->next)
		if (is_same(&c->lease, lease))
			return true;
	return false;
}

static int claim(struct leases *l, const struct lease *lease)
{
	char text[BOX_ADDRESS_BYTES];
	struct claim *c;
	int fd;

	if (has_claim(l, lease))
		return 0;
	lease_text(lease, text);
	fd = box_port_claim(text);
	if (fd < 0)
		return fd;
	c = malloc(sizeof *c);
	if (!c) {
		(void)close(fd);
		return -ENOMEM;
	}
	*c = (struct claim){.next = l->claims, .lease = *lease, .fd = fd};
	l->claims = c;
	return 0;
}

/* Gives up the environment's claims that are not among these. */
static void unclaim(struct leases *l, const char *env, const struct lease *keep,
		    size_t count)
{
	struct claim **at = &l->claims;

	while (*at) {
		struct claim *c = *at;
		bool stays = strcmp(c->lease.env, env) != 0;

		for (size_t i = 0; i < count && !stays; i++)
			stays = is_same(&c->lease, &keep[i]);
		if (stays) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		(void)close(c->fd);
		free(c);
	}
}

static int claim_all(struct leases *l)
{
	_cleanup_buf_ struct buf rows = {0};
	int r = store_leases(l->store, &rows);

	for (size_t i = 0; r == 0 && i < lease_count(&rows); i++) {
		const struct lease row = lease_at(&rows, i);

		if (claim(l, &row) == -ENOMEM)
			r = -ENOMEM;
	}
	return r;
}

int leases_new(struct store *s, struct leases **ret_leases)
{
	struct leases *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return -ENOMEM;
	l->store = s;
	mutex_init(&l->lock);
	r = claim_all(l);
	if (r < 0) {
		leases_free(l);
		return r;
	}
	*ret_leases = l;
	return 0;
}

void leases_free(struct leases *l)
{
	if (!l)
		return;
	while (l->claims) {
		struct claim *next = l->claims->next;

		(void)close(l->claims->fd);
		free(l->claims);
		l->claims = next;
	}
	mutex_fini(&l->lock);
	free(l);
}

/* --- is it free ---------------------------------------------------------- */

/* Tries what a lease is for; on failure ret_port is what cannot be had. */
static int try_lease(const struct lease *l, const struct env_ports *ports,
		     uint16_t *ret_port)
{
	int r = 0;

	if (l->kind == LEASE_PORT) {
		*ret_port = (uint16_t)l->number;
		return box_port_try(0, *ret_port);
	}
	for (uint32_t i = 0; i < ports->count && r == 0; i++) {
		*ret_port = ports->v[i];
		r = box_port_try(l->number, *ret_port);
	}
	return r;
}

static bool is_given(const struct wanted *w, const struct lease *l)
{
	for (size_t i = 0; i < w->count; i++)
		if (is_same(&w->all[i], l))
			return true;
	for (size_t i = 0; i < lease_count(w->rows); i++) {
		const struct lease row = lease_at(w->rows, i);

		if (is_same(&row, l))
			return true;
	}
	return false;
}

static uint32_t number_at(enum lease_kind kind, uint32_t random, uint32_t i)
{
	uint32_t n;

	if (kind == LEASE_PORT)
		return PORT_FIRST + (random + i) % PORT_COUNT;
	/* Neither 0 nor 255 in the end, and another net each time. */
	n = (random + i * 0x10100) & ADDRESS_MASK & ~UINT32_C(0xff);
	return (uint32_t)ADDRESS_FIRST + n + 1 + random % 254;
}

static int fail_taken(const struct wanted *w, int err, uint16_t port)
{
	if (err == -EADDRINUSE)
		return diag_fail(w->diag, err,
				 "port %u: is taken on this machine", port);
	return diag_fail(w->diag, err, "port %u: %s", port, err_text(err));
}

/* Finds a new one. */
static int find_new(struct leases *l, struct wanted *w, struct lease *ret)
{
	const uint32_t tries =
		ret->kind == LEASE_PORT ? PORT_COUNT : ADDRESS_TRIES;
	uint32_t random = 0;
	uint16_t port = 0;
	int r = -EADDRINUSE;

	(void)!getrandom(&random, sizeof random, 0);
	for (uint32_t i = 0; r == -EADDRINUSE && i < tries; i++) {
		ret->number = number_at(ret->kind, random, i);
		if (is_given(w, ret) || has_claim(l, ret))
			continue;
		r = try_lease(ret, w->ports, &port);
		if (r == 0)
			r = claim(l, ret);
	}
	return r == 0 || r == -ENOMEM ? r : fail_taken(w, r, port);
}

/* --- handing out --------------------------------------------------------- */

static bool is_tested(const struct wanted *w, const struct lease *l)
{
	return w->test == LEASES_ALL ||
	       (w->test == LEASES_DATABASE && l->kind == LEASE_PORT &&
		l->use == LEASE_DATABASE);
}

/* What the environment has for this use, if that is still good. */
static bool find_old(struct leases *l, const struct wanted *w,
		     struct lease *ret)
{
	for (size_t i = 0; i < lease_count(w->rows); i++) {
		const struct lease row = lease_at(w->rows, i);
		uint16_t port;

		if (row.kind != ret->kind || row.use != ret->use ||
		    strcmp(row.env, w->env) != 0)
			continue;
		ret->number = row.number;
		return !is_tested(w, &row) ||
		       (claim(l, &row) == 0 &&
			try_lease(&row, w->ports, &port) == 0);
	}
	return false;
}

static int want(struct leases *l, struct wanted *w, enum lease_kind kind,
		uint16_t use)
{
	struct lease one = {.kind = kind, .use = use};
	int r = 0;

	(void)snprintf(one.env, sizeof one.env, "%s", w->env);
	if (!find_old(l, w, &one))
		r = find_new(l, w, &one);
	if (r == 0)
		w->all[w->count++] = one;
	return r;
}

/* What it has for another network stays as it is. */
static void keep_others(struct wanted *w, enum env_net net)
{
	const uint32_t uses = MAX(w->ports->count, 1U);

	for (size_t i = 0; i < lease_count(w->rows); i++) {
		const struct lease row = lease_at(w->rows, i);
		const bool is_port = row.kind == LEASE_PORT;

		if (strcmp(row.env, w->env) != 0 ||
		    is_port == (net == ENV_NET_HOST) ||
		    (is_port && row.use >= uses && row.use != LEASE_DATABASE) ||
		    (!is_port && !w->ports->count))
			continue;
		if (w->count < HAVE_MAX)
			w->all[w->count++] = row;
	}
}

static int want_all(struct leases *l, struct wanted *w, enum env_net net)
{
	const uint32_t uses = MAX(w->ports->count, 1U);
	int r = 0;

	if (net != ENV_NET_HOST)
		return net == ENV_NET_NONE || !w->ports->count
			       ? 0
			       : want(l, w, LEASE_ADDRESS, 0);
	for (uint32_t i = 0; i < uses && r == 0; i++)
		r = want(l, w, LEASE_PORT, (uint16_t)i);
	return r < 0 ? r : want(l, w, LEASE_PORT, LEASE_DATABASE);
}

/* Whether the index says so already. */
static bool is_known(const struct wanted *w)
{
	size_t own = 0, known = 0;

	for (size_t i = 0; i < lease_count(w->rows); i++) {
		const struct lease row = lease_at(w->rows, i);

		if (strcmp(row.env, w->env) != 0)
			continue;
		own++;
		for (size_t k = 0; k < w->count; k++)
			known += is_same(&row, &w->all[k]);
	}
	return own == w->count && known == w->count;
}

/* All that it had before. */
static void take_own(struct wanted *w)
{
	w->count = 0;
	for (size_t i = 0; i < lease_count(w->rows); i++) {
		const struct lease row = lease_at(w->rows, i);

		if (!strcmp(row.env, w->env) && w->count < HAVE_MAX)
			w->all[w->count++] = row;
	}
}

/* Mostly there is nothing, and nothing to wait for. The environment's rows are
 * changed by who has acquired it only. */
static int has_any(struct leases *l, const char *env)
{
	_cleanup_buf_ struct buf rows = {0};
	int r = store_leases(l->store, &rows);

	for (size_t i = 0; r == 0 && i < lease_count(&rows); i++) {
		const struct lease row = lease_at(&rows, i);

		if (!strcmp(row.env, env))
			return 1;
	}
	return r;
}

static int have_locked(struct leases *l, struct wanted *w, enum env_net net)
	REQUIRES(&l->lock);
static int have_locked(struct leases *l, struct wanted *w, enum env_net net)
{
	_cleanup_buf_ struct buf rows = {0};
	int r = store_leases(l->store, &rows);

	w->rows = &rows;
	if (r == 0)
		keep_others(w, net);
	if (r == 0)
		r = want_all(l, w, net);
	if (r == 0 && !is_known(w))
		r = store_lease_set(l->store, w->env, w->all, w->count);
	/* What was claimed in vain is free again. */
	if (r < 0)
		take_own(w);
	unclaim(l, w->env, w->all, w->count);
	return r;
}

int leases_have(struct leases *l, const char *env, enum env_net net,
		const struct env_ports *ports, enum leases_test test,
		struct diag *diag)
{
	_cleanup_free_ struct wanted *w = calloc(1, sizeof *w);
	const bool needs = net == ENV_NET_HOST || ports->count;
	int r = needs ? 1 : has_any(l, env);

	if (r <= 0 || !w)
		return r <= 0 ? r : -ENOMEM;
	w->env = env;
	w->ports = ports;
	w->test = test;
	w->diag = diag;
	mutex_lock(&l->lock);
	r = have_locked(l, w, net);
	mutex_unlock(&l->lock);
	if (r < 0 && !diag_line(diag, 0))
		diag_add(diag, "%s: its ports: %s", env, err_text(r));
	return r;
}

static int drop_locked(struct leases *l, const char *env) REQUIRES(&l->lock);
static int drop_locked(struct leases *l, const char *env)
{
	int r = store_lease_set(l->store, env, NULL, 0);

	if (r == 0)
		unclaim(l, env, NULL, 0);
	return r;
}

int leases_drop(struct leases *l, const char *env)
{
	int r = has_any(l, env);

	if (r <= 0)
		return r;
	mutex_lock(&l->lock);
	r = drop_locked(l, env);
	mutex_unlock(&l->lock);
	return r;
}
