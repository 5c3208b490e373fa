/* SPDX-License-Identifier: MIT */
/* Tests of exchange/compose.h: what a snapshot of several is like. */
#include "import_case.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "exchange/compose.h"
#include "object/links.h"
#include "object/snap.h"

/* Finds "a/b/c" in a snapshot by lookups; its position with it. */
static int look_up(struct store *s, const struct oid *id, const char *path,
		   struct tree_entry *ret, uint64_t *ret_position)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct snap snap;
	struct oid tree;
	struct tree t;
	uint32_t i;

	assert_ok(store_get_snap(s, id, &snap));
	tree = snap.tree;
	*ret_position = 0;
	for (;;) {
		size_t n = strcspn(path, "/");

		buf_clear(&bytes);
		assert_ok(store_get(s, &tree, &bytes));
		assert_ok(tree_open(bytes.data, bytes.len, &t));
		if (tree_lookup(&t, path, n, &i) < 0)
			return -ENOENT;
		tree_entry_at(&t, i, ret);
		*ret_position += ret->start;
		if (!path[n])
			break;
		tree = ret->content;
		path += n + 1;
	}
	ret->name = ret->target = NULL; /* bytes goes */
	return 0;
}

/* A cache with a file, a directory, and two names of one file. */
static void make_cache(struct import_case *c, void **state, struct oid *ret_id)
{
	case_open(c, *state);
	assert_ok(mkdirat(c->src_fd, "sub", 0700));
	make_text(c->src_fd, "sub/x", "linked");
	assert_ok(linkat(c->src_fd, "sub/x", c->src_fd, "sub/y", 0));
	make_text(c->src_fd, "file", "hello");
	assert_ok(case_import(c, "store"));
	*ret_id = c->result.id;
}

static const struct compose_part two[] = {
	{.path = ".npm"},
	{.path = ".cache/pip"},
};

static void compose_two(struct import_case *c, const struct oid *id,
			struct oid *ret_id)
{
	struct compose_part parts[2] = {two[0], two[1]};

	parts[0].id = parts[1].id = *id;
	assert_ok(compose(c->store, parts, 2, ret_id));
}

TEST(each_part_is_at_its_path)
{
	struct import_case c;
	struct tree_entry a, b;
	struct oid id, whole;
	struct snap snap;
	uint64_t at;

	make_cache(&c, state, &id);
	compose_two(&c, &id, &whole);
	assert_ok(look_up(c.store, &whole, ".npm/sub/x", &a, &at));
	assert_ok(look_up(c.store, &whole, ".cache/pip/sub/x", &b, &at));
	assert_true(oid_equal(&a.content, &b.content));
	assert_ok(look_up(c.store, &whole, ".cache", &a, &at));
	assert_int_equal(a.mode, S_IFDIR | 0755);
	assert_int_equal(a.size, 1);
	assert_int_equal(a.below, 5);
	assert_ok(store_get_snap(c.store, &whole, &snap));
	assert_int_equal(snap.total, 11);
	assert_int_equal(snap.subdirs, 2);
	case_close(&c);
}

TEST(hard_links_move_with_their_part)
{
	_cleanup_buf_ struct buf bytes = {0};
	struct links_entry e, f;
	struct import_case c;
	struct tree_entry t;
	struct oid id, whole;
	struct links links;
	struct snap snap;
	uint64_t x, y;

	make_cache(&c, state, &id);
	compose_two(&c, &id, &whole);
	assert_ok(store_get_snap(c.store, &whole, &snap));
	assert_ok(store_get(c.store, &snap.links, &bytes));
	assert_ok(links_open(bytes.data, bytes.len, &links));
	assert_int_equal(links.count, 4);
	for (size_t i = 0; i < 2; i++) {
		const char *const names[][2] = {
			{".npm/sub/x", ".npm/sub/y"},
			{".cache/pip/sub/x", ".cache/pip/sub/y"}};

		assert_ok(look_up(c.store, &whole, names[i][0], &t, &x));
		assert_ok(look_up(c.store, &whole, names[i][1], &t, &y));
		assert_true(links_find(&links, x, &e));
		assert_true(links_find(&links, y, &f));
		assert_int_equal(e.first, x);
		assert_int_equal(f.first, x);
		assert_int_equal(f.count, 2);
	}
	case_close(&c);
}

TEST(the_order_of_parts_does_not_matter)
{
	struct compose_part parts[2] = {two[1], two[0]};
	struct import_case c;
	struct oid id, a, b;

	make_cache(&c, state, &id);
	compose_two(&c, &id, &a);
	parts[0].id = parts[1].id = id;
	assert_ok(compose(c.store, parts, 2, &b));
	assert_true(oid_equal(&a, &b));
	case_close(&c);
}

/* In trees "a/b" comes before "a-b", although '-' is before '/'. */
TEST(parts_are_sorted_as_trees_are)
{
	struct compose_part parts[] = {
		{.path = "a.b"}, {.path = "a/c"}, {.path = "a-b"},
		{.path = "a/b"}, {.path = "b"},
	};
	struct import_case c;
	struct tree_entry e;
	struct oid id, whole;
	uint64_t at;

	make_cache(&c, state, &id);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i].id = id;
	assert_ok(compose(c.store, parts, ARRAY_SIZE(parts), &whole));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_ok(look_up(c.store, &whole, parts[i].path, &e, &at));
	assert_ok(look_up(c.store, &whole, "a", &e, &at));
	assert_int_equal(e.size, 2);
	case_close(&c);
}

TEST(a_part_below_another_is_refused)
{
	static const char *const bad[][2] = {
		{"a", "a/b"}, {"a", "a"},      {"a//b", "c"},
		{"..", "c"},  {"a/../b", "c"}, {"", "c"},
	};
	struct import_case c;
	struct oid id, whole;

	make_cache(&c, state, &id);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct compose_part parts[] = {{.path = bad[i][0], .id = id},
					       {.path = bad[i][1], .id = id}};

		assert_int_equal(compose(c.store, parts, 2, &whole), -EINVAL);
	}
	case_close(&c);
}

TEST(a_part_that_is_not_there_fails)
{
	struct compose_part part = {.path = "a"};
	struct import_case c;
	struct oid id, whole;

	make_cache(&c, state, &id);
	part.id = id;
	part.id.b[3] ^= 1;
	assert_int_equal(compose(c.store, &part, 1, &whole), -ENOENT);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(each_part_is_at_its_path),
		RUN_SCRATCH(hard_links_move_with_their_part),
		RUN_SCRATCH(the_order_of_parts_does_not_matter),
		RUN_SCRATCH(parts_are_sorted_as_trees_are),
		RUN_SCRATCH(a_part_below_another_is_refused),
		RUN_SCRATCH(a_part_that_is_not_there_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
