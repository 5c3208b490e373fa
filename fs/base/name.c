/* SPDX-License-Identifier: MIT */
/*
 * How: plain scans. Why labels are so narrow: they become folder names, parts
 * of refs and words on command lines, so they need no quoting anywhere and
 * cannot start with '-' or be "." or "..".
 */
#include "base/name.h"

#include <stdio.h>
#include <string.h>

bool name_is_component(const void *name, size_t len)
{
	const char *s = name;

	if (len < 1 || len > NAME_MAX_BYTES)
		return false;
	if (s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.')))
		return false;
	return !memchr(s, '/', len) && !memchr(s, '\0', len);
}

/* By hand: isalnum() depends on the locale. */
static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_';
}

/* Returns what follows a label; NULL: it is none. */
static const char *skip_label(const char *name)
{
	size_t n;

	if (!is_word(name[0]))
		return NULL;
	for (n = 1; is_word(name[n]) || name[n] == '.' || name[n] == '-'; n++)
		if (n >= NAME_MAX_LABEL)
			return NULL;
	return name + n;
}

bool name_is_label(const char *name)
{
	const char *end = skip_label(name);

	return end && !*end;
}

bool name_is_env(const char *name)
{
	const char *end = skip_label(name);

	return end && (!*end || !strcmp(end, NAME_HOME));
}

void name_of_home(const char *env, char ret_name[NAME_MAX_ENV + 1])
{
	(void)snprintf(ret_name, NAME_MAX_ENV + 1, "%.*s" NAME_HOME,
		       NAME_MAX_LABEL, env);
}

const char *name_below(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	if (!strcmp(dir, "/"))
		return path;
	if (!n || strncmp(path, dir, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path + n;
}

int name_compare_paths(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	if (*a == *b)
		return 0;
	if (!*a || !*b)
		return *a ? 1 : -1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}
