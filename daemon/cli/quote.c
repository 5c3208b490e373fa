/* SPDX-License-Identifier: MIT */
/*
 * quote.c - each form is one walk over the bytes.
 *
 * UTF-8 is checked by hand (shortest form, no surrogates, at most U+10FFFF):
 * JSON must be valid whatever names a tree holds, and json-c passes bytes
 * through unseen.
 */
#include "cli/quote.h"

#include <string.h>

/* Returns the length of the well-formed character at s, or 0. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
	uint32_t c;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	c = s[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fU);
	}
	if ((len == 3 && c < 0x800) || (c >= 0xd800 && c <= 0xdfff) ||
	    (len == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	return len;
}

bool quote_utf8(struct buf *out, const char *s, size_t n)
{
	bool good = true;

	while (n > 0) {
		size_t len = utf8_length((const unsigned char *)s, n);

		if (len) {
			buf_put(out, s, len);
		} else {
			buf_put(out, "\xef\xbf\xbd", 3);
			good = false;
			len = 1;
		}
		s += len;
		n -= len;
	}
	return good;
}

void quote_hex(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", (unsigned char)s[i]);
}

void quote_line(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		buf_put_u8(out, c < 0x20 || c == 0x7f ? '?' : c);
	}
}
