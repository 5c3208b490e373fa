/* SPDX-License-Identifier: MIT */
/*
 * leases_int.h - ports and addresses that environments have on this machine.
 *
 * Contract
 *   Ownership   leases_new/leases_free
 *   Durability  what leases_have has answered is in the index
 *   Threads     any; an environment's are changed by who has acquired it
 *   Errors      -EADDRINUSE, -EACCES: what is published cannot be had, and
 *               diag says which
 */
#ifndef COWFS_SERVE_LEASES_INT_H
#define COWFS_SERVE_LEASES_INT_H

#include "base/diag.h"
#include "env/env.h"
#include "store/leases.h"

struct leases;

/* Claims all that the store's index has; those that cannot be are exchanged
 * when they are tested. */
_must_check_ int leases_new(struct store *s, struct leases **ret_leases);
void leases_free(struct leases *l);

enum leases_test {
	LEASES_MISSING, /* what is there stays as it is */
	LEASES_ALL,	/* what is taken is exchanged: nothing of it runs */
	LEASES_DATABASE /* the same of the database's port only */
};

/* Sees to it that an environment has what its network needs, each tried to be
 * free: with the host's a port for each published one, but one at least, and
 * one for a database; else an address, if anything is published. */
_must_check_ int leases_have(struct leases *l, const char *env,
			     enum env_net net, const struct env_ports *ports,
			     enum leases_test test, struct diag *diag);
/* Frees all of an environment. */
_must_check_ int leases_drop(struct leases *l, const char *env);

#endif
