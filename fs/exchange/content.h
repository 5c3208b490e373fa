/* SPDX-License-Identifier: MIT */
/*
 * content.h - the bytes of a file that is stored, from front to end.
 *
 * Contract
 *   Ownership   bytes are lent to the callback
 *   Durability  none
 *   Threads     as `get`
 *   Errors      those of `get` and of the callback, which end it;
 *               -EFSCORRUPTED for a manifest that its chunks do not fit
 */
#ifndef COWFS_EXCHANGE_CONTENT_H
#define COWFS_EXCHANGE_CONTENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "object/oid.h"

/* Appends an object's bytes: store_get, or what sees a batch, too. */
typedef int (*content_get_fn)(void *from, const struct oid *id,
			      struct buf *out);
typedef int (*content_bytes_fn)(void *ctx, const void *data, size_t len);
/* Calls fn for each chunk in order; for a null content not at all. */
_must_check_ int content_read(const struct oid *content, content_get_fn get,
			      void *from, content_bytes_fn fn, void *ctx);

#endif
