/* SPDX-License-Identifier: MIT */
/*
 * rescues_int.h - the rows of rescues, for fsck.
 *
 * Contract
 *   Ownership   strings of a decoded row lie in the buffer that is given
 *   Threads     any
 */
#ifndef COWFS_STORE_RESCUES_INT_H
#define COWFS_STORE_RESCUES_INT_H

#include "store/index_int.h"
#include "store/rescues.h"

_must_check_ int rescue_encode(const struct rescue *r, struct buf *out);
_must_check_ int rescue_decode(struct index_key key, struct index_key value,
			       struct buf *strings, struct rescue *ret);

#endif
