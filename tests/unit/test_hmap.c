/* SPDX-License-Identifier: MIT */
/* Tests of base/hmap.h. */
#include "test.h"

#include "base/hmap.h"

struct item {
	struct hnode node;
	uint64_t key;
	unsigned seen;
};

enum { ITEMS = 5000 };

static struct item *item_of(struct hnode *n)
{
	return container_of(n, struct item, node);
}

static struct item *find(const struct hmap *m, uint64_t key)
{
	struct hnode *n = hmap_first(m, hmap_hash_u64(key));

	while (n && item_of(n)->key != key)
		n = hmap_next(n);
	return n ? item_of(n) : NULL;
}

static struct item *make_items(struct hmap *m)
{
	struct item *items = calloc(ITEMS, sizeof *items);

	assert_non_null(items);
	for (uint64_t i = 0; i < ITEMS; i++) {
		items[i].key = i;
		assert_ok(hmap_insert(m, &items[i].node, hmap_hash_u64(i)));
	}
	return items;
}

TEST(a_zeroed_map_is_empty)
{
	struct hmap m = {0};
	struct hmap_cursor c = {0};

	assert_null(hmap_first(&m, 1));
	assert_null(hmap_each(&m, &c));
	hmap_fini(&m);
}

TEST(what_was_inserted_is_found_and_what_was_removed_is_not)
{
	struct hmap m = {0};
	_cleanup_free_ struct item *items = make_items(&m);

	assert_int_equal(m.count, ITEMS);
	for (uint64_t i = 0; i < ITEMS; i += 2)
		hmap_remove(&m, &items[i].node);
	assert_int_equal(m.count, ITEMS / 2);
	for (uint64_t i = 0; i < ITEMS; i++)
		assert_ptr_equal(find(&m, i), i % 2 ? &items[i] : NULL);
	hmap_fini(&m);
	assert_null(find(&m, 1));
}

TEST(nodes_with_an_equal_hash_are_all_found)
{
	struct hmap m = {0};
	struct item items[100] = {0};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		assert_ok(hmap_insert(&m, &items[i].node, 7 + i % 2 * 1024));
	for (struct hnode *p = hmap_first(&m, 7); p; p = hmap_next(p)) {
		assert_int_equal(p->hash, 7);
		assert_int_equal(item_of(p)->seen++, 0);
		n++;
	}
	assert_int_equal(n, 50);
	hmap_fini(&m);
}

TEST(iteration_sees_each_node_once_and_may_remove_the_current_one)
{
	struct hmap m = {0};
	_cleanup_free_ struct item *items = make_items(&m);
	struct hmap_cursor c = {0};
	struct hnode *n;

	while ((n = hmap_each(&m, &c))) {
		item_of(n)->seen++;
		if (item_of(n)->key % 3 == 0) {
			hmap_remove(&m, n);
			memset(n, 0xff, sizeof *n);
		}
	}
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(items[i].seen, 1);
	assert_int_equal(m.count, ITEMS - (ITEMS + 2) / 3);
	hmap_fini(&m);
}

TEST(a_finished_map_is_usable_again)
{
	struct hmap m = {0};
	struct item item = {.key = 9};

	assert_ok(hmap_insert(&m, &item.node, hmap_hash_u64(9)));
	hmap_fini(&m);
	assert_int_equal(m.count, 0);
	assert_ok(hmap_insert(&m, &item.node, hmap_hash_u64(9)));
	assert_ptr_equal(find(&m, 9), &item);
	hmap_fini(&m);
}

TEST(hashes_repeat_within_a_process_and_depend_on_every_input)
{
	const char text[] = "the quick brown fox";

	assert_true(hmap_hash_u64(5) == hmap_hash_u64(5));
	assert_true(hmap_hash_u64(5) != hmap_hash_u64(6));
	assert_true(hmap_hash_bytes(text, 19, 1) ==
		    hmap_hash_bytes(text, 19, 1));
	assert_true(hmap_hash_bytes(text, 19, 1) !=
		    hmap_hash_bytes(text, 19, 2));
	for (size_t n = 0; n < 19; n++)
		assert_true(hmap_hash_bytes(text, n, 0) !=
			    hmap_hash_bytes(text, n + 1, 0));
	assert_true(hmap_hash_bytes("a\0", 1, 0) !=
		    hmap_hash_bytes("a\0", 2, 0));
	assert_true(hmap_hash_bytes(NULL, 0, 0) == hmap_hash_bytes("", 0, 0));
}

/* 2^14 consecutive numbers in 2^14 slots: a random function leaves 1/e of them
 * (6027) empty, give or take a few hundred. */
TEST(hashes_of_consecutive_numbers_spread_over_low_bits)
{
	enum { SLOTS = 1 << 14 };
	_cleanup_free_ uint8_t *hit = calloc(SLOTS, 1);
	unsigned empty = 0;

	assert_non_null(hit);
	for (uint64_t i = 0; i < SLOTS; i++)
		hit[hmap_hash_u64(i) % SLOTS] = 1;
	for (size_t i = 0; i < SLOTS; i++)
		empty += !hit[i];
	assert_in_range(empty, 5500, 6600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(a_zeroed_map_is_empty),
		RUN(what_was_inserted_is_found_and_what_was_removed_is_not),
		RUN(nodes_with_an_equal_hash_are_all_found),
		RUN(iteration_sees_each_node_once_and_may_remove_the_current_one),
		RUN(a_finished_map_is_usable_again),
		RUN(hashes_repeat_within_a_process_and_depend_on_every_input),
		RUN(hashes_of_consecutive_numbers_spread_over_low_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
