/* SPDX-License-Identifier: MIT */
/*
 * How: zlib's one-call interface with its own header and checksum, level 6.
 * The raw size is known from the object's name, so inflating never grows a
 * buffer and a stream that would yield more, or less, is damage.
 */
#include "object/zip.h"

#include "base/err.h"

#include <zlib.h>

enum { ZIP_LEVEL = 6, ZIP_LEVEL_STREAM = 1, ZIP_PIECE = 64 << 10 };

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

struct zip_out {
	z_stream stream;
};

int zip_out_new(struct zip_out **ret_zip)
{
	struct zip_out *z = calloc(1, sizeof *z);

	if (!z)
		return -ENOMEM;
	if (deflateInit(&z->stream, ZIP_LEVEL_STREAM) != Z_OK) {
		free(z);
		return -ENOMEM;
	}
	*ret_zip = z;
	return 0;
}

void zip_out_free(struct zip_out *z)
{
	if (!z)
		return;
	(void)deflateEnd(&z->stream);
	free(z);
}

/* Goes on until all that was taken has come out. */
static int stream_run(z_stream *s, int flush, struct buf *out)
{
	int r;

	do {
		r = buf_reserve(out, ZIP_PIECE);
		if (r < 0)
			return r;
		s->next_out = out->data + out->len;
		s->avail_out = ZIP_PIECE;
		r = deflate(s, flush);
		if (r == Z_STREAM_ERROR)
			return -EINVAL;
		out->len += ZIP_PIECE - s->avail_out;
	} while (s->avail_out == 0 || (flush == Z_FINISH && r == Z_OK));
	return 0;
}

int zip_out_add(struct zip_out *z, const void *data, size_t len, bool last,
		struct buf *out)
{
	/* zlib counts in 32 bits, and does not write here */
	uint8_t *next = (uint8_t *)(uintptr_t)data;
	int r = 0;

	do {
		const uInt part = (uInt)MIN(len, (size_t)1 << 30);
		const bool end = last && part == len;

		z->stream.next_in = next;
		z->stream.avail_in = part;
		r = stream_run(&z->stream, end ? Z_FINISH : Z_NO_FLUSH, out);
		next += part;
		len -= part;
	} while (len && r == 0);
	if (r == 0 && last && deflateReset(&z->stream) != Z_OK)
		r = -EINVAL;
	return r;
}

uint32_t zip_crc32(uint32_t crc, const void *data, size_t len)
{
	return (uint32_t)crc32_z(crc, data, len);
}
