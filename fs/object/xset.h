/* SPDX-License-Identifier: MIT */
/*
 * xset.h - the extended attributes of one file, as one object.
 *
 * Pairs sorted by name bytes, each name once.
 *
 * Contract
 *   Ownership   readers borrow the encoded bytes
 *   Threads     any
 *   Errors      -EFSCORRUPTED from xset_open
 */
#ifndef COWFS_OBJECT_XSET_H
#define COWFS_OBJECT_XSET_H

#include "base/buf.h"
#include "base/bytes.h"
#include "object/oid.h"

struct xset {
	struct bytes rest; /* pairs not read yet */
	uint32_t left;
};

struct xset_pair {
	const char *name; /* not NUL-terminated */
	size_t name_len;
	const uint8_t *value;
	size_t value_len;
};

/* Checks all bytes and starts an iteration. */
_must_check_ int xset_open(const void *data, size_t len, struct xset *ret_set);
/* Reads the next pair; false at the end. */
bool xset_next(struct xset *s, struct xset_pair *ret_pair);
/* Encodes pairs; sorts the array in place. -EINVAL: a name twice or a bound
 * exceeded. */
_must_check_ int xset_encode(struct xset_pair *pairs, uint32_t count,
			     struct buf *out);

#endif
