/* SPDX-License-Identifier: MIT */
/*
 * format.h - every magic, version and limit of the formats, once.
 *
 * docs/format.md describes the bytes; numbers that both need stand here.
 * All integers on disk are little-endian and unaligned.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_OBJECT_FORMAT_H
#define COWFS_OBJECT_FORMAT_H

#include <stdint.h>

enum {
	FORMAT_VERSION = 1,   /* of the store */
	FORMAT_HASH_XXH3 = 1, /* algorithm byte: XXH3-128 plus length */

	FORMAT_TREE_MAGIC = 0x31545743,	    /* "CWT1" */
	FORMAT_MANIFEST_MAGIC = 0x314d5743, /* "CWM1" */
	FORMAT_LINKS_MAGIC = 0x314c5743,    /* "CWL1" */
	FORMAT_XSET_MAGIC = 0x31585743,	    /* "CWX1" */
	FORMAT_SNAP_MAGIC = 0x31535743,	    /* "CWS1" */
	FORMAT_RECORD_MAGIC = 0x31525743,   /* "CWR1" in a segment */
	FORMAT_SEGMENT_MAGIC = 0x31475743,  /* "CWG1" at a segment's start */
	FORMAT_JOURNAL_MAGIC = 0x314a5743,  /* "CWJ1" */
	FORMAT_ENV_MAGIC = 0x31455743,	    /* "CWE1" */
	FORMAT_SCAN_MAGIC = 0x314e5743,	    /* "CWN1" in STORE/scans */
	FORMAT_SCAN_VERSION = 1,
	FORMAT_MEMO_MAGIC = 0x31495743, /* "CWI1" in STORE/scans */
	FORMAT_MEMO_VERSION = 1,
	FORMAT_COPIES_MAGIC = 0x314b5743, /* "CWK1" */

	/* A file above one chunk is always a manifest of chunks of this size.
	 */
	FORMAT_CHUNK_SHIFT = 17,
	FORMAT_CHUNK_BYTES = 1 << FORMAT_CHUNK_SHIFT,

	FORMAT_MAX_TARGET = 4095,	   /* bytes of a symlink */
	FORMAT_MAX_XATTR_NAME = 255,	   /* as the kernel's */
	FORMAT_MAX_XATTR_VALUE = 1 << 16,  /* as the kernel's */
	FORMAT_MAX_XATTRS_BYTES = 1 << 20, /* of one file, encoded */
	FORMAT_MAX_OBJECT = 1 << 30,	   /* bytes of any object */
	FORMAT_MAX_DEPTH = 4096,	   /* directories above an entry */
	FORMAT_MAX_PORTS = 64,		   /* that an environment publishes */
};

/* Inode numbers stay below 2^53: JavaScript reads st_ino as a double. */
#define FORMAT_MAX_INODE ((UINT64_C(1) << 53) - 1)
/* The largest file: what a manifest of FORMAT_MAX_OBJECT bytes can name. */
#define FORMAT_MAX_FILE (UINT64_C(1) << 42)
/* Seconds that a mount may be given: a hundred years. */
#define FORMAT_MAX_TTL (100 * UINT64_C(366) * 86400)

#endif
