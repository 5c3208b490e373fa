/* SPDX-License-Identifier: MIT */
/*
 * import_links.c - files with several names.
 *
 * A snapshot's table names preorder positions, which are not known before the
 * whole tree is. So each name of such a file is a member with a position
 * relative to the entry at hand; when an entry gets its place in the directory
 * above, the members below it are moved by its start. Members of one entry lie
 * side by side in one array, as entries are processed depth first, so no list
 * is ever copied. At the root the positions are absolute.
 *
 * The content is read once, at the first name. A later name must be the same
 * inode: numbers are re-used, in a live repository of git within milliseconds.
 * Equal times and size say so, else the time of birth does.
 */
#include "exchange/import_int.h"

#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "object/links.h"

static uint64_t inode_hash(const struct stat *st)
{
	return hmap_hash_u64((uint64_t)st->st_ino ^
			     ((uint64_t)st->st_dev << 48));
}

static uint64_t birth_ns(int fd, const char *name, const struct stat *st)
{
	const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
	struct statx stx;

	if (statx(fd, name, flags, STATX_BTIME | STATX_INO, &stx) < 0 ||
	    !(stx.stx_mask & STATX_BTIME) || stx.stx_ino != st->st_ino)
		return 0;
	return (uint64_t)stx.stx_btime.tv_sec * 1000000000 +
	       stx.stx_btime.tv_nsec;
}

static bool is_unchanged(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

struct import_group *import_group_find(struct importer *imp, int fd,
				       const char *name, const struct stat *st)
{
	struct hnode *n = hmap_first(&imp->groups, inode_hash(st));
	struct import_group *g;
	uint64_t birth;

	for (; n; n = hmap_next(n)) {
		g = container_of(n, struct import_group, node);
		if (g->st.st_ino == st->st_ino && g->st.st_dev == st->st_dev)
			break;
	}
	if (!n)
		return NULL;
	if (is_unchanged(&g->st, st))
		return g;
	birth = birth_ns(fd, name, st);
	if (birth && birth == g->birth_ns)
		return g;
	hmap_remove(&imp->groups, &g->node);
	return NULL;
}

int import_group_add(struct importer *imp, int fd, const char *name,
		     const struct stat *st, const struct tree_entry *e,
		     struct import_group **ret_group)
{
	_cleanup_free_ struct import_group *g = calloc(1, sizeof *g);
	_cleanup_free_ char *target = NULL;
	int r;

	if (!g)
		return -ENOMEM;
	if (e->target_len) {
		target = malloc(e->target_len);
		if (!target)
			return -ENOMEM;
		memcpy(target, e->target, e->target_len);
	}
	g->st = *st;
	g->birth_ns = birth_ns(fd, name, st);
	g->e = *e;
	r = hmap_insert(&imp->groups, &g->node, inode_hash(st));
	if (r < 0)
		return r;
	g->e.target = g->target = TAKE_PTR(target);
	g->next_all = imp->all_groups;
	imp->all_groups = g;
	*ret_group = TAKE_PTR(g);
	return 0;
}

static int member_add(struct importer *imp, uint64_t position,
		      struct import_group *g)
{
	if (GROW(imp->members, imp->member_count, imp->member_cap, 256) < 0)
		return -ENOMEM;
	imp->members[imp->member_count++] =
		(struct import_member){.position = position, .group = g};
	return 0;
}

int import_group_join(struct importer *imp, struct import_group *g,
		      struct import_node *node)
{
	node->e = g->e;
	node->link_begin = imp->member_count;
	node->link_end = imp->member_count + 1;
	return member_add(imp, 0, g);
}

int import_links_move(struct importer *imp, struct import_node *node)
{
	size_t begin = imp->member_count;
	int r;

	for (size_t i = node->link_begin; i < node->link_end; i++) {
		struct import_member m = imp->members[i];

		if (!m.group)
			continue;
		imp->members[i].group = NULL;
		r = member_add(imp, m.position, m.group);
		if (r < 0)
			return r;
	}
	node->link_begin = begin;
	node->link_end = imp->member_count;
	return 0;
}

void import_links_shift(struct importer *imp, const struct import_node *node,
			uint64_t start)
{
	for (size_t i = node->link_begin; i < node->link_end; i++)
		imp->members[i].position += start;
}

void import_links_drop(struct importer *imp, const struct import_node *node)
{
	for (size_t i = node->link_begin; i < node->link_end; i++)
		imp->members[i].group = NULL;
}

static int member_compare(const void *a, const void *b)
{
	const struct import_member *x = a;
	const struct import_member *y = b;

	return x->position < y->position ? -1 : x->position > y->position;
}

/* Drops what is not in the snapshot and counts each group. */
static uint64_t members_count(struct importer *imp)
{
	size_t kept = 0;
	uint64_t shared = 0;

	for (size_t i = 0; i < imp->member_count; i++)
		if (imp->members[i].group)
			imp->members[kept++] = imp->members[i];
	imp->member_count = kept;
	if (kept)
		qsort(imp->members, kept, sizeof *imp->members, member_compare);
	for (size_t i = 0; i < kept; i++) {
		struct import_group *g = imp->members[i].group;

		if (!g->count++)
			g->first = imp->members[i].position;
	}
	for (size_t i = 0; i < kept; i++)
		shared += imp->members[i].group->count > 1;
	return shared;
}

static const struct import_member *member_find(const struct importer *imp,
					       uint64_t position)
{
	const struct import_member key = {.position = position};
	const struct import_member *m = NULL;

	if (imp->member_count)
		m = bsearch(&key, imp->members, imp->member_count, sizeof key,
			    member_compare);
	return m && m->group->count > 1 ? m : NULL;
}

uint64_t import_links_first(const struct importer *imp, uint64_t position)
{
	const struct import_member *m = member_find(imp, position);

	return m ? m->group->first : position;
}

bool import_links_shared(const struct importer *imp, uint64_t position)
{
	return member_find(imp, position);
}

int import_links_put(struct importer *imp, struct oid *ret_id)
{
	uint64_t shared = members_count(imp);
	int r;

	*ret_id = (struct oid){.b = {0}};
	if (!shared)
		return 0;
	buf_clear(&imp->object);
	links_begin(&imp->object, shared);
	for (size_t i = 0; i < imp->member_count; i++) {
		const struct import_group *g = imp->members[i].group;
		struct links_entry e = {.position = imp->members[i].position,
					.first = g->first,
					.count = g->count};

		if (g->count > 1)
			links_add(&imp->object, &e);
	}
	r = buf_error(&imp->object);
	if (r < 0)
		return r;
	return import_put(imp, OID_LINKS, imp->object.data, imp->object.len,
			  ret_id);
}

void import_links_fini(struct importer *imp)
{
	struct import_group *g = imp->all_groups;

	while (g) {
		struct import_group *next = g->next_all;

		free(g->target);
		free(g);
		g = next;
	}
	imp->all_groups = NULL;
	hmap_fini(&imp->groups);
	free(imp->members);
	imp->members = NULL;
	imp->member_count = 0;
	imp->member_cap = 0;
}
