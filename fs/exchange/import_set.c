/* SPDX-License-Identifier: MIT */
/*
 * import_set.c - entries of one directory, taken in any order.
 *
 * A repository of git is not read in the order of its names, and parts of it
 * more than once. The set keeps what was taken, the last reading of a name
 * counts; sorted at the end it becomes a tree. The members of hard links below
 * it, scattered so far, are brought side by side then.
 */
#include "exchange/import_int.h"

#include <string.h>

#include "base/err.h"

static void item_free(struct import_item *item)
{
	if (!item)
		return;
	free((char *)item->n.e.name);
	free((char *)item->n.e.target);
	free(item);
}

static void item_freep(struct import_item **item)
{
	item_free(*item);
}

void import_set_fini(struct import_set *s)
{
	struct hmap_cursor c = {.slot = 0};
	struct hnode *n;

	while ((n = hmap_each(&s->items, &c))) {
		hmap_remove(&s->items, n);
		item_free(container_of(n, struct import_item, node));
	}
	hmap_fini(&s->items);
}

static uint64_t name_hash(const char *name)
{
	return hmap_hash_bytes(name, strlen(name), 0);
}

struct import_item *import_set_find(const struct import_set *s,
				    const char *name)
{
	struct hnode *n = hmap_first(&s->items, name_hash(name));

	for (; n; n = hmap_next(n)) {
		struct import_item *item =
			container_of(n, struct import_item, node);

		if (!strcmp(item->n.e.name, name))
			return item;
	}
	return NULL;
}

void import_set_drop(struct importer *imp, struct import_set *s,
		     struct import_item *item)
{
	import_links_drop(imp, &item->n);
	hmap_remove(&s->items, &item->node);
	item_free(item);
}

int import_set_put(struct importer *imp, struct import_set *s, const char *name,
		   const struct import_node *node)
{
	_cleanup_(item_freep) struct import_item *item = NULL;
	struct import_item *old = import_set_find(s, name);
	int r;

	item = calloc(1, sizeof *item);
	if (!item)
		return -ENOMEM;
	item->n = *node;
	item->n.e.target = NULL;
	item->n.e.name = strdup(name);
	item->n.e.name_len = (uint16_t)strlen(name);
	if (!item->n.e.name)
		return -ENOMEM;
	if (node->e.target_len) {
		char *target = malloc(node->e.target_len);

		if (!target)
			return -ENOMEM;
		memcpy(target, node->e.target, node->e.target_len);
		item->n.e.target = target;
	}
	if (old)
		import_set_drop(imp, s, old);
	r = hmap_insert(&s->items, &item->node, name_hash(name));
	if (r < 0)
		return r;
	(void)TAKE_PTR(item);
	return 0;
}

int import_set_entry(struct importer *imp, struct import_set *s, int dirfd,
		     const struct import_name *name)
{
	struct import_item *old;
	struct import_node node;
	int r;

	r = import_entry(imp, dirfd, name->name, name->type, &node);
	if (r < 0)
		return r;
	if (r == IMPORT_TAKEN) {
		int put = import_set_put(imp, s, name->name, &node);

		return put < 0 ? put : r;
	}
	old = import_set_find(s, name->name);
	if (old)
		import_set_drop(imp, s, old);
	return r;
}

static int item_compare(const void *a, const void *b)
{
	const struct import_item *const *x = a;
	const struct import_item *const *y = b;

	return strcmp((*x)->n.e.name, (*y)->n.e.name);
}

static int set_build(struct importer *imp, struct import_set *s,
		     struct tree_builder *b)
{
	_cleanup_free_ struct import_item **sorted = NULL;
	struct hmap_cursor c = {.slot = 0};
	struct hnode *n;
	size_t count = 0;
	int r;

	if (!s->items.count)
		return 0;
	sorted = malloc(s->items.count * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	while ((n = hmap_each(&s->items, &c)))
		sorted[count++] = container_of(n, struct import_item, node);
	qsort(sorted, count, sizeof(*sorted), item_compare);
	for (size_t i = 0; i < count; i++) {
		r = import_links_move(imp, &sorted[i]->n);
		if (r == 0)
			r = import_tree_add(imp, b, &sorted[i]->n);
		if (r < 0)
			return r;
	}
	return 0;
}

int import_set_put_tree(struct importer *imp, struct import_set *s,
			const struct stat *st, struct tree_entry *e)
{
	struct tree_builder b = {.count = 0};
	int r = set_build(imp, s, &b);

	if (r == 0)
		r = import_tree_put(imp, &b, st, e);
	tree_builder_fini(&b);
	return r;
}
