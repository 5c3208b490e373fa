/* SPDX-License-Identifier: MIT */
/*
 * Leases: none is given twice, those of environments that are gone are freed,
 * and fsck tells what breaks S29 to S31, and mends it.
 */
#include "fsck_case.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "store/gc.h"
#include "store/leases_int.h"

static void make_env(struct store *s, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof path, "envs/%s", name);
	assert_int_equal(mkdirat(store_fd(s), path, 0700), 0);
}

/* A store with environments a and b, as far as leases know of them. */
static struct store *make_store(void **state)
{
	struct store *s;

	make_two_snapshots(state);
	s = fsck_open_store(state);
	make_env(s, "a");
	make_env(s, "b");
	return s;
}

static struct lease port_of(uint32_t number, uint16_t use)
{
	return (struct lease){.kind = LEASE_PORT, .number = number, .use = use};
}

static const struct lease address = {.kind = LEASE_ADDRESS,
				     .number = 0x7f400001};

static void assert_leases(struct store *s, const char *want)
{
	_cleanup_buf_ struct buf rows = {0}, text = {0};

	assert_ok(store_leases(s, &rows));
	for (size_t i = 0; i < lease_count(&rows); i++) {
		const struct lease l = lease_at(&rows, i);

		buf_printf(&text, "%s %d %x %x\n", l.env, (int)l.kind, l.number,
			   l.use);
	}
	assert_string_equal(buf_str(&text), want);
}

TEST(what_is_set_is_all_that_an_environment_has)
{
	const struct lease first[] = {port_of(0x5000, 0),
				      port_of(0x5001, LEASE_DATABASE)};
	const struct lease second[] = {address,
				       port_of(0x5001, LEASE_DATABASE)};
	struct store *s = make_store(state);

	assert_leases(s, "");
	assert_ok(store_lease_set(s, "a", first, 2));
	assert_leases(s, "a 1 5000 0\na 1 5001 ffff\n");
	assert_ok(store_lease_set(s, "a", second, 2));
	assert_leases(s, "a 1 5001 ffff\na 2 7f400001 0\n");
	store_close(s);
	s = fsck_open_store(state);
	assert_leases(s, "a 1 5001 ffff\na 2 7f400001 0\n");
	assert_ok(store_lease_set(s, "a", NULL, 0));
	assert_leases(s, "");
	store_close(s);
}

TEST(none_is_given_twice)
{
	const struct lease one[] = {port_of(0x5000, 0)};
	const struct lease two[] = {port_of(0x5002, 0), port_of(0x5000, 1)};
	struct store *s = make_store(state);

	assert_ok(store_lease_set(s, "a", one, 1));
	assert_int_equal(store_lease_set(s, "b", two, 2), -EEXIST);
	assert_leases(s, "a 1 5000 0\n");
	assert_ok(store_lease_set(s, "a", NULL, 0));
	assert_ok(store_lease_set(s, "b", two, 2));
	assert_leases(s, "b 1 5000 1\nb 1 5002 0\n");
	store_close(s);
}

TEST(what_makes_no_sense_is_not_set)
{
	const struct lease bad[] = {
		port_of(0, 0),
		port_of(65536, 0),
		port_of(1, LEASE_PORTS_MAX),
		{.kind = LEASE_ADDRESS, .number = 0x0a000001},
		{.kind = LEASE_ADDRESS, .number = 0x7f000001, .use = 1},
		{.kind = LEASE_KIND_END, .number = 1},
	};
	struct store *s = make_store(state);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(store_lease_set(s, "a", &bad[i], 1), -EINVAL);
	assert_int_equal(store_lease_set(s, "../x", &address, 1), -EINVAL);
	assert_leases(s, "");
	store_close(s);
}

