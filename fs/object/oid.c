/* SPDX-License-Identifier: MIT */
/*
 * How: the hash is stored in xxHash's canonical (big-endian) form, so that the
 * text form starts with the digits that xxhsum prints. Length and kind are in
 * the name: a reader knows how much room an object needs, and a decoder can
 * refuse a reference to the wrong kind, before anything is read.
 */
#include "object/oid.h"

#include "base/bytes.h"
#include "object/format.h"

#include <assert.h>
#include <errno.h>
#include <xxhash.h>

enum {
	AT_LENGTH = 16,
	LENGTH_BYTES = 6,
	AT_KIND = 22,
	AT_COUNTER = 23,
};

struct oid oid_of(enum oid_kind kind, const void *data, size_t len)
{
	XXH128_canonical_t hash;
	uint64_t length = len;
	struct oid id;

	assert(len >> 48 == 0);
	/* xxHash takes NULL for no bytes, but not every version of it. */
	XXH128_canonicalFromHash(&hash, XXH3_128bits(len ? data : "", len));
	_Static_assert(sizeof hash == AT_LENGTH, "hash fills its place");
	memcpy(id.b, &hash, sizeof hash);
	memcpy(id.b + AT_LENGTH, &length, LENGTH_BYTES);
	id.b[AT_KIND] = (uint8_t)kind;
	id.b[AT_COUNTER] = 0;
	return id;
}

struct oid oid_with_counter(struct oid id, uint8_t counter)
{
	id.b[AT_COUNTER] = counter;
	return id;
}

uint8_t oid_counter(const struct oid *id)
{
	return id->b[AT_COUNTER];
}

enum oid_kind oid_kind(const struct oid *id)
{
	return (enum oid_kind)id->b[AT_KIND];
}

uint64_t oid_length(const struct oid *id)
{
	uint64_t length = 0;

	memcpy(&length, id->b + AT_LENGTH, LENGTH_BYTES);
	return length;
}

bool oid_is_null(const struct oid *id)
{
	static const struct oid null;

	return oid_equal(id, &null);
}

bool oid_equal(const struct oid *a, const struct oid *b)
{
	return memcmp(a->b, b->b, OID_BYTES) == 0;
}

int oid_compare(const struct oid *a, const struct oid *b)
{
	return memcmp(a->b, b->b, OID_BYTES);
}

uint64_t oid_hash(const struct oid *id)
{
	return bytes_load_u64(id->b);
}

void oid_to_hex(const struct oid *id, char ret_hex[OID_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < OID_BYTES; i++) {
		ret_hex[2 * i] = digits[id->b[i] >> 4];
		ret_hex[2 * i + 1] = digits[id->b[i] & 15];
	}
	ret_hex[OID_HEX] = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int oid_from_hex(const char *hex, struct oid *ret_id)
{
	struct oid id;

	for (size_t i = 0; i < OID_BYTES; i++) {
		int high = hex_value(hex[2 * i]);
		/* hex[2 * i + 1] exists only when hex[2 * i] is no NUL. */
		int low = high < 0 ? -1 : hex_value(hex[2 * i + 1]);

		if (low < 0)
			return -EINVAL;
		id.b[i] = (uint8_t)(high << 4 | low);
	}
	if (hex[OID_HEX] != '\0' || !oid_is_valid(&id))
		return -EINVAL;
	*ret_id = id;
	return 0;
}

bool oid_is_valid(const struct oid *id)
{
	uint8_t kind = id->b[AT_KIND];

	return kind > OID_NONE && kind < OID_KIND_END &&
	       oid_length(id) <= FORMAT_MAX_OBJECT;
}

uint64_t oid_checksum(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(len ? data : "", len, seed);
}
