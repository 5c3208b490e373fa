/* SPDX-License-Identifier: MIT */
/*
 * Each rule of docs/format.md about objects is broken here on purpose, and
 * must be told by its number.
 */
#include "fsck_case.h"

#include "object/format.h"
#include "object/links.h"
#include "object/manifest.h"
#include "object/xset.h"

/* --- objects ------------------------------------------------------------- */

/* The bytes of a tree of two files, to be spoiled. */
static struct buf two_files(void)
{
	const struct oid blob = oid_of(OID_BLOB, "x", 1);
	const struct tree_entry e[2] = {file_of("a", &blob),
					file_of("b", &blob)};
	struct tree_builder t = {0};
	struct buf out = {0};

	assert_ok(tree_builder_add(&t, &e[0]));
	assert_ok(tree_builder_add(&t, &e[1]));
	assert_ok(tree_builder_finish(&t, &out));
	tree_builder_fini(&t);
	return out;
}

enum {
	TREE_FIRST = 24 + 2 * 4, /* where the first entry begins */
	ENTRY_NAME = 45 + OID_BYTES,
	ENTRY_BYTES = ENTRY_NAME + 1,
};

static void assert_tree_rule(void **state, size_t at, uint8_t byte,
			     const char *rule)
{
	_cleanup_buf_ struct buf b = two_files();

	b.data[at] = byte;
	put_wrong(state, OID_TREE, b.data, b.len);
	assert_rule(state, rule);
}

TEST(O1_a_tree_that_is_none)
{
	assert_tree_rule(state, 12, 1, "O1");
}

TEST(O6_entries_with_a_gap)
{
	assert_tree_rule(state, 28, 0xff, "O6");
}

TEST(O7_names_out_of_order)
{
	assert_tree_rule(state, TREE_FIRST + ENTRY_NAME, 'c', "O7");
}

TEST(O7_a_name_that_is_none)
{
	assert_tree_rule(state, TREE_FIRST + ENTRY_NAME, '/', "O7");
}

TEST(O8_a_wrong_start)
{
	assert_tree_rule(state, TREE_FIRST, 2, "O8");
}

TEST(O9_a_kind_that_is_none)
{
	assert_tree_rule(state, TREE_FIRST + 29, 0xf0, "O9");
}

TEST(O3_a_blob_that_is_too_long)
{
	_cleanup_free_ char *data = calloc(1, FORMAT_CHUNK_BYTES + 1);

	assert_non_null(data);
	put_wrong(state, OID_BLOB, data, FORMAT_CHUNK_BYTES + 1);
	assert_rule(state, "O3");
}

TEST(O3_a_directory_with_other_counts)
{
	struct store *s = fsck_open_store(state);
	struct snap snap = {.mode = S_IFDIR | 0755, .total = 3, .subdirs = 1};
	struct batch *b = NULL;
	struct tree_entry e;
	struct oid blob;

	assert_ok(batch_begin(s, &b));
	blob = put_object(b, OID_BLOB, "x", 1);
	e = file_of("f", &blob);
	/* One inode below it; the entry says two. */
	e = (struct tree_entry){.name = "d",
				.name_len = 1,
				.mode = S_IFDIR | 0755,
				.below = 2,
				.content = put_tree(b, &e, 1)};
	snap.tree = put_tree(b, &e, 1);
	(void)commit_snap(b, &snap, "wrong");
	store_close(s);
	assert_rule(state, "O3");
}

TEST(O4_a_manifest_with_wrong_chunks)
{
	_cleanup_buf_ struct buf b = {0};
	const struct oid chunk = oid_of(OID_BLOB, "short", 5);

	manifest_begin(&b, 2 * FORMAT_CHUNK_BYTES);
	manifest_add(&b, &chunk);
	manifest_add(&b, &chunk);
	put_wrong(state, OID_MANIFEST, b.data, b.len);
	assert_rule(state, "O4");
}

