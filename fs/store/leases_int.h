/* SPDX-License-Identifier: MIT */
/*
 * leases_int.h - the rows of leases, for fsck.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_STORE_LEASES_INT_H
#define COWFS_STORE_LEASES_INT_H

#include "store/index_int.h"
#include "store/leases.h"

enum { LEASE_KEY_BYTES = 5 };

void lease_key(const struct lease *l, uint8_t ret_key[LEASE_KEY_BYTES]);
_must_check_ int lease_decode(struct index_key key, struct index_key value,
			      struct lease *ret);
/* Says whether the folder of its environment is missing. */
bool lease_is_stray(struct store *s, const struct lease *l);

#endif
