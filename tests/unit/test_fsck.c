/* SPDX-License-Identifier: MIT */
/*
 * Each rule of docs/format.md about the store is broken here on purpose, and
 * must be told by its number. A store is made, broken while it is open (rows,
 * objects that no importer would write) or after (bytes of files), closed, and
 * checked in the way of the command. Objects have a program of their own.
 */
#include "fsck_case.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* --- what is sound ------------------------------------------------------- */

TEST(a_sound_store_has_no_damage)
{
	make_two_snapshots(state);
	assert_clean(state);
	assert_int_equal(fsck_run_check(state, FSCK_FAST).damage, 0);
}

TEST(a_check_changes_nothing_in_the_index)
{
	char path[600];
	struct stat a, b;

	make_two_snapshots(state);
	flip_bit(state, "copies/log", 5);
	(void)snprintf(path, sizeof path, "%s/index/data.mdb", fsck_dir(state));
	assert_ok(stat(path, &a));
	assert_rule(state, "S26");
	assert_ok(stat(path, &b));
	assert_int_equal(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
	assert_rule(state, "S26");
}

/* --- files --------------------------------------------------------------- */

TEST(S1_a_damaged_format)
{
	make_two_snapshots(state);
	flip_bit(state, "format", 12);
	assert_rule(state, "S1");
}

TEST(S17_settings_that_do_not_fit_their_checksum)
{
	static const char text[] = "cowfs settings 1\ngrace-days 7\n"
				   "checksum 0123456789abcdef\n";
	struct store *s;

	make_two_snapshots(state);
	s = fsck_open_store(state);
	assert_ok(io_write_file(store_fd(s), "settings", text, strlen(text),
				false));
	store_close(s);
	assert_rule(state, "S17");
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
}

TEST(S27_names_of_another_kind)
{
	static const char *const names[] = {
		"segments",   "envs",	    "trash",	   "lock",
		"copies",     "copies/log", "server.lock", "server.log",
		"quarantine", "scans",	    "index.clean", "index/lock.mdb",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct store *s;

		make_two_snapshots(state);
		s = fsck_open_store(state);
		(void)!io_remove_tree(store_fd(s), names[i]);
		assert_ok(mkfifoat(store_fd(s), names[i], 0600));
		store_close(s);
		assert_rule(state, "S27");
		assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
		assert_ok(io_remove_tree(AT_FDCWD, fsck_dir(state)));
	}
}

static void be_silent(void *ctx, const struct fsck_finding *f)
{
}

TEST(S2_a_later_version_cannot_be_checked)
{
	struct fsck *f = NULL;
	struct store *s;
	static const char text[] = "cowfs store 2\nhash 1\nchunk 17\n"
				   "checksum c4f4f2b68231df91\n";

	make_two_snapshots(state);
	s = fsck_open_store(state);
	assert_ok(io_write_file(store_fd(s), "format", text, strlen(text),
				false));
	store_close(s);
	assert_int_equal(fsck_open(fsck_dir(state), FSCK_REPAIR, be_silent,
				   NULL, NULL, &f),
			 -EPROTONOSUPPORT);
}

TEST(S5_padding_that_is_not_zero)
{
	struct store *s = fsck_open_store(state);

	/* 3 bytes: the record ends in 5 of padding, and is the last. */
	struct batch *b = NULL;

	assert_ok(batch_begin(s, &b));
	(void)put_object(b, OID_BLOB, "abc", 3);
	assert_ok(batch_commit(b, NULL, NULL));
	store_close(s);
	flip_bit(state, SEGMENT, -1);
	assert_rule(state, "S5");
}

TEST(S6_a_flipped_bit_of_a_record)
{
	make_two_snapshots(state);
	flip_bit(state, SEGMENT,
		 SEGMENT_HEADER_BYTES + SEGMENT_RECORD_BYTES + 2);
	assert_rule(state, "S6");
	assert_rule(state, "S12");
}

TEST(S9_a_damaged_header_and_a_short_segment)
{
	char path[600];

	make_two_snapshots(state);
	flip_bit(state, SEGMENT, 9);
	assert_rule(state, "S9");
	flip_bit(state, SEGMENT, 9);
	assert_clean(state);
	(void)snprintf(path, sizeof path, "%s/" SEGMENT, fsck_dir(state));
	assert_ok(truncate(path, 100));
	assert_rule(state, "S9");
}

/* --- names --------------------------------------------------------------- */

static struct oid same_name(enum oid_kind kind, const void *data, size_t len)
{
	return oid_of(kind, "same", 4);
}

TEST(S4_a_name_that_is_not_the_bytes)
{
	batch_seam_int.name = same_name;
	put_wrong(state, OID_BLOB, "diff", 4);
	batch_seam_int.name = oid_of;
	assert_rule(state, "S4");
}

/* Appends a record and leaves the row of the other: what a writer would do
 * that does not compare. */
TEST(S3_two_objects_of_one_name)
{
	struct store *s = fsck_open_store(state);
	struct index_txn t = {0};
	struct segment_place place;
	struct batch *b = NULL;
	struct writer w;
	struct oid id;

	batch_seam_int.name = same_name;
	assert_ok(batch_begin(s, &b));
	id = put_object(b, OID_BLOB, "same", 4);
	assert_ok(batch_commit(b, NULL, NULL));
	assert_ok(writer_open(s->segments, s->index, 1 << 20, &w));
	assert_ok(writer_append(&w, &id, "twin", 4, &place));
	assert_ok(writer_sync(&w));
	assert_ok(index_txn_begin(s->index, true, &t));
	assert_ok(index_put_segment(&t, w.number, writer_end(&w)));
	assert_ok(index_txn_commit(&t));
	writer_committed(&w);
	writer_close(&w);
	store_close(s);
	assert_rule(state, "S3");
	batch_seam_int.name = oid_of;
}

/* --- rows ---------------------------------------------------------------- */

/* Finds where the index's file holds bytes, in a page that is in use. */
static off_t find_in_index(void **state, const char *text, size_t from)
{
	_cleanup_buf_ struct buf b = {0};
	const uint8_t *p;
	char path[600];

	(void)snprintf(path, sizeof path, "%s/index/data.mdb", fsck_dir(state));
	assert_ok(io_read_file(AT_FDCWD, path, 64 << 20, &b));
	p = memmem(b.data + from, b.len - from, text, strlen(text));
	return p ? p - b.data : -1;
}

TEST(S11_a_value_that_does_not_fit_its_checksum)
{
	bool found = false;
	off_t at = 0;

	make_two_snapshots(state);
	/* Of the places where the name stands, old pages included, one counts.
	 */
	while (!found &&
	       (at = find_in_index(state, "two:latest", (size_t)at)) >= 0) {
		struct told t;

		flip_bit(state, "index/data.mdb", at + 12);
		t = fsck_run_check(state, 0);
		found = told_has(&t, "S11");
		flip_bit(state, "index/data.mdb", at + 12);
		at += 12;
	}
	assert_true(found);
	assert_clean(state);
}

static void move_object(struct index_txn *t)
{
	const struct oid id = oid_of(OID_BLOB, "content of a file", 17);
	struct segment_place place;

	assert_ok(index_get_object(t, &id, &place));
	place.offset += 8;
	assert_ok(index_put_object(t, &id, &place, false));
}

TEST(S12_a_row_of_no_record)
{
	struct told t;

	make_two_snapshots(state);
	change_rows(state, move_object);
	assert_rule(state, "S12");
	t = fsck_run_check(state, FSCK_FAST);
	assert_true(told_has(&t, "S12"));
	/* The record is there, so repair finds it. */
	t = fsck_run_check(state, FSCK_REPAIR);
	assert_int_equal(t.damage, 0);
	assert_clean(state);
}

static void name_nothing(struct index_txn *t)
{
	const struct oid id = oid_of(OID_SNAP, "none", 4);

	assert_ok(index_put_ref(t, "bad:name", &id));
}

static void record_nothing(struct index_txn *t)
{
	const struct oid id = oid_of(OID_SNAP, "none", 4);
	const struct snapshot_info info = {
		.id = id, .source = "", .host = "", .message = ""};
	_cleanup_buf_ struct buf row = {0};

	assert_ok(index_encode_snapshot(&info, &row));
	assert_ok(index_put(t, INDEX_SNAPSHOTS, index_key_of(id.b, OID_BYTES),
			    index_key_of(row.data, row.len), false));
}

TEST(S13_a_name_of_nothing_and_a_snapshot_without_an_object)
{
	make_two_snapshots(state);
	change_rows(state, name_nothing);
	assert_rule(state, "S13");
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	change_rows(state, record_nothing);
	assert_rule(state, "S13");
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	assert_clean(state);
}

static void lose_object(struct index_txn *t)
{
	const struct oid id = oid_of(OID_BLOB, "content of a file", 17);

	assert_ok(index_delete_object(t, &id));
}

TEST(S16_an_object_that_a_snapshot_needs)
{
	struct told t;

	make_two_snapshots(state);
	change_rows(state, lose_object);
	t = fsck_run_check(state, 0);
	assert_true(told_has(&t, "S16"));
	assert_int_equal(t.hits, 1);
	assert_string_equal(t.path, "file");
}

TEST(S25_a_damaged_page)
{
	make_two_snapshots(state);
	flip_bit(state, "index/data.mdb", 16 + 128); /* a meta page's number */
	assert_rule(state, "S25");
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	assert_clean(state);
}

TEST(S26_copies_that_say_something_else)
{
	make_two_snapshots(state);
	flip_bit(state, "copies/log", -3);
	assert_rule(state, "S26");
	assert_int_equal(fsck_run_check(state, FSCK_REPAIR).damage, 0);
	assert_clean(state);
}

/* --- copies and repair --------------------------------------------------- */

TEST(changes_of_names_are_in_the_copies)
{
	struct store *s = fsck_open_store(state);
	struct told t;
	struct oid id;

	(void)put_snapshot(s, "content of a file", "one");
	assert_ok(store_ref_get(s, "one", &id));
	/* Beyond what is written anew. */
	for (int i = 0; i < 30; i++) {
		struct index_txn txn = {0};

		assert_ok(index_txn_begin(s->index, true, &txn));
		for (int k = 0; k < 100; k++)
			assert_ok(index_put_ref(
				&txn, k % 2 ? "odd:x" : "even:x", &id));
		assert_ok(index_txn_commit(&txn));
	}
	assert_ok(store_ref_delete(s, "odd:x"));
	store_close(s);
	assert_clean(state);
	{
		char path[600];
		struct stat st;

		(void)snprintf(path, sizeof path, "%s/copies/log",
			       fsck_dir(state));
		assert_ok(stat(path, &st));
		assert_true(st.st_size < 128 << 10);
		(void)snprintf(path, sizeof path, "%s/index/data.mdb",
			       fsck_dir(state));
		assert_ok(unlink(path));
	}
	t = fsck_run_check(state, FSCK_REPAIR);
	assert_int_equal(t.damage, 0);
	s = fsck_open_store(state);
	assert_ok(store_ref_get(s, "one", &id));
	assert_ok(store_ref_get(s, "even:x", &id));
	assert_int_equal(store_ref_get(s, "odd:x", &id), -ENOENT);
	store_close(s);
}

/* A log that a killed writer has left longer than the index knows. */
TEST(a_copy_that_was_never_committed_is_cut)
{
	char path[600];
	struct store *s;
	struct oid id;
	int fd;

	make_two_snapshots(state);
	(void)snprintf(path, sizeof path, "%s/copies/log", fsck_dir(state));
	fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "CWK1 and then nothing", 21), 21);
	(void)close(fd);
	assert_clean(state);
	s = fsck_open_store(state);
	assert_ok(store_ref_get(s, "one", &id));
	assert_ok(store_ref_set(s, "three", &id));
	store_close(s);
	assert_clean(state);
}

