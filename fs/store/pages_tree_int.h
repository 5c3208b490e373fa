/* SPDX-License-Identifier: MIT */
/*
 * pages_tree_int.h - the trees of the index's file, for pages.c alone.
 *
 * Contract
 *   Ownership   struct pages is the caller's storage
 *   Threads     caller serialises
 */
#ifndef COWFS_STORE_PAGES_TREE_INT_H
#define COWFS_STORE_PAGES_TREE_INT_H

#include "store/index_int.h"
#include "store/pages_int.h"

enum {
	PAGE_HEADER = 16,
	PAGE_BYTES_MAX = 32768,
	PAGE_TREE_BYTES = 48, /* the record of a tree */
};

struct pages {
	const uint8_t *map;
	size_t size;
	size_t page_bytes;
	uint64_t last; /* page number */
	uint64_t txn;  /* of the newer meta page */
	uint8_t *met;  /* a byte for each page */
	bool has_table[INDEX_TABLES];
	pages_fn fn;
	void *ctx;
	size_t findings;
	int err; /* negative errno; 1: leave this tree */
};

/* Notes a finding. */
void pages_find(struct pages *p, const char *rule, const char *fmt, ...)
	_printf_(3, 4);
/* Checks the tree that a record names: the list of free pages, or the main one
 * with the tables in it. */
void pages_check_tree(struct pages *p, const uint8_t *record, bool is_free);

#endif
