/* SPDX-License-Identifier: MIT */
/*
 * pace.h - reads the next request, awake for a moment before it sleeps.
 *
 * A program that works in a tree asks for one thing after the other: its next
 * request comes some microseconds after the answer to the last one. To be woken
 * for it takes longer than most requests do, above all in a virtual machine,
 * where an idle processor has been given back (ADR 0031 has figures).
 *
 * Contract
 *   Ownership   none: a value, to be zeroed
 *   Threads     of a pace and its descriptor, one at a time
 *   Errors      those of read(2) and poll(2), in errno; never EAGAIN
 */
#ifndef COWFS_FUSE_PACE_H
#define COWFS_FUSE_PACE_H

#include <sys/types.h>

struct pace {
	unsigned vain; /* looks in a row at whose end nothing had come */
	unsigned skip; /* requests that are not looked out for */
};

/* Makes a descriptor one for pace_read, for all who share it; or -errno. */
int pace_prepare(int fd);

/* Waits until there is something to read, and reads it. */
ssize_t pace_read(struct pace *p, int fd, void *buf, size_t size);

#endif