TEST(whole_records_leave_a_damaged_segment)
{
	struct store *s = fsck_open_store(state);
	_cleanup_buf_ struct buf out = {0};
	const struct oid lost = put_snapshot(s, "lost and then found", "one");
	const struct oid kept = put_snapshot(s, "this one is kept", "two");
	struct told t;

	store_close(s);
	flip_bit(state, SEGMENT, SEGMENT_HEADER_BYTES + SEGMENT_RECORD_BYTES);
	t = fsck_run_check(state, FSCK_REPAIR);
	assert_true(told_has(&t, "S16"));
	assert_int_equal(t.hits, 1);
	assert_true(t.done > 0);
	s = fsck_open_store(state);
	assert_ok(store_get(s, &kept, &out));
	assert_memory_equal(out.data, "this one is kept", 16);
	assert_int_equal(store_has(s, &lost), 0);
	/* The same bytes again make it whole. */
	(void)put_snapshot(s, "lost and then found", "one");
	store_close(s);
	assert_clean(state);
}

TEST(a_missing_table_is_no_empty_store)
{
	bool refused = false;
	off_t at = 0;

	make_two_snapshots(state);
	while (!refused &&
	       (at = find_in_index(state, "snap", (size_t)at)) >= 0) {
		struct store *s = NULL;
		int r;

		flip_bit(state, "index/data.mdb", at);
		r = store_open(fsck_dir(state), 0, NULL, &s);
		refused = r == -EFSCORRUPTED;
		store_close(s);
		flip_bit(state, "index/data.mdb", at);
		at++;
	}
	assert_true(refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN_SCRATCH(a_sound_store_has_no_damage),
		RUN_SCRATCH(a_check_changes_nothing_in_the_index),
		RUN_SCRATCH(S1_a_damaged_format),
		RUN_SCRATCH(S17_settings_that_do_not_fit_their_checksum),
		RUN_SCRATCH(S27_names_of_another_kind),
		RUN_SCRATCH(S2_a_later_version_cannot_be_checked),
		RUN_SCRATCH(S3_two_objects_of_one_name),
		RUN_SCRATCH(S4_a_name_that_is_not_the_bytes),
		RUN_SCRATCH(S5_padding_that_is_not_zero),
		RUN_SCRATCH(S6_a_flipped_bit_of_a_record),
		RUN_SCRATCH(S9_a_damaged_header_and_a_short_segment),
		RUN_SCRATCH(S11_a_value_that_does_not_fit_its_checksum),
		RUN_SCRATCH(S12_a_row_of_no_record),
		RUN_SCRATCH(
			S13_a_name_of_nothing_and_a_snapshot_without_an_object),
		RUN_SCRATCH(S16_an_object_that_a_snapshot_needs),
		RUN_SCRATCH(S25_a_damaged_page),
		RUN_SCRATCH(S26_copies_that_say_something_else),
		RUN_SCRATCH(changes_of_names_are_in_the_copies),
		RUN_SCRATCH(a_copy_that_was_never_committed_is_cut),
		RUN_SCRATCH(whole_records_leave_a_damaged_segment),
		RUN_SCRATCH(a_missing_table_is_no_empty_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
