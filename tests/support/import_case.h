/* SPDX-License-Identifier: MIT */
/*
 * import_case.h - a folder, a store beside it, and a look at what was imported.
 *
 * In the scratch folder: "src" is imported, "store" is the store. Failures of
 * the set-up itself end the test.
 *
 * Contract
 *   Ownership   case_close frees what a case holds
 *   Threads     one
 */
#ifndef COWFS_TESTS_IMPORT_CASE_H
#define COWFS_TESTS_IMPORT_CASE_H

#include "test.h"

#include "exchange/import_dir.h"
#include "object/snap.h"
#include "object/tree.h"

struct import_case {
	char src[512];
	int src_fd;
	struct store *store;
	struct import_options options;
	struct import_result result;
	struct diag notes;
	struct diag diag;
};

/* An entry of the snapshot, found by its path. */
struct found {
	struct buf tree; /* what entry points into */
	struct tree_entry entry;
	uint64_t position;
};

/* Makes "src"; the store is opened by the first import. */
void case_open(struct import_case *c, const struct test_scratch *scratch);
void case_close(struct import_case *c);
/* Imports "src" into the store of that name beside it. */
int case_import(struct import_case *c, const char *store);
/* Reads the snapshot object of the last import. */
void case_snap(struct import_case *c, struct snap *ret_snap);
/* Looks a path up in the last import. -ENOENT. */
int case_find(struct import_case *c, const char *path, struct found *ret_found);
bool case_has(struct import_case *c, const char *path);
/* Says whether a line of the diag contains the words. */
bool case_says(const struct diag *d, const char *words);

/* Writes a file of that content below dirfd. */
void make_file(int dirfd, const char *name, const void *data, size_t len);
void make_text(int dirfd, const char *name, const char *text);
/* Fills with bytes that do not repeat within a chunk. */
void fill_bytes(uint8_t *data, size_t len, uint64_t seed);

#endif
