/* SPDX-License-Identifier: MIT */
/*
 * blob.c - the name that git gives the bytes of a file: the SHA-1 of "blob",
 * the size and the bytes. Filters (line ends, LFS) are not applied: where they
 * change a file its name differs, and git is left to look at it.
 */
#include "git/index.h"

#include <inttypes.h>
#include <stdio.h>

#include "git/sha1_int.h"

_Static_assert(sizeof(struct sha1) <= sizeof(struct gitblob), "it fits");

static struct sha1 *inside(struct gitblob *b)
{
	return (void *)b->opaque;
}

void gitblob_begin(struct gitblob *b, uint64_t size)
{
	char head[32];
	int n = snprintf(head, sizeof head, "blob %" PRIu64, size);

	sha1_init(inside(b));
	sha1_add(inside(b), head, (size_t)n + 1);
}

void gitblob_add(struct gitblob *b, const void *data, size_t len)
{
	sha1_add(inside(b), data, len);
}

void gitblob_end(struct gitblob *b, uint8_t ret_name[GITINDEX_NAME_BYTES])
{
	sha1_end(inside(b), ret_name);
}
