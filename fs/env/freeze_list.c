/* SPDX-License-Identifier: MIT */
/*
 * How: the names that the base has and no change speaks of, then the changed
 * ones that stand for something, sorted as a tree wants them.
 */
#include "env/freeze_int.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int list_add(struct freeze_list *c, const struct freeze_child *one)
{
	if (GROW(c->v, c->count, c->cap, 32) < 0)
		return -ENOMEM;
	c->v[c->count++] = *one;
	return 0;
}

static int list_compare(const void *a, const void *b)
{
	const struct freeze_child *x = a, *y = b;
	int c = memcmp(x->name, y->name, MIN(x->len, y->len));

	if (c)
		return c;
	return x->len < y->len ? -1 : x->len > y->len;
}

static int list_old(const struct names *names, const struct object *o,
		    struct freeze_list *c)
{
	struct tree_entry t;
	int r = 0;

	for (uint32_t i = 0; i < o->tree.count && r >= 0; i++) {
		tree_entry_at(&o->tree, i, &t);
		if (!names_find(names, t.name, t.name_len))
			r = list_add(c,
				     &(struct freeze_child){.name = t.name,
							    .len = t.name_len,
							    .i = i});
	}
	return r;
}

static int list_new(const struct names *names, struct freeze_list *c)
{
	struct hmap_cursor at = {0};
	struct hnode *h;
	int r = 0;

	while (r >= 0 && (h = hmap_each(&names->map, &at))) {
		const struct dent *d = container_of(h, struct dent, node);

		if (d->ino)
			r = list_add(c, &(struct freeze_child){.name = d->name,
							       .len = d->len,
							       .ino = d->ino});
	}
	return r;
}

int freeze_list_fill(const struct names *names, const struct object *old,
		     struct freeze_list *c)
{
	int r = old ? list_old(names, old, c) : 0;

	if (r >= 0 && names)
		r = list_new(names, c);
	if (c->count)
		qsort(c->v, c->count, sizeof *c->v, list_compare);
	return r;
}

void freeze_list_fini(struct freeze_list *c)
{
	free(c->v);
}
