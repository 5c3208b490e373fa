/* SPDX-License-Identifier: MIT */
/*
 * How: lines stand one after the other in one buffer, each with its NUL. A
 * line that finds no memory is dropped whole: messages are best effort, the
 * error number is what counts.
 *
 * Why control bytes are replaced: lines quote file names, and a file name must
 * not be able to start a new line or steer a terminal.
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void diag_fini(struct diag *d)
{
	if (!d)
		return;
	buf_fini(&d->lines);
	d->count = 0;
}

static _printf_(2, 0) void add(struct diag *d, const char *fmt, va_list ap)
{
	char *text = NULL;
	int n = vasprintf(&text, fmt, ap);

	if (n < 0)
		return;
	for (int i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f)
			text[i] = '?';
	}
	if (buf_reserve(&d->lines, (size_t)n + 1) == 0) {
		buf_put(&d->lines, text, (size_t)n + 1);
		d->count++;
	}
	free(text);
}

void diag_add(struct diag *d, const char *fmt, ...)
{
	va_list ap;

	if (!d)
		return;
	va_start(ap, fmt);
	add(d, fmt, ap);
	va_end(ap);
}

int diag_fail(struct diag *d, int err, const char *fmt, ...)
{
	va_list ap;

	if (!d)
		return err;
	va_start(ap, fmt);
	add(d, fmt, ap);
	va_end(ap);
	return err;
}

const char *diag_line(const struct diag *d, size_t i)
{
	const char *line;

	if (!d || i >= d->count)
		return NULL;
	line = (const char *)d->lines.data;
	while (i-- > 0)
		line += strlen(line) + 1;
	return line;
}
