/* SPDX-License-Identifier: MIT */
/*
 * tar_try.c - what CMake links to see whether libarchive's archive does with
 * the decompressors alone: the parts of it that tar_stream.c uses.
 */
#include <archive.h>
#include <archive_entry.h>

int main(void)
{
	struct archive *in = archive_read_new();
	struct archive_entry *e = NULL;

	(void)archive_read_support_filter_bzip2(in);
	(void)archive_read_support_filter_gzip(in);
	(void)archive_read_support_filter_xz(in);
	(void)archive_read_support_filter_zstd(in);
	(void)archive_read_support_format_raw(in);
	(void)archive_read_support_format_tar(in);
	(void)archive_read_next_header(in, &e);
	(void)archive_entry_acl_reset(e, ARCHIVE_ENTRY_ACL_TYPE_ACCESS);
	return archive_read_free(in);
}
