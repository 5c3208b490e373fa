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

/* Deflates a stream piece by piece. */
struct zip_out;
_must_check_ int zip_out_new(struct zip_out **ret_zip);
void zip_out_free(struct zip_out *z);
/* Appends what became of these bytes, and of all before when they are the last.
 * After the last ones the next stream may begin. */
_must_check_ int zip_out_add(struct zip_out *z, const void *data, size_t len,
			     bool last, struct buf *out);
/* The checksum of gzip, begun with 0. */
uint32_t zip_crc32(uint32_t crc, const void *data, size_t len);

#endif
