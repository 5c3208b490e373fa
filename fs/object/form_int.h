/* SPDX-License-Identifier: MIT */
/*
 * form_int.h - checks and sizes that several of the formats share.
 *
 * An object that names another one can tell much about it from the name alone,
 * since a name holds the kind and the length.
 *
 * Contract
 *   Threads     any
 */
#ifndef COWFS_OBJECT_FORM_INT_H
#define COWFS_OBJECT_FORM_INT_H

#include "object/format.h"
#include "object/oid.h"

enum {
	FORM_TREE_HEADER = 24,
	FORM_MANIFEST_HEADER = 16,
	FORM_LINKS_HEADER = 16,
	FORM_LINKS_ENTRY = 20,
	FORM_XSET_HEADER = 8,
	FORM_NSEC_END = 1000000000,
};

static inline uint64_t form_chunks(uint64_t size)
{
	return (size + FORMAT_CHUNK_BYTES - 1) >> FORMAT_CHUNK_SHIFT;
}

static inline bool form_is_kind(const struct oid *id, enum oid_kind kind)
{
	return oid_is_valid(id) && oid_kind(id) == kind;
}

/* A directory with `total` inodes below it: only the empty tree is as short as
 * a header. */
static inline bool form_tree_fits(const struct oid *id, uint64_t total)
{
	return form_is_kind(id, OID_TREE) &&
	       (total == 0 ? oid_length(id) == FORM_TREE_HEADER
			   : oid_length(id) > FORM_TREE_HEADER);
}

/* No attributes are the null name, not an empty set. */
static inline bool form_xattrs_fit(const struct oid *id)
{
	return oid_is_null(id) || (form_is_kind(id, OID_XSET) &&
				   oid_length(id) > FORM_XSET_HEADER &&
				   oid_length(id) <= FORMAT_MAX_XATTRS_BYTES);
}

/* No hard links are the null name; the smallest table has one pair. */
static inline bool form_links_fit(const struct oid *id)
{
	return oid_is_null(id) ||
	       (form_is_kind(id, OID_LINKS) &&
		oid_length(id) >= FORM_LINKS_HEADER + 2 * FORM_LINKS_ENTRY);
}

/* The content of a regular file of that size. */
static inline bool form_content_fits(const struct oid *id, uint64_t size)
{
	if (size == 0)
		return oid_is_null(id);
	if (size <= FORMAT_CHUNK_BYTES)
		return form_is_kind(id, OID_BLOB) && oid_length(id) == size;
	return size <= FORMAT_MAX_FILE && form_is_kind(id, OID_MANIFEST) &&
	       oid_length(id) ==
		       FORM_MANIFEST_HEADER + form_chunks(size) * OID_BYTES;
}

#endif
