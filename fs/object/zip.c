/* SPDX-License-Identifier: MIT */
/*
 * How: zlib's one-call interface with its own header and checksum, level 6.
 * The raw size is known from the object's name, so inflating never grows a
 * buffer and a stream that would yield more, or less, is damage.
 */
#include "object/zip.h"

#include "base/err.h"

#include <zlib.h>

enum { ZIP_LEVEL = 6 };

int zip_deflate(const void *data, size_t len, struct buf *out)
{
	uLongf room = compressBound(len);
	int r = buf_reserve(out, room);

	if (r < 0)
		return r;
	/* With that room it can only fail for want of memory. */
	if (compress2(out->data + out->len, &room, data, len, ZIP_LEVEL) !=
	    Z_OK)
		return -ENOMEM;
	out->len += room;
	return 0;
}

int zip_inflate(const void *data, size_t len, void *raw, size_t raw_len)
{
	uLongf got = raw_len;
	uLong used = len;
	int r = uncompress2(raw, &got, data, &used);

	if (r == Z_MEM_ERROR)
		return -ENOMEM;
	/* Bytes after the stream's end are damage too. */
	if (r != Z_OK || got != raw_len || used != len)
		return -EFSCORRUPTED;
	return 0;
}