TEST(those_of_environments_that_are_gone_are_freed)
{
	const struct gc_options options = {.grace_days = 7},
				dry = {.dry_run = true, .grace_days = 7};
	const struct lease one[] = {port_of(0x5000, 0)};
	struct store *s = make_store(state);
	struct gc_result gc;
	size_t n;

	assert_ok(store_lease_set(s, "a", one, 1));
	assert_ok(store_lease_set(s, "b", &address, 1));
	assert_ok(store_lease_sweep(s, &n));
	assert_int_equal(n, 0);
	assert_int_equal(unlinkat(store_fd(s), "envs/b", AT_REMOVEDIR), 0);
	assert_ok(store_lease_count_stray(s, &n));
	assert_int_equal(n, 1);
	/* What gc would have to read of an environment is not there. */
	assert_int_equal(unlinkat(store_fd(s), "envs/a", AT_REMOVEDIR), 0);
	assert_ok(store_gc(s, &dry, NULL, NULL, &gc));
	assert_int_equal(gc.leases, 2);
	make_env(s, "a");
	assert_ok(store_lease_sweep(s, &n));
	assert_int_equal(n, 1);
	assert_leases(s, "a 1 5000 0\n");
	assert_int_equal(unlinkat(store_fd(s), "envs/a", AT_REMOVEDIR), 0);
	assert_ok(store_gc(s, &options, NULL, NULL, &gc));
	assert_int_equal(gc.leases, 1);
	assert_leases(s, "");
	store_close(s);
}

/* --- rules --------------------------------------------------------------- */

static void put_row(struct index_txn *t, const struct lease *l, const char *env)
{
	uint8_t key[LEASE_KEY_BYTES];
	_cleanup_buf_ struct buf row = {0};

	lease_key(l, key);
	buf_put_u16(&row, l->use);
	buf_put_block(&row, env, strlen(env));
	assert_ok(index_put(t, INDEX_LEASES, index_key_of(key, sizeof key),
			    index_key_of(row.data, row.len), true));
}

static void put_nonsense(struct index_txn *t)
{
	const struct lease far = {.kind = LEASE_ADDRESS, .number = 0x08080808};

	put_row(t, &far, "a");
	assert_ok(index_put(t, INDEX_LEASES, index_key_of("key", 3),
			    index_key_of("nonsense", 8), true));
}

static void put_stray(struct index_txn *t)
{
	const struct lease l = port_of(0x5003, 0);

	put_row(t, &l, "nobody");
}

static void put_second(struct index_txn *t)
{
	const struct lease other = port_of(0x5004, 0),
			   more = port_of(0x5005, 1);
	const struct lease there = {.kind = LEASE_ADDRESS,
				    .number = 0x7f400002};

	put_row(t, &other, "a");
	put_row(t, &more, "a");
	put_row(t, &there, "b");
}

/* Breaks a rule, sees it told, repairs. Environments have no files here. */
static void break_and_mend(void **state, change_fn change, const char *rule,
			   const char *left)
{
	const struct lease one[] = {port_of(0x5000, 0)};
	struct store *s = make_store(state);

	assert_ok(store_lease_set(s, "a", one, 1));
	assert_ok(store_lease_set(s, "b", &address, 1));
	store_close(s);
	assert_clean(state);
	change_rows(state, change);
	assert_rule(state, rule);
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	assert_clean(state);
	s = fsck_open_store(state);
	assert_leases(s, left);
	store_close(s);
}

TEST(S29_a_row_that_makes_no_sense)
{
	break_and_mend(state, put_nonsense, "S29",
		       "a 1 5000 0\nb 2 7f400001 0\n");
}

TEST(S30_a_lease_of_no_environment)
{
	break_and_mend(state, put_stray, "S30", "a 1 5000 0\nb 2 7f400001 0\n");
}

TEST(S31_one_use_that_was_given_twice)
{
	break_and_mend(state, put_second, "S31",
		       "a 1 5000 0\na 1 5005 1\nb 2 7f400001 0\n");
}

TEST(a_new_index_has_none)
{
	struct store *s = make_store(state);

	assert_ok(store_lease_set(s, "b", &address, 1));
	store_close(s);
	/* both meta pages */
	flip_bit(state, "index/data.mdb", 16);
	flip_bit(state, "index/data.mdb", 4096 + 16);
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	s = fsck_open_store(state);
	assert_leases(s, "");
	assert_ok(store_lease_set(s, "b", &address, 1));
	store_close(s);
	assert_clean(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(what_is_set_is_all_that_an_environment_has),
		RUN_SCRATCH(none_is_given_twice),
		RUN_SCRATCH(what_makes_no_sense_is_not_set),
		RUN_SCRATCH(those_of_environments_that_are_gone_are_freed),
		RUN_SCRATCH(S29_a_row_that_makes_no_sense),
		RUN_SCRATCH(S30_a_lease_of_no_environment),
		RUN_SCRATCH(S31_one_use_that_was_given_twice),
		RUN_SCRATCH(a_new_index_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
