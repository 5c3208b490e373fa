/* SPDX-License-Identifier: MIT */
/*
 * How: each tree is walked from its root. Checked are the form of each page
 * (nodes fill it without gaps or overlaps), the order of keys through the
 * whole tree, the separators in branch pages, the counts that each tree keeps
 * of its pages and rows, and the checksum of each of our rows. Each page that
 * is met is noted, so that none is part of two things.
 *
 * What LMDB does not read is not checked: the space between the pointers and
 * the nodes of a page, padding, the first separator of a branch.
 */
#include "store/pages_tree_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum {
	PAGE_BRANCH = 1,
	PAGE_LEAF = 2,
	PAGE_OVERFLOW = 4,
	NODE_HEADER = 8,
	NODE_BIG = 1,
	NODE_TABLE = 2,
	MAX_KEY = 511,
	MAX_DEPTH = 32,
	INTEGER_KEYS = 8,
	TEXT_BYTES = 256,
	MOST_FINDINGS = 20,
};

#define NO_PAGE UINT64_MAX

/* One B+ tree, as its record says and as it was found. */
struct tree_record {
	uint16_t flags;
	uint16_t depth;
	uint64_t branches, leaves, overflows, rows;
	uint64_t root;
};

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_TABLE };

struct key {
	const uint8_t *p; /* NULL: none yet */
	size_t n;
};

struct walk {
	struct tree_record found;
	enum tree_kind kind;
	const char *name;
	int table;	  /* ours; -1: of a later version */
	struct key last;  /* of the row before */
	struct key floor; /* separator that the next row must not be below */
};

void pages_find(struct pages *p, const char *rule, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	if (p->findings++ >= MOST_FINDINGS || !p->fn)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	p->fn(p->ctx, rule, text);
}

static void find_page(struct pages *p, uint64_t no, const char *what)
{
	pages_find(p, "S25", "page %llu: %s", (unsigned long long)no, what);
}

/* Notes that pages are in use (or free); false: they cannot be. */
static bool meet(struct pages *p, uint64_t no, uint64_t count, const char *as)
{
	if (no < 2 || no > p->last || count > p->last - no + 1) {
		find_page(p, no, "is not one of the file's");
		return false;
	}
	for (uint64_t i = no; i < no + count; i++) {
		if (p->met[i]) {
			pages_find(p, "S25", "page %llu: met twice, now as %s",
				   (unsigned long long)i, as);
			return false;
		}
		p->met[i] = 1;
	}
	return true;
}

/* Returns a page that lies in the file, met for the first time. */
static const uint8_t *page_at(struct pages *p, uint64_t no, const char *as)
{
	const uint8_t *page;

	if (!meet(p, no, 1, as))
		return NULL;
	if ((no + 1) * p->page_bytes > p->size) {
		find_page(p, no, "lies behind the end of the file");
		return NULL;
	}
	page = p->map + no * p->page_bytes;
	if (bytes_load_u64(page) != no) {
		find_page(p, no, "has another number");
		return NULL;
	}
	return page;
}

/* --- nodes --------------------------------------------------------------- */

struct node {
	const uint8_t *key;
	size_t key_len;
	const uint8_t *data; /* behind the key */
	uint32_t len;	     /* leaf: bytes of data */
	uint16_t flags;
	uint64_t child; /* branch */
	size_t bytes;	/* in its page */
};

static size_t slots_of(const uint8_t *page)
{
	return (bytes_load_u16(page + 12) - (size_t)PAGE_HEADER) / 2;
}

/* Reads node i; false when it does not lie in the page. */
static bool node_at(const struct pages *p, const uint8_t *page, size_t i,
		    struct node *n)
{
	const size_t at = bytes_load_u16(page + PAGE_HEADER + 2 * i);
	const size_t upper = bytes_load_u16(page + 14);
	const bool leaf = bytes_load_u16(page + 10) == PAGE_LEAF;
	const uint8_t *q = page + at;
	size_t room;

	if (at % 2 || at < upper || at + NODE_HEADER > p->page_bytes)
		return false;
	room = p->page_bytes - at - NODE_HEADER;
	n->len = bytes_load_u32(q);
	n->flags = bytes_load_u16(q + 4);
	n->key_len = bytes_load_u16(q + 6);
	n->key = q + NODE_HEADER;
	n->child = n->len | (uint64_t)n->flags << 32;
	if (n->key_len > room || n->key_len > MAX_KEY)
		return false;
	room -= n->key_len;
	n->data = n->key + n->key_len;
	n->bytes = NODE_HEADER + n->key_len;
	if (leaf) {
		const size_t len = n->flags & NODE_BIG ? 8 : n->len;

		if ((n->flags & ~(NODE_BIG | NODE_TABLE)) || len > room ||
		    n->key_len == 0)
			return false;
		n->bytes += len;
	}
	n->bytes = ALIGN_UP(n->bytes, 2);
	return n->bytes <= p->page_bytes - at;
}

