/* SPDX-License-Identifier: MIT */
/*
 * diff_list.c - lists of paths, sorted once when they are whole.
 */
#include "cli/diff_int.h"

#include "base/grow.h"

#include <errno.h>
#include <string.h>

void diff_list_fini(struct diff_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->v[i]);
	free((void *)l->v);
	*l = (struct diff_list){0};
}

int diff_list_add(struct diff_list *l, const char *path, size_t len)
{
	char *copy;

	if (GROW(l->v, l->count, l->cap, 64) < 0)
		return -ENOMEM;
	copy = strndup(path, len);
	if (!copy)
		return -ENOMEM;
	l->v[l->count++] = copy;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void diff_list_sort(struct diff_list *l)
{
	size_t kept = 0;

	if (l->count)
		qsort((void *)l->v, l->count, sizeof *l->v, compare);
	for (size_t i = 0; i < l->count; i++) {
		if (kept && !strcmp(l->v[kept - 1], l->v[i]))
			free(l->v[i]);
		else
			l->v[kept++] = l->v[i];
	}
	l->count = kept;
}
