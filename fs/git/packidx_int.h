/* SPDX-License-Identifier: MIT */
/*
 * packidx_int.h - the index of a pack, version 2, as gitformat-pack(5) has it.
 *
 * Contract
 *   Ownership   everything is the caller's
 *   Threads     any
 */
#ifndef COWFS_GIT_PACKIDX_INT_H
#define COWFS_GIT_PACKIDX_INT_H

#include "base/buf.h"
#include "git/sha1_int.h"

struct packidx_entry {
	uint8_t name[SHA1_BYTES];
	uint32_t crc; /* of its bytes in the pack */
	uint64_t offset;
};

/* Sorts the list, and appends the index of a pack with that checksum. */
void packidx_make(struct packidx_entry *list, size_t count,
		  const uint8_t pack[SHA1_BYTES], struct buf *out);

#endif
