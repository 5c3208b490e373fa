/* SPDX-License-Identifier: MIT */
/*
 * The input is taken as text (what parses prints as itself) and as the bytes of
 * a name (what is valid survives printing and parsing).
 */
#include "fuzz.h"

#include "object/oid.h"

static void check_text(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = strndup((const char *)data, size);
	char hex[OID_HEX + 1];
	struct oid id;

	FUZZ_CHECK(text);
	if (oid_from_hex(text, &id) < 0)
		return;
	FUZZ_CHECK(oid_is_valid(&id) && !oid_is_null(&id));
	oid_to_hex(&id, hex);
	FUZZ_CHECK(strcmp(hex, text) == 0);
}

static void check_bytes(const uint8_t *data)
{
	char hex[OID_HEX + 1];
	struct oid back;
	struct oid id;

	memcpy(id.b, data, OID_BYTES);
	oid_to_hex(&id, hex);
	FUZZ_CHECK((oid_from_hex(hex, &back) == 0) == oid_is_valid(&id));
	if (oid_is_valid(&id))
		FUZZ_CHECK(oid_equal(&id, &back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oid named = oid_of(OID_BLOB, data, size);

	FUZZ_CHECK(oid_is_valid(&named) && oid_length(&named) == size);
	(void)oid_checksum(data, size, size);
	check_text(data, size);
	if (size >= OID_BYTES)
		check_bytes(data);
	return 0;
}
