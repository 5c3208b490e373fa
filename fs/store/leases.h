/* SPDX-License-Identifier: MIT */
/*
 * leases.h - which ports and addresses of this machine environments have.
 *
 * A row for each: the port or address, and the environment whose it is. What is
 * free on the machine, the caller tries; here it is only seen to that nothing
 * is given twice, and that an environment has one of a kind for each use.
 *
 * Contract
 *   Ownership   the caller frees rows
 *   Durability  store_lease_set, _sweep: on stable storage when they return
 *   Threads     any
 *   Errors      -EFSCORRUPTED: a row makes no sense
 */
#ifndef COWFS_STORE_LEASES_H
#define COWFS_STORE_LEASES_H

#include "base/buf.h"
#include "base/name.h"
#include "object/format.h"
#include "store/store.h"

#include <string.h>

enum lease_kind {
	LEASE_PORT = 1,	   /* a TCP port of the host */
	LEASE_ADDRESS = 2, /* an address of its loopback, 127.x.y.z */
	LEASE_KIND_END
};

/* What a port is for: the number of a published one, or this. */
enum { LEASE_DATABASE = 0xffff, LEASE_PORTS_MAX = FORMAT_MAX_PORTS };

struct lease {
	enum lease_kind kind;
	uint32_t number; /* the port; the address, in the host's byte order */
	uint16_t use;	 /* of an address: 0 */
	char env[NAME_MAX_LABEL + 1];
};

/* Adds all to rows, by kind and number. */
_must_check_ int store_leases(struct store *s, struct buf *rows);
static inline size_t lease_count(const struct buf *rows)
{
	return rows->len / sizeof(struct lease);
}
static inline struct lease lease_at(const struct buf *rows, size_t i)
{
	struct lease l;

	memcpy(&l, rows->data + i * sizeof l, sizeof l);
	return l;
}
/* Makes these all that the environment has; none: they are free. No commit
 * when they are that already. -EEXIST: one of them is another's. */
_must_check_ int store_lease_set(struct store *s, const char *env,
				 const struct lease *all, size_t count);
/* Frees those of environments that are gone; says how many. */
_must_check_ int store_lease_sweep(struct store *s, size_t *ret_count);
/* Says how many that would be. */
_must_check_ int store_lease_count_stray(struct store *s, size_t *ret_count);

#endif
