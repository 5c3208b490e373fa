/* SPDX-License-Identifier: MIT */
/*
 * glob.c - patterns and paths are compared name by name, so that a walk leaves
 * out directories below which nothing can fit.
 *
 * How: as an automaton of many states at once, one for each name of a pattern;
 * a pattern has at most as many names as a number has bits, and nothing is
 * tried twice.
 */
#include "cli/glob.h"

#include <errno.h>
#include <string.h>

void globs_fini(struct globs *g)
{
	for (size_t i = 0; i < g->count; i++)
		free(g->v[i].text);
	g->count = 0;
}

static bool is_any(const char *name)
{
	return !strcmp(name, "**");
}

/* Splits a pattern into its names. */
static int split(struct glob *p)
{
	char *save = NULL, *name;

	for (name = strtok_r(p->text, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		if (!strcmp(name, ".."))
			return -EINVAL;
		if (!strcmp(name, "."))
			continue;
		/* One says as much as two. */
		if (is_any(name) && p->name_count &&
		    is_any(p->names[p->name_count - 1]))
			continue;
		if (p->name_count == GLOB_NAMES)
			return -E2BIG;
		p->names[p->name_count++] = name;
	}
	return p->name_count ? 0 : -EINVAL;
}

int globs_add(struct globs *g, const char *pattern)
{
	struct glob p = {.text = strdup(pattern)};
	int r;

	if (!p.text)
		return -ENOMEM;
	if (g->count == GLOB_PATTERNS || strlen(pattern) > GLOB_BYTES)
		r = -E2BIG;
	else
		r = split(&p);
	if (r)
		free(p.text);
	else
		g->v[g->count++] = p;
	return r;
}

/* Where '*' was met last: it takes one byte more at each failure. */
static bool fits(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		const char *p = pattern + (*pattern == '\\' && pattern[1]);

		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (*pattern == '?' || (*p && *p == *name)) {
			pattern = p + 1;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* '**' may be nothing, but not at the end: "a/" and all of it is not "a". */
static uint64_t spread(const struct glob *p, uint64_t at)
{
	for (size_t i = 0; i + 1 < p->name_count; i++)
		if (at >> i & 1 && is_any(p->names[i]))
			at |= 1ULL << (i + 1);
	return at;
}

void globs_begin(const struct globs *g, struct glob_place *ret)
{
	for (size_t i = 0; i < g->count; i++)
		ret->at[i] = spread(&g->v[i], 1);
}

static uint64_t step(const struct glob *p, uint64_t from, const char *name)
{
	uint64_t to = 0;

	for (size_t i = 0; i < p->name_count; i++) {
		if (!(from >> i & 1))
			continue;
		if (is_any(p->names[i]))
			to |= 1ULL << i |
			      (i + 1 == p->name_count ? 1ULL << (i + 1) : 0);
		else if (fits(p->names[i], name))
			to |= 1ULL << (i + 1);
	}
	return spread(p, to);
}

enum glob_fit globs_step(struct globs *g, const struct glob_place *from,
			 const char *name, struct glob_place *ret)
{
	enum glob_fit fit = GLOB_NO;

	for (size_t i = 0; i < g->count; i++) {
		struct glob *p = &g->v[i];

		ret->at[i] = step(p, from->at[i], name);
		if (ret->at[i] >> p->name_count & 1) {
			p->hit = true;
			fit = GLOB_YES;
		} else if (ret->at[i] && fit == GLOB_NO) {
			fit = GLOB_BELOW;
		}
	}
	return fit;
}
