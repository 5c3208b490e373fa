/* SPDX-License-Identifier: MIT */
/*
 * mountinfo.c - one pass over the text, split in place.
 *
 * Fields: id parent major:minor root path options [tags...] - type source ...
 * A space, tab, newline or backslash in a path is written as \ooo.
 */
#include "cli/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"

enum { MOUNTINFO_MAX = 64 << 20, FIELDS_BEFORE_TAGS = 6 };

void mountinfo_fini(struct mountinfo *m)
{
	free(m->v);
	buf_fini(&m->text);
	*m = (struct mountinfo){0};
}

static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] &&
		    s[3]) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 +
				       (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

static bool parse_line(char *line, struct mount_line *ret)
{
	char *fields[FIELDS_BEFORE_TAGS], *dash = strstr(line, " - ");
	char *colon;

	if (!dash)
		return false;
	*dash = 0;
	for (size_t i = 0; i < FIELDS_BEFORE_TAGS; i++) {
		fields[i] = strsep(&line, " ");
		if (!fields[i])
			return false;
	}
	colon = strchr(fields[2], ':');
	if (!colon)
		return false;
	dash += strlen(" - ");
	ret->minor = (unsigned)strtoul(colon + 1, NULL, 10);
	ret->path = fields[4];
	ret->type = strsep(&dash, " ");
	unescape(ret->path);
	return true;
}

int mountinfo_parse(struct mountinfo *m)
{
	char *text, *line;
	size_t lines = 1;

	if (!buf_str(&m->text))
		return -ENOMEM;
	text = (char *)m->text.data;
	for (const char *s = text; (s = strchr(s, '\n')); s++)
		lines++;
	m->v = calloc(lines, sizeof *m->v);
	if (!m->v)
		return -ENOMEM;
	while ((line = strsep(&text, "\n")))
		if (parse_line(line, &m->v[m->count]))
			m->count++;
	return 0;
}

int mountinfo_read(struct mountinfo *m)
{
	int r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX,
			     &m->text);

	return r < 0 ? r : mountinfo_parse(m);
}

bool mountinfo_has(const struct mountinfo *m, const char *path)
{
	for (size_t i = 0; i < m->count; i++)
		if (!strcmp(m->v[i].path, path))
			return true;
	return false;
}