/* Checks that nodes fill the end of a page, each byte once. */
static bool page_is_packed(struct pages *p, const uint8_t *page)
{
	const size_t lower = bytes_load_u16(page + 12);
	const size_t upper = bytes_load_u16(page + 14);
	uint8_t used[PAGE_BYTES_MAX / 16] = {0}; /* a bit for each 2 bytes */
	size_t sum = 0;

	if (lower < PAGE_HEADER || lower % 2 || lower > upper ||
	    upper > p->page_bytes)
		return false;
	for (size_t i = 0; i < slots_of(page); i++) {
		const size_t at = bytes_load_u16(page + PAGE_HEADER + 2 * i);
		struct node n;

		if (!node_at(p, page, i, &n))
			return false;
		for (size_t b = at / 2; b < (at + n.bytes) / 2; b++) {
			if (used[b / 8] & 1 << b % 8)
				return false;
			used[b / 8] |= (uint8_t)(1 << b % 8);
		}
		sum += n.bytes;
	}
	return sum == p->page_bytes - upper;
}

static int compare_keys(const struct walk *w, struct key a, struct key b)
{
	int r;

	if (w->kind == TREE_FREE) {
		const uint64_t x = bytes_load_u64(a.p);
		const uint64_t y = bytes_load_u64(b.p);

		return (x > y) - (x < y);
	}
	r = memcmp(a.p, b.p, MIN(a.n, b.n));
	return r ? r : (a.n > b.n) - (a.n < b.n);
}

/* --- rows ---------------------------------------------------------------- */

static void check_free_row(struct pages *p, struct key key,
			   const uint8_t *value, size_t len)
{
	const uint64_t count = len >= 8 ? bytes_load_u64(value) : 0;
	uint64_t last = NO_PAGE;

	if (len < 8 || count > len / 8 - 1 || bytes_load_u64(key.p) > p->txn) {
		pages_find(p, "S25", "a list of free pages makes no sense");
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t no = bytes_load_u64(value + 8 + 8 * i);

		if (no >= last || !meet(p, no, 1, "free")) {
			find_page(p, no, "is out of place in a free list");
			return;
		}
		last = no;
	}
}

static void load_tree(const uint8_t *q, struct tree_record *t)
{
	*t = (struct tree_record){
		.flags = bytes_load_u16(q + 4),
		.depth = bytes_load_u16(q + 6),
		.branches = bytes_load_u64(q + 8),
		.leaves = bytes_load_u64(q + 16),
		.overflows = bytes_load_u64(q + 24),
		.rows = bytes_load_u64(q + 32),
		.root = bytes_load_u64(q + 40),
	};
}

static void walk_tree(struct pages *p, const uint8_t *record,
		      enum tree_kind kind, struct key name);

/* A row of the main tree: a table. */
static void check_main_row(struct pages *p, struct key key,
			   const struct node *n)
{
	if (!(n->flags & NODE_TABLE) || n->flags & NODE_BIG ||
	    n->len != PAGE_TREE_BYTES) {
		pages_find(p, "S25", "a row of the main table is no table");
		return;
	}
	walk_tree(p, n->data, TREE_TABLE, key);
}

static void check_row(struct pages *p, struct walk *w, const struct node *n,
		      const uint8_t *value)
{
	struct key key = {n->key, n->key_len};

	if (w->kind == TREE_FREE && n->key_len != 8) {
		pages_find(p, "S25", "a list of free pages has no number");
		return;
	}
	if ((w->last.p && compare_keys(w, w->last, key) >= 0) ||
	    (w->floor.p && compare_keys(w, key, w->floor) < 0)) {
		pages_find(p, "S25", "table %s: rows are out of order",
			   w->name);
		p->err = 1; /* one line says it for all that follow */
		return;
	}
	w->last = key;
	w->floor.p = NULL;
	w->found.rows++;
	if (w->kind == TREE_FREE)
		check_free_row(p, key, value, n->len);
	else if (w->kind == TREE_MAIN)
		check_main_row(p, key, n);
	else if (n->flags & NODE_TABLE)
		pages_find(p, "S25", "table %s: a row is a table", w->name);
	else if (w->table >= 0 &&
		 !index_row_is_sound(w->table, index_key_of(n->key, n->key_len),
				     index_key_of(value, n->len)))
		pages_find(p, "S11",
			   "table %s: a row does not fit its checksum",
			   w->name);
}

