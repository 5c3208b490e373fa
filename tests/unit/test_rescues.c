/* SPDX-License-Identifier: MIT */
/*
 * Records of rescues: what is set is read, and survives an index that is made
 * anew; gc keeps what they need; fsck tells what breaks S28.
 */
#include "fsck_case.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "store/gc.h"
#include "store/rescues_int.h"

struct ids {
	struct oid one, two;
};

static int take_ref(void *ctx, const char *ref, const struct oid *id)
{
	struct ids *ids = ctx;

	if (!strcmp(ref, "one:latest"))
		ids->one = *id;
	else
		ids->two = *id;
	return 0;
}

static struct ids ids_of(struct store *s)
{
	struct ids ids = {0};

	assert_ok(store_refs(s, take_ref, &ids));
	return ids;
}

static struct rescue rescue_of(const struct ids *ids, const char *name)
{
	return (struct rescue){
		.name = name,
		.env = "env",
		.ref = "base:1",
		.source = "/home/x",
		.git_dir = "/home/x/.git",
		.git_ref = "refs/cowfs/rescue/r",
		.git_commit = "",
		.time_sec = 1234,
		.snapshot = ids->two,
		.base = ids->one,
		.salt = 5,
		.frames = 6,
		.files = 7,
		.bytes = 8,
	};
}

/* The store with the snapshots one and two, and a rescue "r" of two. */
static struct store *make_rescue(void **state)
{
	struct store *s;
	struct rescue r;
	struct ids ids;

	make_two_snapshots(state);
	s = fsck_open_store(state);
	ids = ids_of(s);
	r = rescue_of(&ids, "r");
	assert_ok(store_rescue_put(s, &r, true));
	return s;
}

struct seen {
	unsigned count;
	struct oid snapshot, base;
	char commit[64];
	size_t left_len;
};

static int see(void *ctx, const struct rescue *r)
{
	struct seen *seen = ctx;

	assert_string_equal(r->name, "r");
	assert_string_equal(r->env, "env");
	assert_string_equal(r->ref, "base:1");
	assert_string_equal(r->source, "/home/x");
	assert_string_equal(r->git_dir, "/home/x/.git");
	assert_int_equal(r->time_sec, 1234);
	assert_int_equal(r->salt * 1000 + r->frames * 100 + r->files * 10 +
				 r->bytes,
			 5678);
	seen->count++;
	seen->snapshot = r->snapshot;
	seen->base = r->base;
	seen->left_len = r->left_len;
	(void)snprintf(seen->commit, sizeof seen->commit, "%s", r->git_commit);
	return 0;
}

static struct seen look(struct store *s)
{
	struct seen seen = {0};

	assert_ok(store_rescues(s, see, &seen));
	return seen;
}

TEST(a_record_is_read_as_it_was_set)
{
	struct store *s = make_rescue(state);
	_cleanup_buf_ struct buf left = {0};
	struct ids ids = ids_of(s);
	struct rescue r = rescue_of(&ids, "r");
	struct seen seen = look(s);

	assert_int_equal(seen.count, 1);
	assert_memory_equal(&seen.snapshot, &ids.two, sizeof ids.two);
	assert_memory_equal(&seen.base, &ids.one, sizeof ids.one);
	assert_int_equal(store_rescue_put(s, &r, true), -EEXIST);
	rescue_left_put(&left, &(struct rescue_left){.why = RESCUE_LARGE,
						     .path = "a/b",
						     .path_len = 3,
						     .files = 1,
						     .bytes = 2});
	r.left = left.data;
	r.left_len = left.len;
	r.git_commit = "0123";
	assert_ok(store_rescue_put(s, &r, false));
	seen = look(s);
	assert_string_equal(seen.commit, "0123");
	assert_int_equal(seen.left_len, left.len);
	assert_ok(store_rescue_delete(s, "r"));
	assert_int_equal(look(s).count, 0);
	assert_int_equal(store_rescue_delete(s, "r"), -ENOENT);
	assert_int_equal(store_rescue(s, "r", see, &seen), -ENOENT);
	store_close(s);
	assert_clean(state);
}

TEST(a_record_never_names_what_is_not_there)
{
	struct store *s = make_rescue(state);
	struct ids ids = ids_of(s);
	struct rescue r = rescue_of(&ids, "other");

	r.snapshot.b[0] ^= 1;
	assert_int_equal(store_rescue_put(s, &r, true), -ENOENT);
	r = rescue_of(&ids, "other");
	r.base.b[0] ^= 1;
	assert_int_equal(store_rescue_put(s, &r, true), -ENOENT);
	r = rescue_of(&ids, "not/a label");
	assert_int_equal(store_rescue_put(s, &r, true), -EINVAL);
	store_close(s);
}

