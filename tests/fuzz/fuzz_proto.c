/* SPDX-License-Identifier: MIT */
/*
 * The input is a message as it comes from a socket. Getters are called whether
 * or not the form is right: they must stay inside in both cases. What is right
 * is taken apart and put together again, and must give the same bytes.
 */
#include "fuzz.h"

#include "base/bytes.h"
#include "ctl/proto.h"

enum { FIELD_HEADER = 8, TAGS = 32 };

static void check_getters(const struct msg *m)
{
	char s[64];

	(void)msg_verb(m);
	for (unsigned tag = 0; tag < TAGS; tag++) {
		const uint8_t *end = m->bytes.data + m->bytes.len;
		size_t len = 0;

		for (size_t i = 0; i < 4; i++) {
			const uint8_t *p = msg_get(m, tag, i, &len);

			FUZZ_CHECK(!p || len <= (size_t)(end - p));
		}
		if (msg_get_str(m, tag, s, sizeof s) == 0)
			FUZZ_CHECK(s[0] && strlen(s) < sizeof s);
		(void)msg_get_u64(m, tag, 0);
	}
}

static void check_again(const struct msg *m, const uint8_t *data, size_t size)
{
	_cleanup_msg_ struct msg again = {0};
	size_t at = 4;

	msg_begin(&again, msg_verb(m));
	while (at < size) {
		uint16_t tag = bytes_load_u16(data + at);
		uint32_t len = bytes_load_u32(data + at + 4);

		FUZZ_CHECK(size - at >= FIELD_HEADER &&
			   len <= size - at - FIELD_HEADER);
		msg_put(&again, tag, data + at + FIELD_HEADER, len);
		at += FIELD_HEADER + len;
	}
	fuzz_check_same(&again.bytes, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_msg_ struct msg m = {0};

	buf_put(&m.bytes, data, size);
	FUZZ_CHECK(buf_error(&m.bytes) == 0);
	check_getters(&m);
	if (msg_check(&m) == 0)
		check_again(&m, data, size);
	return 0;
}