/* Returns the value of a leaf's node, wherever it is. */
static const uint8_t *value_of(struct pages *p, struct walk *w,
			       const struct node *n)
{
	uint64_t first, count;
	const uint8_t *page;

	if (!(n->flags & NODE_BIG))
		return n->data;
	first = bytes_load_u64(n->data);
	count = (PAGE_HEADER - 1 + (uint64_t)n->len) / p->page_bytes + 1;
	page = page_at(p, first, "a long value");
	if (!page)
		return NULL;
	if (bytes_load_u16(page + 10) != PAGE_OVERFLOW ||
	    bytes_load_u32(page + 12) != count ||
	    (first + count) * p->page_bytes > p->size ||
	    (count > 1 && !meet(p, first + 1, count - 1, "a long value"))) {
		find_page(p, first, "is no long value");
		return NULL;
	}
	w->found.overflows += count;
	return page + PAGE_HEADER;
}

/* --- trees --------------------------------------------------------------- */

static void walk_leaf(struct pages *p, struct walk *w, const uint8_t *page)
{
	for (size_t i = 0; i < slots_of(page) && !p->err; i++) {
		const uint8_t *value;
		struct node n;

		if (!node_at(p, page, i, &n))
			return;
		value = value_of(p, w, &n);
		if (value)
			check_row(p, w, &n, value);
	}
}

static void walk_page(struct pages *p, struct walk *w, uint64_t no,
		      unsigned depth);

static void walk_branch(struct pages *p, struct walk *w, const uint8_t *page,
			unsigned depth)
{
	for (size_t i = 0; i < slots_of(page) && !p->err; i++) {
		struct node n;
		struct key key;

		if (!node_at(p, page, i, &n))
			return;
		key = (struct key){n.key, n.key_len};
		/* The first separator of a page is never looked at. */
		if (i > 0) {
			if ((w->kind == TREE_FREE && key.n != 8) || !key.n ||
			    (w->last.p && compare_keys(w, w->last, key) >= 0)) {
				pages_find(p, "S25",
					   "table %s: a branch is out of order",
					   w->name);
				p->err = 1;
				return;
			}
			w->floor = key;
		}
		walk_page(p, w, n.child, depth - 1);
	}
}

/* depth: levels from this page down to the leaves. */
static void walk_page(struct pages *p, struct walk *w, uint64_t no,
		      unsigned depth)
{
	const uint8_t *page = page_at(p, no, w->name);
	uint16_t flags;

	if (!page)
		return;
	flags = bytes_load_u16(page + 10);
	if (flags != (depth > 1 ? PAGE_BRANCH : PAGE_LEAF) ||
	    !page_is_packed(p, page) ||
	    slots_of(page) < (depth > 1 ? 2U : 1U)) {
		find_page(p, no, "is damaged");
		return;
	}
	if (depth > 1) {
		w->found.branches++;
		walk_branch(p, w, page, depth);
	} else {
		w->found.leaves++;
		walk_leaf(p, w, page);
	}
}

static bool same_counts(const struct tree_record *a,
			const struct tree_record *b)
{
	return a->branches == b->branches && a->leaves == b->leaves &&
	       a->overflows == b->overflows && a->rows == b->rows;
}

static void walk_tree(struct pages *p, const uint8_t *record,
		      enum tree_kind kind, struct key name)
{
	const uint16_t flags = kind == TREE_FREE ? INTEGER_KEYS : 0;
	char text[32] = "free";
	struct walk w = {.kind = kind, .name = text, .table = -1};
	struct tree_record t;
	size_t before = p->findings;

	if (kind != TREE_FREE)
		(void)snprintf(text, sizeof text, "%.*s",
			       (int)MIN(name.n, sizeof text - 1),
			       (const char *)name.p);
	if (kind == TREE_TABLE)
		w.table = index_table_by_name(text);
	if (w.table >= 0)
		p->has_table[w.table] = true;
	load_tree(record, &t);
	if (t.flags != flags || t.depth > MAX_DEPTH ||
	    (t.root == NO_PAGE) != (t.depth == 0) ||
	    (kind != TREE_FREE && bytes_load_u32(record) != 0)) {
		pages_find(p, "S25", "table %s: its record makes no sense",
			   text);
		return;
	}
	if (t.root != NO_PAGE)
		walk_page(p, &w, t.root, t.depth);
	p->err = MIN(p->err, 0);
	if (p->findings == before && !same_counts(&w.found, &t))
		pages_find(p, "S25",
			   "table %s: it has other counts than it says", text);
}

void pages_check_tree(struct pages *p, const uint8_t *record, bool is_free)
{
	const struct key name = {(const uint8_t *)"main", 4};

	walk_tree(p, record, is_free ? TREE_FREE : TREE_MAIN, name);
}
