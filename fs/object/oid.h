/* SPDX-License-Identifier: MIT */
/*
 * oid.h - object names.
 *
 * A name is the XXH3-128 of the bytes, their length, the kind of the object
 * and a counter. XXH3 is fast but can be forged: *the hash finds, the bytes
 * decide*. The store compares bytes on every hit and gives a true collision
 * the next counter. Treat a struct oid as opaque.
 *
 * Layout of the 24 bytes: 16 hash (canonical, big-endian), 6 length
 * (little-endian), 1 kind, 1 counter. The text form is 48 lower-case hex
 * digits of these bytes, hash first, so that a prefix is enough to find one.
 *
 * Contract
 *   Ownership   plain values
 *   Threads     any
 *   Errors      -EINVAL: not a name
 * Source: XXH3-128 as specified by xxHash 0.8 (seed 0).
 */
#ifndef COWFS_OBJECT_OID_H
#define COWFS_OBJECT_OID_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	OID_BYTES = 24,
	OID_HEX = 48, /* without the NUL */
};

enum oid_kind {
	OID_NONE = 0, /* the null name: no object */
	OID_BLOB = 1,
	OID_MANIFEST = 2,
	OID_TREE = 3,
	OID_XSET = 4,
	OID_LINKS = 5,
	OID_SNAP = 6,
	OID_KIND_END
};

struct oid {
	uint8_t b[OID_BYTES];
};

/* Names len bytes (below 2^48); counter 0. */
struct oid oid_of(enum oid_kind kind, const void *data, size_t len);
/* Returns the same name with another counter. */
struct oid oid_with_counter(struct oid id, uint8_t counter);
uint8_t oid_counter(const struct oid *id);
enum oid_kind oid_kind(const struct oid *id);
uint64_t oid_length(const struct oid *id);
bool oid_is_null(const struct oid *id);
bool oid_equal(const struct oid *a, const struct oid *b);
int oid_compare(const struct oid *a, const struct oid *b);
/* Returns 64 bits of the name, for hash maps. */
uint64_t oid_hash(const struct oid *id);
void oid_to_hex(const struct oid *id, char ret_hex[OID_HEX + 1]);
_must_check_ int oid_from_hex(const char *hex, struct oid *ret_id);
/* Checks that stored bytes of an oid are possible: a kind, a length of at most
 * FORMAT_MAX_OBJECT. The null name is none. */
bool oid_is_valid(const struct oid *id);

/* A 64-bit checksum for frames and table values: XXH3-64 with a seed. */
uint64_t oid_checksum(const void *data, size_t len, uint64_t seed);

#endif
