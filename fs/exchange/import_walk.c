/* SPDX-License-Identifier: MIT */
/*
 * import_walk.c - a directory, depth first.
 *
 * Entries are taken in the order of their names and go into the tree at once,
 * so that memory is needed for the names of the directories on the way down
 * only. What one level needs lives on the heap, not on the stack.
 */
#include "exchange/import_int.h"

#include "base/err.h"

enum { WALK_KEEP_BYTES = 1 << 20 }; /* of the scratch buffer */

struct walk {
	struct import_list list;
	struct tree_builder builder;
	struct import_node node;
	struct stat st;
};

static void walk_freep(struct walk **wp)
{
	struct walk *w = *wp;

	if (!w)
		return;
	import_list_fini(&w->list);
	tree_builder_fini(&w->builder);
	free(w);
}

int import_tree_add(struct importer *imp, struct tree_builder *b,
		    const struct import_node *node)
{
	uint64_t start = b->total + 1;
	int r = tree_builder_add(b, &node->e);

	if (r < 0)
		return r;
	import_links_shift(imp, node, start);
	return 0;
}

int import_tree_put(struct importer *imp, struct tree_builder *b,
		    const struct stat *st, struct tree_entry *e)
{
	int r;

	import_attributes(st, e);
	e->size = b->subdirs;
	e->below = b->total;
	buf_clear(&imp->object);
	r = tree_builder_finish(b, &imp->object);
	if (r < 0)
		return r;
	r = import_put(imp, OID_TREE, imp->object.data, imp->object.len,
		       &e->content);
	if (imp->object.cap > WALK_KEEP_BYTES)
		buf_fini(&imp->object);
	return r;
}

static int walk_entries(struct importer *imp, int fd, struct walk *w)
{
	int r;

	for (size_t i = 0; i < w->list.count; i++) {
		const struct import_name *n = &w->list.names[i];

		r = import_entry(imp, fd, n->name, n->type, &w->node);
		if (r == IMPORT_TAKEN)
			r = import_tree_add(imp, &w->builder, &w->node);
		if (r < 0)
			return r;
	}
	return 0;
}

int import_walk(struct importer *imp, int fd, struct tree_entry *e)
{
	_cleanup_(walk_freep) struct walk *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	r = import_list(imp, fd, &w->st, &w->list);
	if (r == 0)
		r = import_xattrs(imp, fd, w->st.st_dev, false, &e->xattrs);
	if (r < 0)
		return import_settle(imp, r);
	if (import_is_gitdir(&w->list)) {
		const struct import_gitdir where = {.fd = fd, .own = -1};

		return import_gitdir(imp, &where, &w->list, &w->st, e);
	}
	r = walk_entries(imp, fd, w);
	if (r < 0)
		return r;
	return import_tree_put(imp, &w->builder, &w->st, e);
}
