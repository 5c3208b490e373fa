/* SPDX-License-Identifier: MIT */
/*
 * zip.h - deflate and inflate with a size bound; the only user of zlib.
 *
 * Contract
 *   Ownership   caller's buffers
 *   Threads     any
 *   Errors      -EFSCORRUPTED: the stream is damaged or not of that size
 */
#ifndef COWFS_OBJECT_ZIP_H
#define COWFS_OBJECT_ZIP_H

#include "base/buf.h"

/* Appends the deflated bytes to out. */
_must_check_ int zip_deflate(const void *data, size_t len, struct buf *out);
/* Inflates into exactly raw_len bytes. */
_must_check_ int zip_inflate(const void *data, size_t len, void *raw,
			     size_t raw_len);

#endif
