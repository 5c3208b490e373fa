/* SPDX-License-Identifier: MIT */
/*
 * entries.c - an index is read once, into one array and one text; questions
 * are answered by binary search, as entries are sorted.
 *
 * The cache tree is a list of nodes in preorder, each with the number of its
 * children: a node knows where what is below it ends, so that a sibling is one
 * step away. It is checked for form only: whoever uses a node compares its
 * count, as git does.
 */
#include "git/entries_int.h"

#include <string.h>

#include "base/err.h"
#include "base/grow.h"

enum { CACHED_DEPTH = 4096, DIGITS_MAX = 10 };

void gitentries_forget(struct gitentries *g)
{
	buf_fini(&g->text);
	free(TAKE_PTR(g->list));
	free(TAKE_PTR(g->cached));
	g->count = g->cap = g->cached_count = 0;
}

void gitentries_fini(struct gitentries *g)
{
	gitentries_forget(g);
	buf_fini(&g->raw);
}

/* As git sorts: bytes, then the shorter one. */
static int path_compare(const char *a, size_t a_len, const char *b,
			size_t b_len)
{
	const int c = memcmp(a, b, MIN(a_len, b_len));

	if (c)
		return c;
	return a_len < b_len ? -1 : a_len > b_len;
}

static bool is_after(const struct gitentries *g, const struct gitentry *a,
		     const struct gitindex_entry *b)
{
	const int c = path_compare(gitentry_path(g, a), a->path_len, b->path,
				   b->path_len);

	return c < 0 || (c == 0 && a->stage < b->stage);
}

static int take_entry(void *ctx, const struct gitindex_entry *e)
{
	struct gitentries *g = ctx;

	if (GROW(g->list, g->count, g->cap, 1024) < 0)
		return -ENOMEM;
	if ((g->count && !is_after(g, &g->list[g->count - 1], e)) ||
	    g->text.len + e->path_len >= UINT32_MAX)
		return -EFSCORRUPTED;
	g->list[g->count++] = (struct gitentry){
		.path = (uint32_t)g->text.len,
		.path_len = (uint32_t)e->path_len,
		.mode = e->mode,
		.stage = (uint8_t)e->stage,
		.assume_unchanged = e->assume_unchanged,
		.skip_worktree = e->skip_worktree,
		.intent_to_add = e->intent_to_add,
		.name = e->name,
		.st = e->st,
	};
	buf_put(&g->text, e->path, e->path_len + 1);
	return buf_error(&g->text);
}

/* --- the cache tree ------------------------------------------------------- */

struct cached_in {
	struct gitentries *g;
	const uint8_t *at;
	const uint8_t *end;
	size_t cap;
};

/* Takes a decimal number and the byte after it. */
static bool take_number(struct cached_in *in, char after, int64_t *ret)
{
	const bool negative = in->at < in->end && *in->at == '-';
	int64_t v = 0;
	int digits = 0;

	in->at += negative;
	for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
		if (++digits > DIGITS_MAX)
			return false;
		v = v * 10 + (*in->at - '0');
	}
	if (!digits || in->at == in->end || *in->at != (uint8_t)after)
		return false;
	in->at++;
	*ret = negative ? -v : v;
	return true;
}

static bool take_node(struct cached_in *in, struct gitcached *ret)
{
	const size_t left = (size_t)(in->end - in->at);
	const uint8_t *nul = left ? memchr(in->at, 0, left) : NULL;
	int64_t subtrees;

	if (!nul)
		return false;
	*ret = (struct gitcached){.name = (const char *)in->at};
	in->at = nul + 1;
	if (!take_number(in, ' ', &ret->count) ||
	    !take_number(in, '\n', &subtrees) || subtrees < 0 ||
	    subtrees > UINT32_MAX)
		return false;
	ret->subtrees = (uint32_t)subtrees;
	if (ret->count < 0)
		return true;
	ret->tree = in->at;
	if (in->end - in->at < GITINDEX_NAME_BYTES)
		return false;
	in->at += GITINDEX_NAME_BYTES;
	return true;
}

