/* SPDX-License-Identifier: MIT */
/*
 * pax.h - the header of one entry of an archive, as bytes.
 *
 * The form is pax (POSIX 1003.1-2001, ustar with extended headers), with what
 * GNU tar and libarchive both read for the rest: SCHILY.xattr and SCHILY.acl,
 * GNU sparse files 1.0. The bytes are a function of the entry alone: no clock,
 * locale, process or machine has a part in them (docs/adr/0027).
 *
 * Contract
 *   Ownership   everything is lent
 *   Threads     any
 *   Errors      those of the buffer
 */
#ifndef COWFS_EXCHANGE_PAX_H
#define COWFS_EXCHANGE_PAX_H

#include "base/buf.h"

enum { PAX_BLOCK = 512 };

/* A part of a sparse file that is data. */
struct pax_extent {
	uint64_t at;
	uint64_t len;
};

struct pax_entry {
	const char *path;
	const char *link;  /* of a symbolic link; the first name of a hard
			    * link; or NULL */
	bool is_hard_link; /* mode and the rest are those of the file */
	uint32_t mode;	   /* as st_mode */
	uint32_t uid;
	uint32_t gid;
	uint64_t rdev;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint64_t size; /* of a regular file */
	/* NULL: the file has no holes. */
	const struct pax_extent *extents;
	size_t extent_count;
	const void *xattrs; /* in the form of xset.h, checked; or NULL */
	size_t xattrs_len;
};

/* Appends all that comes before the data: headers, and of a sparse file the
 * list of its extents. */
void pax_header(const struct pax_entry *e, struct buf *out);
/* Appends zeros: data of n bytes is filled up to whole blocks. */
void pax_fill(uint64_t n, struct buf *out);
/* Appends the end of the archive. */
void pax_end(struct buf *out);

#endif