TEST(gc_keeps_what_a_rescue_needs_and_takes_it_after)
{
	const struct gc_options options = {.grace_days = 0};
	struct store *s = make_rescue(state);
	struct ids ids = ids_of(s);
	struct gc_result gc;
	struct usage u;

	assert_ok(store_ref_delete(s, "one"));
	assert_ok(store_ref_delete(s, "two"));
	assert_ok(store_snapshot_forget(s, &ids.one));
	assert_ok(store_snapshot_forget(s, &ids.two));
	assert_ok(store_gc(s, &options, NULL, NULL, &gc));
	assert_int_equal(gc.objects, 0);
	assert_ok(store_usage(s, NULL, &u));
	assert_int_equal(u.count, 2); /* not waste */
	usage_fini(&u);
	assert_ok(store_rescue_delete(s, "r"));
	assert_ok(store_gc(s, &options, NULL, NULL, &gc));
	assert_int_equal(gc.objects, 6);
	store_close(s);
	assert_clean(state);
}

TEST(a_lost_index_loses_no_rescue)
{
	struct store *s = make_rescue(state);

	store_close(s);
	flip_bit(state, "index/data.mdb", 20000);
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	s = fsck_open_store(state);
	assert_int_equal(look(s).count, 1);
	store_close(s);
	assert_clean(state);
}

static void drop_snapshot_object(struct index_txn *t)
{
	_cleanup_buf_ struct buf rows = {0}, strings = {0};
	struct index_key key, value;
	struct bytes in;
	struct rescue r;

	assert_ok(index_list(t, INDEX_RESCUES, index_key_of(NULL, 0), &rows));
	in = bytes_of(rows.data, rows.len);
	key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
	value.data = bytes_block(&in, INDEX_MAX_VALUE, &value.len);
	assert_ok(rescue_decode(key, value, &strings, &r));
	assert_ok(index_delete_object(t, &r.snapshot));
}

TEST(S28_a_rescue_without_its_snapshot)
{
	struct store *s = make_rescue(state);
	struct ids ids = ids_of(s);
	struct told t;

	assert_ok(store_ref_delete(s, "two"));
	assert_ok(store_snapshot_forget(s, &ids.two));
	store_close(s);
	change_rows(state, drop_snapshot_object);
	t = fsck_run_check(state, 0);
	assert_true(told_has(&t, "S28"));
}

static void put_nonsense(struct index_txn *t)
{
	assert_ok(index_put(t, INDEX_RESCUES, index_key_of("x", 1),
			    index_key_of("nonsense", 8), true));
}

TEST(S28_a_row_that_makes_no_sense)
{
	store_close(make_rescue(state));
	assert_clean(state);
	change_rows(state, put_nonsense);
	assert_rule(state, "S28");
}

TEST(what_hits_a_rescue_is_told_and_what_is_lost_goes)
{
	struct store *s = make_rescue(state);
	struct ids ids = ids_of(s);
	struct stat st;

	assert_ok(store_ref_delete(s, "two"));
	assert_ok(store_snapshot_forget(s, &ids.two));
	assert_ok(fstatat(store_fd(s), SEGMENT, &st, 0));
	store_close(s);
	/* its snapshot's object is the last in the segment */
	flip_bit(state, SEGMENT, st.st_size - 40);
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	s = fsck_open_store(state);
	assert_int_equal(look(s).count, 0);
	store_close(s);
	assert_clean(state);
}

TEST(a_list_that_is_cut_off_is_refused)
{
	_cleanup_buf_ struct buf list = {0};
	struct rescue_left one = {.why = RESCUE_CACHE,
				  .path = "node_modules/",
				  .path_len = 13,
				  .files = 3,
				  .bytes = 4};
	struct rescue_left got;

	rescue_left_put(&list, &one);
	for (size_t n = 1; n <= list.len; n++) {
		struct bytes in = bytes_of(list.data, n);

		assert_int_equal(rescue_left_next(&in, &got), n == list.len);
		assert_int_equal(in.bad, n != list.len);
	}
	assert_int_equal(got.bytes, 4);
	assert_int_equal(got.why, RESCUE_CACHE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_record_is_read_as_it_was_set),
		RUN_SCRATCH(a_record_never_names_what_is_not_there),
		RUN_SCRATCH(gc_keeps_what_a_rescue_needs_and_takes_it_after),
		RUN_SCRATCH(a_lost_index_loses_no_rescue),
		RUN_SCRATCH(S28_a_rescue_without_its_snapshot),
		RUN_SCRATCH(S28_a_row_that_makes_no_sense),
		RUN_SCRATCH(what_hits_a_rescue_is_told_and_what_is_lost_goes),
		RUN(a_list_that_is_cut_off_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
