/* SPDX-License-Identifier: MIT */
/*
 * frames_int.h - reading a segment from its first record to its end, damaged
 * or not.
 *
 * For fsck and repair, which do not know from the index what is where. Whole
 * records are told one after the other; between them, ranges that are none.
 *
 * Contract
 *   Ownership   payloads are lent for the duration of the callback
 *   Threads     any
 *   Errors      of reading, or the callback's non-zero result
 */
#ifndef COWFS_STORE_FRAMES_INT_H
#define COWFS_STORE_FRAMES_INT_H

#include "store/segment_int.h"

struct frame {
	struct segment_place place;
	struct oid id;
	uint64_t end;	     /* where the next one begins */
	const void *payload; /* as stored; NULL with FRAMES_FAST */
	bool padded;	     /* the bytes up to `end` are zeros */
};

struct frames_sink {
	int (*whole)(void *ctx, const struct frame *f);
	/* [from, to) holds no whole record. name: what the record there says
	 * to be, or NULL. */
	int (*bad)(void *ctx, uint64_t from, uint64_t to,
		   const struct oid *name);
	void *ctx;
};

enum frames_flags {
	FRAMES_FAST = 1, /* no payloads: headers only */
};

/* Says whether the header is that of the segment. */
_must_check_ int frames_check_header(int fd, uint32_t number, bool *ret_sound);
/* Reads the records below end. */
_must_check_ int frames_scan(int fd, uint32_t number, uint64_t end,
			     unsigned flags, const struct frames_sink *sink);
/* Where the record at a place ends by the words of its header; 0: they make no
 * sense. */
uint64_t frames_end_of(int fd, uint64_t pos);

#endif
