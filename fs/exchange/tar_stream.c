/* SPDX-License-Identifier: MIT */
/*
 * tar_stream.c - the entries of an archive, one after the other.
 *
 * How: two readers of libarchive, one behind the other. The first takes
 * compression away (its format "raw" is a stream of bytes), the second reads
 * tar. Only so the bytes between them can be seen: an archive that was cut off
 * between two entries looks whole to libarchive, as to tar, but it lacks the
 * block of zeros that ends every archive.
 *
 * Four compressions are asked for by name and no other format is: nothing else
 * of libarchive can be reached by an archive, above all no outside program.
 *
 * Names are taken as bytes. libarchive would change those in UTF-8 (it composes
 * letters and accents), but not in the locale "C", which cowfs runs in.
 */
#include "exchange/tar_int.h"

#include <string.h>

#include "base/err.h"
#include "base/io.h"

enum { IN_BYTES = 256 << 10 };

/* --- reading ---------------------------------------------------------------
 */

static la_ssize_t read_file(struct archive *a, void *ctx, const void **ret_data)
{
	struct tar_stream *s = ctx;
	ssize_t n;

	do
		n = read(s->fd, s->in, IN_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		s->err = -errno;
		archive_set_error(a, errno, "%s", err_text(errno));
	}
	*ret_data = s->in;
	return n;
}

/* Keeps the last bytes of the piece that goes. */
static void keep_tail(struct tar_stream *s)
{
	const size_t n = MIN(s->piece_len, (size_t)TAR_BLOCK);

	if (!n)
		return;
	memmove(s->tail, s->tail + n, TAR_BLOCK - n);
	memcpy(s->tail + TAR_BLOCK - n, s->piece + s->piece_len - n, n);
	s->given += s->piece_len;
	s->piece_len = 0;
}

static la_ssize_t read_plain(struct archive *a, void *ctx,
			     const void **ret_data)
{
	struct tar_stream *s = ctx;
	la_int64_t at;
	const void *data;
	size_t n;
	int r;

	keep_tail(s);
	do
		r = archive_read_data_block(s->plain, &data, &n, &at);
	while (r == ARCHIVE_OK && !n);
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK) {
		const char *why = archive_error_string(s->plain);

		archive_set_error(a, EIO, "%s", why ? why : "cannot be read");
		return -1;
	}
	s->piece = data;
	s->piece_len = n;
	*ret_data = data;
	return (la_ssize_t)n;
}

/* Says whether the block before the place where tar stopped is zero. */
static bool has_end(const struct tar_stream *s)
{
	const uint64_t at = (uint64_t)archive_filter_bytes(s->tar, 0);
	bool zero = at >= TAR_BLOCK;

	for (uint64_t i = at - TAR_BLOCK; zero && i < at; i++) {
		if (i >= s->given)
			zero = i - s->given < s->piece_len &&
			       !s->piece[i - s->given];
		else
			zero = s->given - i <= TAR_BLOCK &&
			       !s->tail[TAR_BLOCK - (s->given - i)];
	}
	return zero;
}

/* --- messages --------------------------------------------------------------
 */

int tar_stream_fail(const struct tar_stream *s, struct diag *diag,
		    const char *what)
{
	const char *why = archive_error_string(s->tar);

	if (s->err < 0)
		return diag_fail(diag, s->err, "%s: %s", what,
				 err_text(s->err));
	if (archive_errno(s->tar) == ENOMEM)
		return -ENOMEM;
	return diag_fail(diag, -EFSCORRUPTED, "%s: %s", what,
			 why ? why : "cannot be read");
}

static int fail_plain(const struct tar_stream *s, struct diag *diag)
{
	const char *why = archive_error_string(s->plain);

	if (s->err < 0)
		return diag_fail(diag, s->err, "archive: %s", err_text(s->err));
	if (archive_errno(s->plain) == ENOMEM)
		return -ENOMEM;
	if (!why || strstr(why, "Unrecognized"))
		why = "it is empty";
	return diag_fail(diag, -EFSCORRUPTED, "archive: %s", why);
}

/* --- opening ---------------------------------------------------------------
 */

static int open_plain(struct tar_stream *s, struct diag *diag)
{
	struct archive_entry *e;

	s->plain = archive_read_new();
	if (!s->plain)
		return -ENOMEM;
	(void)archive_read_support_filter_bzip2(s->plain);
	(void)archive_read_support_filter_gzip(s->plain);
	(void)archive_read_support_filter_xz(s->plain);
	(void)archive_read_support_filter_zstd(s->plain);
	(void)archive_read_support_format_raw(s->plain);
	if (archive_read_open(s->plain, s, NULL, read_file, NULL) !=
		    ARCHIVE_OK ||
	    archive_read_next_header(s->plain, &e) != ARCHIVE_OK)
		return fail_plain(s, diag);
	return 0;
}

int tar_stream_open(struct tar_stream *s, int fd, struct diag *diag)
{
	int r;

	*s = (struct tar_stream){.fd = fd};
	s->in = malloc(IN_BYTES);
	if (!s->in)
		return -ENOMEM;
	r = open_plain(s, diag);
	if (r < 0)
		return r;
	s->tar = archive_read_new();
	if (!s->tar)
		return -ENOMEM;
	(void)archive_read_support_format_tar(s->tar);
	if (archive_read_open(s->tar, s, NULL, read_plain, NULL) != ARCHIVE_OK)
		return tar_stream_fail(s, diag, "archive");
	return 0;
}

void tar_stream_close(struct tar_stream *s)
{
	(void)archive_read_free(s->tar);
	(void)archive_read_free(s->plain);
	free(s->in);
}

int tar_stream_next(struct tar_stream *s, struct diag *diag,
		    struct archive_entry **ret_entry)
{
	const int r = archive_read_next_header(s->tar, ret_entry);

	/* a warning tells that a name is no text of this locale: its bytes
	 * are there */
	if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
		return 1;
	if (r != ARCHIVE_EOF)
		return tar_stream_fail(s, diag, "archive");
	if (!has_end(s))
		return diag_fail(diag, -EFSCORRUPTED,
				 "archive: it ends before its end marker: "
				 "truncated");
	return 0;
}
