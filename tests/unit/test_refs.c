/* SPDX-License-Identifier: MIT */
/*
 * Names of snapshots: their form, setting and deleting, and how what a user
 * types is resolved.
 */
#include "store_case.h"

#include "base/err.h"
#include "store/index_int.h"
#include "store/store.h"
#include "store/store_int.h"

static struct oid snapshot(struct store *s, const char *text, const char *ref)
{
	struct snapshot_info info = {0};
	struct batch *b;

	assert_ok(batch_begin(s, &b));
	assert_ok(batch_put(b, OID_SNAP, text, strlen(text), &info.id));
	assert_ok(batch_commit(b, &info, ref));
	return info.id;
}

/* Records a snapshot under an id that is chosen here: no store would make it,
 * but two real ones with a common prefix are hard to come by. */
static void record(struct store *s, const char *hex)
{
	_cleanup_buf_ struct buf row = {0};
	struct snapshot_info info = {0};
	struct index_txn t = {0};

	assert_ok(oid_from_hex(hex, &info.id));
	assert_ok(index_encode_snapshot(&info, &row));
	assert_ok(index_txn_begin(s->index, true, &t));
	assert_ok(index_put(&t, INDEX_SNAPSHOTS,
			    index_key_of(info.id.b, OID_BYTES),
			    index_key_of(row.data, row.len), false));
	assert_ok(index_txn_commit(&t));
}

static void expect(struct store *s, const char *what, const struct oid *id)
{
	struct oid have = {0};

	assert_ok(store_resolve(s, what, NULL, &have));
	assert_true(oid_equal(&have, id));
}

TEST(a_ref_is_normalized_or_refused)
{
	static const char *const bad[] = {"",	   ":",	   "a:",  ":a",
					  "a:b:c", "a/b",  "-a",  ".a",
					  "a b",   "a:.b", "a\n", "\xc3\xa4"};
	char longest[200];
	char ref[STORE_REF_MAX];

	assert_ok(store_ref_normalize("a", ref, sizeof ref));
	assert_string_equal(ref, "a:latest");
	assert_ok(store_ref_normalize("a.b-c_D:v1.0", ref, sizeof ref));
	assert_string_equal(ref, "a.b-c_D:v1.0");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(store_ref_normalize(bad[i], ref, sizeof ref),
				 -EINVAL);
	memset(longest, 'x', sizeof longest);
	longest[64] = ':';
	longest[129] = '\0';
	assert_ok(store_ref_normalize(longest, ref, sizeof ref));
	assert_string_equal(ref, longest);
	assert_int_equal(store_ref_normalize(longest, ref, 129), -EINVAL);
	longest[64] = 'x';
	longest[65] = '\0';
	assert_int_equal(store_ref_normalize(longest, ref, sizeof ref),
			 -EINVAL);
}

TEST(a_ref_is_set_read_moved_and_deleted)
{
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "x");
	const struct oid b = snapshot(s, "b", NULL);
	const struct oid none = oid_of(OID_SNAP, "none", 4);
	struct oid id;

	assert_ok(store_ref_get(s, "x", &id));
	assert_true(oid_equal(&id, &a));
	assert_ok(store_ref_set(s, "x:latest", &b));
	assert_ok(store_ref_get(s, "x", &id));
	assert_true(oid_equal(&id, &b));
	assert_int_equal(store_ref_set(s, "y", &none), -ENOENT);
	assert_int_equal(store_ref_set(s, "y/z", &a), -EINVAL);
	assert_ok(store_ref_delete(s, "x"));
	assert_int_equal(store_ref_get(s, "x", &id), -ENOENT);
	assert_int_equal(store_ref_delete(s, "x"), -ENOENT);
	store_close(s);
}

static int join(void *ctx, const char *ref, const struct oid *id)
{
	buf_printf(ctx, "%s ", ref);
	return 0;
}

TEST(refs_are_walked_by_name)
{
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "m");
	_cleanup_buf_ struct buf out = {0};

	assert_ok(store_ref_set(s, "z:1", &a));
	assert_ok(store_ref_set(s, "a", &a));
	assert_ok(store_refs(s, join, &out));
	assert_string_equal(buf_str(&out), "a:latest m:latest z:1 ");
	store_close(s);
}