TEST(O5_a_chunk_of_zeros)
{
	_cleanup_free_ char *zeros = calloc(1, FORMAT_CHUNK_BYTES);
	_cleanup_buf_ struct buf m = {0};
	struct store *s = fsck_open_store(state);
	struct snap snap = {.mode = S_IFDIR | 0755, .total = 1};
	struct batch *b = NULL;
	struct tree_entry e;
	struct oid id;

	assert_non_null(zeros);
	assert_ok(batch_begin(s, &b));
	id = put_object(b, OID_BLOB, zeros, FORMAT_CHUNK_BYTES);
	manifest_begin(&m, 2 * FORMAT_CHUNK_BYTES);
	manifest_add(&m, &id);
	manifest_add(&m, &id);
	id = put_object(b, OID_MANIFEST, m.data, m.len);
	e = file_of("zeros", &id);
	e.size = 2 * FORMAT_CHUNK_BYTES;
	snap.tree = put_tree(b, &e, 1);
	(void)commit_snap(b, &snap, "zeros");
	store_close(s);
	assert_rule(state, "O5");
}

TEST(O10_attributes_out_of_order)
{
	_cleanup_buf_ struct buf b = {0};

	buf_put_u32(&b, FORMAT_XSET_MAGIC);
	buf_put_u32(&b, 2);
	for (int i = 0; i < 2; i++) {
		buf_put_u16(&b, 6);
		buf_put_u32(&b, 1);
		buf_put(&b, i ? "user.a" : "user.b", 6);
		buf_put(&b, "v", 1);
	}
	put_wrong(state, OID_XSET, b.data, b.len);
	assert_rule(state, "O10");
}

static void put_links(struct buf *out, uint64_t a, uint64_t b, uint32_t count)
{
	links_begin(out, 2);
	links_add(out, &(struct links_entry){a, a, count});
	links_add(out, &(struct links_entry){b, a, count});
}

TEST(O11_a_group_of_another_size)
{
	_cleanup_buf_ struct buf b = {0};

	put_links(&b, 1, 2, 3);
	put_wrong(state, OID_LINKS, b.data, b.len);
	assert_rule(state, "O11");
}

TEST(O12_names_of_one_file_that_differ)
{
	struct store *s = fsck_open_store(state);
	struct snap snap = {.mode = S_IFDIR | 0755, .total = 2};
	_cleanup_buf_ struct buf l = {0};
	struct tree_entry e[2];
	struct batch *b = NULL;
	struct oid blob;

	assert_ok(batch_begin(s, &b));
	blob = put_object(b, OID_BLOB, "x", 1);
	e[0] = file_of("a", &blob);
	e[1] = file_of("b", &blob);
	e[1].uid = 7;
	snap.tree = put_tree(b, e, 2);
	put_links(&l, 1, 2, 2);
	snap.links = put_object(b, OID_LINKS, l.data, l.len);
	(void)commit_snap(b, &snap, "links");
	store_close(s);
	assert_rule(state, "O12");
}

TEST(O13_a_root_with_other_counts)
{
	struct store *s = fsck_open_store(state);
	struct snap snap = {.mode = S_IFDIR | 0755, .total = 2};
	struct batch *b = NULL;
	struct tree_entry e;
	struct oid blob;

	assert_ok(batch_begin(s, &b));
	blob = put_object(b, OID_BLOB, "x", 1);
	e = file_of("f", &blob);
	snap.tree = put_tree(b, &e, 1);
	(void)commit_snap(b, &snap, "wrong");
	store_close(s);
	assert_rule(state, "O13");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(O1_a_tree_that_is_none),
		RUN_SCRATCH(O3_a_blob_that_is_too_long),
		RUN_SCRATCH(O3_a_directory_with_other_counts),
		RUN_SCRATCH(O4_a_manifest_with_wrong_chunks),
		RUN_SCRATCH(O5_a_chunk_of_zeros),
		RUN_SCRATCH(O6_entries_with_a_gap),
		RUN_SCRATCH(O7_names_out_of_order),
		RUN_SCRATCH(O7_a_name_that_is_none),
		RUN_SCRATCH(O8_a_wrong_start),
		RUN_SCRATCH(O9_a_kind_that_is_none),
		RUN_SCRATCH(O10_attributes_out_of_order),
		RUN_SCRATCH(O11_a_group_of_another_size),
		RUN_SCRATCH(O12_names_of_one_file_that_differ),
		RUN_SCRATCH(O13_a_root_with_other_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
