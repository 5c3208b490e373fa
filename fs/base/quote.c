/* SPDX-License-Identifier: MIT */
/*
 * quote.c - a name is looked at once, and once more when it needs quotes.
 */
#include "base/quote.h"

static char short_escape(unsigned char c)
{
	switch (c) {
	case '\a':
		return 'a';
	case '\b':
		return 'b';
	case '\t':
		return 't';
	case '\n':
		return 'n';
	case '\v':
		return 'v';
	case '\f':
		return 'f';
	case '\r':
		return 'r';
	case '"':
	case '\\':
		return (char)c;
	default:
		return 0;
	}
}

static bool needs_escape(unsigned char c)
{
	return c < 0x20 || c >= 0x7f || c == '"' || c == '\\';
}

void quote_git(struct buf *out, const char *s, size_t n)
{
	size_t plain = 0;

	while (plain < n && !needs_escape((unsigned char)s[plain]))
		plain++;
	if (plain == n) {
		buf_put(out, s, n);
		return;
	}
	buf_put_u8(out, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (!needs_escape(c))
			buf_put_u8(out, c);
		else if (short_escape(c))
			buf_printf(out, "\\%c", short_escape(c));
		else
			buf_printf(out, "\\%03o", c);
	}
	buf_put_u8(out, '"');
}