TEST(a_snapshot_with_a_ref_is_not_forgotten)
{
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "x");
	struct oid id;

	assert_int_equal(store_snapshot_forget(s, &a), -EBUSY);
	assert_ok(store_ref_delete(s, "x"));
	assert_ok(store_snapshot_forget(s, &a));
	assert_int_equal(store_snapshot_forget(s, &a), -ENOENT);
	assert_int_equal(store_has(s, &a), 1);
	assert_int_equal(store_resolve(s, "x", NULL, &id), -ENOENT);
	store_close(s);
}

TEST(names_ids_and_prefixes_resolve)
{
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "x:v1");
	char hex[OID_HEX + 1];
	struct oid id;

	oid_to_hex(&a, hex);
	expect(s, "x:v1", &a);
	for (size_t n = OID_HEX; n >= 4; n--) {
		hex[n] = '\0';
		expect(s, hex, &a);
	}
	hex[3] = '\0';
	assert_int_equal(store_resolve(s, hex, NULL, &id), -ENOENT);
	assert_int_equal(store_resolve(s, "", NULL, &id), -ENOENT);
	assert_int_equal(store_resolve(s, "../x", NULL, &id), -ENOENT);
	store_close(s);
}

#define REST                                                                   \
	"00000000000000000000000000"                                           \
	"010000000000"                                                         \
	"06"                                                                   \
	"00"

TEST(an_ambiguous_prefix_is_refused_with_its_ids)
{
	_cleanup_diag_ struct diag d = {0};
	struct store *s = make_store(state);
	struct oid id;
	struct oid want;

	record(s, "abcd10" REST);
	record(s, "abcd12" REST);
	record(s, "abcd20" REST);
	assert_int_equal(store_resolve(s, "abcd", &d, &id), -ENOTUNIQ);
	assert_int_equal(d.count, 4);
	assert_non_null(strstr(diag_line(&d, 1), "abcd10" REST));
	/* An odd digit counts too. */
	assert_int_equal(store_resolve(s, "abcd1", NULL, &id), -ENOTUNIQ);
	assert_ok(oid_from_hex("abcd20" REST, &want));
	expect(s, "abcd2", &want);
	assert_ok(oid_from_hex("abcd12" REST, &want));
	expect(s, "abcd12", &want);
	store_close(s);
}

TEST(a_ref_wins_over_a_prefix)
{
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "abcd");

	record(s, "abcd10" REST);
	expect(s, "abcd", &a);
	store_close(s);
}

TEST(near_names_are_offered)
{
	_cleanup_diag_ struct diag d = {0};
	struct store *s = make_store(state);
	const struct oid a = snapshot(s, "a", "project");
	struct oid id;

	assert_ok(store_ref_set(s, "unrelated", &a));
	assert_ok(store_ref_set(s, "projects:v1", &a));
	assert_ok(store_ref_set(s, "projecta:v2", &a));
	assert_ok(store_ref_set(s, "projectb", &a));
	assert_int_equal(store_resolve(s, "projetc", &d, &id), -ENOENT);
	assert_int_equal(d.count, 4);
	assert_non_null(strstr(diag_line(&d, 0), "projetc"));
	assert_string_equal(diag_line(&d, 1), "did you mean project:latest?");
	diag_fini(&d);
	assert_int_equal(store_resolve(s, "projects", &d, &id), -ENOENT);
	assert_string_equal(diag_line(&d, 1), "did you mean projects:v1?");
	diag_fini(&d);
	assert_int_equal(store_resolve(s, "zzz", &d, &id), -ENOENT);
	assert_int_equal(d.count, 1);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_ref_is_normalized_or_refused),
		RUN_SCRATCH(a_ref_is_set_read_moved_and_deleted),
		RUN_SCRATCH(refs_are_walked_by_name),
		RUN_SCRATCH(a_snapshot_with_a_ref_is_not_forgotten),
		RUN_SCRATCH(names_ids_and_prefixes_resolve),
		RUN_SCRATCH(an_ambiguous_prefix_is_refused_with_its_ids),
		RUN_SCRATCH(a_ref_wins_over_a_prefix),
		RUN_SCRATCH(near_names_are_offered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