static int node_put(struct cached_in *in, const struct gitcached *node)
{
	struct gitentries *g = in->g;

	if (GROW(g->cached, g->cached_count, in->cap, 256) < 0)
		return -ENOMEM;
	g->cached[g->cached_count++] = *node;
	return 0;
}

/* A path of nodes from the root to the one that gets children. */
struct way {
	uint32_t node;
	uint32_t left; /* children to come */
};

/* Reads all nodes. A cache that makes no sense is no cache. */
static int nodes_read(struct cached_in *in, struct way *way)
{
	struct gitentries *g = in->g;
	size_t depth = 0;

	do {
		struct gitcached node;
		int r = take_node(in, &node) ? node_put(in, &node)
					     : -EFSCORRUPTED;

		if (r < 0)
			return r;
		if (depth)
			way[depth - 1].left--;
		if (depth == CACHED_DEPTH)
			return -EFSCORRUPTED;
		way[depth++] = (struct way){(uint32_t)g->cached_count - 1,
					    node.subtrees};
		while (depth && !way[depth - 1].left)
			g->cached[way[--depth].node].end =
				(uint32_t)g->cached_count;
	} while (depth);
	return 0;
}

static int take_cache_tree(void *ctx, const uint8_t *data, size_t len)
{
	struct gitentries *g = ctx;
	struct cached_in in = {.g = g, .at = data, .end = data + len};
	_cleanup_free_ struct way *way = calloc(CACHED_DEPTH, sizeof *way);
	int r;

	if (!way)
		return -ENOMEM;
	if (!len || g->cached)
		return 0;
	r = nodes_read(&in, way);
	if (r == -EFSCORRUPTED)
		g->cached_count = 0;
	return r == -ENOMEM ? r : 0;
}

int gitentries_read(struct gitentries *g, struct diag *diag)
{
	const struct gitindex_reader reader = {
		.entry = take_entry, .cache_tree = take_cache_tree, .ctx = g};

	return gitindex_walk(g->raw.data, g->raw.len, &reader, diag);
}

/* --- questions ------------------------------------------------------------ */

size_t gitentries_seek(const struct gitentries *g, const char *path, size_t len)
{
	size_t low = 0, high = g->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct gitentry *e = &g->list[middle];

		if (path_compare(gitentry_path(g, e), e->path_len, path, len) <
		    0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct gitentry *gitentries_find(const struct gitentries *g,
				       const char *path, size_t len)
{
	const size_t i = gitentries_seek(g, path, len);
	const struct gitentry *e = &g->list[i];

	return i < g->count && e->path_len == len &&
			       !memcmp(gitentry_path(g, e), path, len)
		       ? e
		       : NULL;
}

bool gitentries_has_below(const struct gitentries *g, const char *dir,
			  size_t len)
{
	/* "dir-x" comes between "dir" and "dir/x" */
	size_t low = gitentries_seek(g, dir, len);
	size_t high = g->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct gitentry *e = &g->list[middle];
		const char *path = gitentry_path(g, e);
		const int c = memcmp(path, dir, MIN((size_t)e->path_len, len));

		if (c < 0 || (c == 0 &&
			      (e->path_len <= len || (uint8_t)path[len] < '/')))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == g->count || g->list[low].path_len <= len)
		return false;
	return !memcmp(gitentry_path(g, &g->list[low]), dir, len) &&
	       gitentry_path(g, &g->list[low])[len] == '/';
}

const struct gitcached *gitcached_child(const struct gitentries *g,
					const struct gitcached *up,
					const char *name, size_t len)
{
	const struct gitcached *c = up + 1;

	for (uint32_t i = 0; i < up->subtrees; i++) {
		if (strlen(c->name) == len && !memcmp(c->name, name, len))
			return c;
		c = &g->cached[c->end];
	}
	return NULL;
}
