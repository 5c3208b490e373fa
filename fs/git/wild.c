/* SPDX-License-Identifier: MIT */
/*
 * wild.c - a star is tried at each place, shortest first.
 *
 * What follows a star is matched by a call of its own. When that finds the text
 * too short, no later place can do: the answer goes up through all stars, so
 * that a pattern with many of them is no trap. A star that stops at '/' says so
 * in the same way, and only a "**" before it may go on.
 */
#include "git/wild_int.h"

#include <ctype.h>
#include <string.h>

enum result {
	NO,
	YES,
	TOO_SHORT, /* the text ended first */
	AT_SLASH,  /* a '*' met a '/' */
};

static unsigned char fold(char c, unsigned flags)
{
	return flags & WILD_CASE ? (unsigned char)tolower((unsigned char)c)
				 : (unsigned char)c;
}

/* --- sets: [a-z], [!a], [[:alpha:]] --------------------------------------- */

static int is_class(const char *name, size_t len, unsigned char c,
		    unsigned flags)
{
	static const struct {
		const char *name;
		int (*is)(int c);
	} classes[] = {
		{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank},
		{"cntrl", iscntrl}, {"digit", isdigit}, {"graph", isgraph},
		{"lower", islower}, {"print", isprint}, {"punct", ispunct},
		{"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
	};

	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		if (strlen(classes[i].name) != len ||
		    strncmp(classes[i].name, name, len) != 0)
			continue;
		if ((flags & WILD_CASE) && classes[i].is == isupper)
			return isalpha(c) != 0;
		return c < 0x80 && classes[i].is(c) != 0;
	}
	return -1;
}

/* Takes one member of a set, perhaps escaped; NULL: the pattern ends. */
static const char *take_member(const char *p, unsigned char *ret,
			       unsigned flags)
{
	if (*p == '\\')
		p++;
	if (!*p)
		return NULL;
	*ret = fold(*p, flags);
	return p + 1;
}

/* Takes [:class:]; NULL: it is none that is known. */
static const char *take_class(const char *p, unsigned char c, unsigned flags,
			      bool *in)
{
	const char *name = p + 2;
	const char *end = strchr(name, ']');
	int r;

	if (!end || end == name || end[-1] != ':')
		return NULL;
	r = is_class(name, (size_t)(end - 1 - name), c, flags);
	if (r < 0)
		return NULL;
	*in |= r > 0;
	return end + 1;
}

/* Takes a set whose '[' is taken; NULL: it does not fit, or is none. */
static const char *take_set(const char *p, char text, unsigned flags)
{
	const unsigned char c = fold(text, flags);
	const bool negative = *p == '!' || *p == '^';
	bool in = false, first = true;

	for (p += negative; *p != ']' || first; first = false) {
		unsigned char low, high;

		if (p[0] == '[' && p[1] == ':' && strchr(p + 2, ']') &&
		    strchr(p + 2, ']')[-1] == ':') {
			p = take_class(p, c, flags, &in);
			if (!p)
				return NULL;
			continue;
		}
		p = take_member(p, &low, flags);
		if (!p)
			return NULL;
		high = low;
		if (p[0] == '-' && p[1] && p[1] != ']') {
			p = take_member(p + 1, &high, flags);
			if (!p)
				return NULL;
		}
		in |= low <= c && c <= high;
	}
	if (in == negative || ((flags & WILD_PATH) && text == '/'))
		return NULL;
	return p + 1;
}

/* --- stars ---------------------------------------------------------------- */

static enum result match(const char *start, const char *p, const char *text,
			 unsigned flags);

/* The rest of a pattern after a star, at each place of the text. */
static enum result match_rest(const char *start, const char *p,
			      const char *text, unsigned flags, bool over)
{
	for (; *text; text++) {
		const enum result r = match(start, p, text, flags);

		if (r != NO && (!over || r != AT_SLASH))
			return r;
		if (!over && *text == '/')
			return AT_SLASH;
	}
	return TOO_SHORT;
}

/* p is at the star. */
static enum result match_star(const char *start, const char *p,
			      const char *text, unsigned flags)
{
	const bool begins = p == start || p[-1] == '/';
	const bool two = p[1] == '*';
	bool over = !(flags & WILD_PATH);

	while (*p == '*')
		p++;
	if (two && !over && begins &&
	    (!*p || *p == '/' || (p[0] == '\\' && p[1] == '/'))) {
		/* no directory at all */
		if (*p == '/' && match(start, p + 1, text, flags) == YES)
			return YES;
		over = true;
	}
	if (!*p)
		return over || !strchr(text, '/') ? YES : AT_SLASH;
	return match_rest(start, p, text, flags, over);
}

static enum result match(const char *start, const char *p, const char *text,
			 unsigned flags)
{
	for (; *p; text++) {
		if (*p == '*')
			return match_star(start, p, text, flags);
		if (!*text)
			return TOO_SHORT;
		if (*p == '?') {
			if ((flags & WILD_PATH) && *text == '/')
				return NO;
			p++;
		} else if (*p == '[') {
			p = take_set(p + 1, *text, flags);
			if (!p)
				return NO;
		} else {
			if (*p == '\\')
				p++;
			if (!*p || fold(*p, flags) != fold(*text, flags))
				return NO;
			p++;
		}
	}
	return *text ? NO : YES;
}

bool gitwild_match(const char *pattern, const char *text, unsigned flags)
{
	return match(pattern, pattern, text, flags) == YES;
}
