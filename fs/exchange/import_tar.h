/* SPDX-License-Identifier: MIT */
/*
 * import_tar.h - an archive becomes a snapshot, without being unpacked.
 *
 * tar in all its forms, plain or compressed by gzip, zstd, xz or bzip2, read
 * once from front to end. The id is that of the directory that tar would make
 * of it. Archives are not trusted: docs/man/cowfs-import.1 says what is
 * refused.
 *
 * Contract
 *   Ownership   everything stays the caller's
 *   Durability  the snapshot is on stable storage when import_tar returns 0;
 *               before that nothing is visible
 *   Threads     one import per call; several processes may import at once
 *   Errors      -EFSCORRUPTED: no archive, or a damaged or truncated one;
 *               -EFBIG, -EMFILE: beyond the limits; -EINVAL: an entry that is
 *               refused. diag says where
 */
#ifndef COWFS_EXCHANGE_IMPORT_TAR_H
#define COWFS_EXCHANGE_IMPORT_TAR_H

#include "exchange/import_dir.h"

/* What an archive may hold when nothing else is said. */
#define IMPORT_TAR_BYTES (UINT64_C(256) << 30)
#define IMPORT_TAR_FILES UINT64_C(4000000)

struct import_tar_source {
	int fd;
	const char *path;   /* for the snapshot's record; "" */
	const char *ref;    /* NAME:TAG, normalized; may be NULL */
	uint64_t max_bytes; /* of all files, holes included */
	uint64_t max_files; /* names, the root included */
};

/* Imports an archive; of the options those that speak of reading a directory
 * say nothing. */
_must_check_ int import_tar(struct store *s,
			    const struct import_tar_source *source,
			    const struct import_options *options,
			    struct diag *notes, struct diag *diag,
			    struct import_result *ret_result);

#endif
