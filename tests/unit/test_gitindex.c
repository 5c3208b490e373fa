/* SPDX-License-Identifier: MIT */
/* Tests of git/index.h: indexes are made here, byte by byte. */
#include "test.h"

#include "base/err.h"
#include "git/index.h"
#include "git/sha1_int.h"

enum { NAME_EXTENDED = 0x4000, STAT_BYTES = 40, MODE_AT = 24 };

/* An entry to be written, or one that was told. */
struct item {
	const char *path;
	uint32_t mode;
	unsigned flags;	   /* stage, assume-unchanged, extended */
	unsigned extended; /* intent-to-add, skip-worktree */
};

static const struct item few[] = {
	{"a", 0100644, 0, 0},	   {"dir/b", 0100755, 0, 0},
	{"dir/bcd", 0120000, 0, 0}, {"dir/sub/x", 0160000, 0x1000, 0},
	{"z", 0100644, 0x8000, 0},
};
static const struct item flagged[] = {
	{"added", 0100644, NAME_EXTENDED, 0x2000},
	{"plain", 0100644, 0, 0},
	{"skipped", 0100644, NAME_EXTENDED, 0x4000},
};

static void put_be32(struct buf *b, uint32_t v)
{
	buf_put_u32(b, __builtin_bswap32(v));
}

static void put_be16(struct buf *b, unsigned v)
{
	buf_put_u16(b, __builtin_bswap16((uint16_t)v));
}

static void put_name(struct buf *b, uint32_t version, size_t start,
		     const char *before, const char *path)
{
	size_t same = 0;

	if (version == 4) {
		size_t strip;

		while (before[same] && before[same] == path[same])
			same++;
		strip = strlen(before) - same;
		assert_true(strip < 128);
		buf_put_u8(b, (uint8_t)strip);
		buf_put(b, path + same, strlen(path + same) + 1);
		return;
	}
	buf_put(b, path, strlen(path));
	do
		buf_put_u8(b, 0);
	while ((b->len - start) % 8 != 0);
}

static void put_entries(struct buf *b, uint32_t version,
			const struct item *items, size_t n)
{
	const char *before = "";

	buf_put(b, "DIRC", 4);
	put_be32(b, version);
	put_be32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		const size_t start = b->len;

		for (uint32_t at = 0; at < STAT_BYTES; at += 4)
			put_be32(b, at == MODE_AT ? items[i].mode
						  : (uint32_t)i * 100 + at);
		for (uint8_t k = 0; k < GITINDEX_NAME_BYTES; k++)
			buf_put_u8(b, (uint8_t)(i + k));
		put_be16(b, items[i].flags |
				    (unsigned)MIN(strlen(items[i].path),
						  (size_t)0xfff));
		if (items[i].flags & NAME_EXTENDED)
			put_be16(b, items[i].extended);
		put_name(b, version, start, before, items[i].path);
		before = items[i].path;
	}
}

static void put_extension(struct buf *b, const char *signature,
			  const void *data, size_t len)
{
	buf_put(b, signature, 4);
	put_be32(b, (uint32_t)len);
	buf_put(b, data, len);
}

static void put_checksum(struct buf *b)
{
	uint8_t hash[SHA1_BYTES];
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, b->data, b->len);
	sha1_end(&s, hash);
	buf_put(b, hash, sizeof hash);
}

/* What the callback was told, and what it answers. */
struct told {
	struct gitindex_entry e[8];
	char paths[8][64];
	size_t n;
	bool keep;  /* the same stat data */
	int result;
};

static int tell(void *ctx, const struct gitindex_entry *e,
		struct gitindex_stat *ret_st)
{
	struct told *t = ctx;

	assert_true(t->n < 8);
	assert_int_equal(strlen(e->path), e->path_len);
	(void)snprintf(t->paths[t->n], sizeof t->paths[0], "%s", e->path);
	t->e[t->n++] = *e;
	if (t->keep)
		*ret_st = e->st;
	else
		*ret_st = (struct gitindex_stat){1, 2, 3, 4, 5, 6, 7, 8, 9};
	return t->result;
}

static int patch(const struct buf *raw, struct told *t, struct buf *out)
{
	_cleanup_diag_ struct diag diag = {0};

	t->n = 0;
	buf_clear(out);
	return gitindex_patch(raw->data, raw->len, tell, t, &diag, out);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
	assert_int_equal(a->len, b->len);
	assert_memory_equal(a->data, b->data, a->len);
}

TEST(sha1_is_that_of_the_standard)
{
	static const struct {
		const char *text;
		size_t times;
		const char *hex;
	} known[] = {
		{"", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
		 "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
		{"aaaaaaaaaa", 100000,
		 "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		uint8_t hash[SHA1_BYTES];
		char hex[2 * SHA1_BYTES + 1];
		struct sha1 s;

		sha1_init(&s);
		for (size_t k = 0; k < known[i].times; k++)
			sha1_add(&s, known[i].text, strlen(known[i].text));
		sha1_end(&s, hash);
		for (size_t k = 0; k < SHA1_BYTES; k++)
			(void)snprintf(hex + 2 * k, 3, "%02x", hash[k]);
		assert_string_equal(hex, known[i].hex);
	}
}

TEST(a_blob_has_the_name_that_git_gives_it)
{
	static const uint8_t want[] = {0xce, 0x01, 0x36, 0x25, 0x03, 0x0b, 0xa8,
				       0xdb, 0xa9, 0x06, 0xf7, 0x56, 0x96, 0x7f,
				       0x9e, 0x9c, 0xa3, 0x94, 0x46, 0x4a};
	uint8_t name[GITINDEX_NAME_BYTES];
	struct gitblob b;

	gitblob_begin(&b, 6);
	gitblob_add(&b, "hel", 3);
	gitblob_add(&b, "lo\n", 3);
	gitblob_end(&b, name);
	assert_memory_equal(name, want, sizeof want);
}

TEST(entries_are_told_with_their_paths)
{
	for (uint32_t version = 2; version <= 4; version++) {
		_cleanup_buf_ struct buf raw = {0}, out = {0};
		struct told t = {.keep = true};

		put_entries(&raw, version, few, ARRAY_SIZE(few));
		put_checksum(&raw);
		assert_ok(patch(&raw, &t, &out));
		assert_int_equal(t.n, ARRAY_SIZE(few));
		for (size_t i = 0; i < t.n; i++) {
			assert_string_equal(t.paths[i], few[i].path);
			assert_int_equal(t.e[i].mode, few[i].mode);
			assert_int_equal(t.e[i].st.ctime_sec, i * 100);
			assert_int_equal(t.e[i].st.ino, i * 100 + 20);
			assert_int_equal(t.e[i].st.size, i * 100 + 36);
			assert_int_equal(t.e[i].stage, i == 3);
		}
		assert_same(&raw, &out);
	}
}

TEST(stat_data_change_and_nothing_else)
{
	for (uint32_t version = 2; version <= 4; version++) {
		_cleanup_buf_ struct buf raw = {0}, out = {0}, again = {0};
		struct told t = {.keep = false};
		size_t changed = 0;

		put_entries(&raw, version, few, ARRAY_SIZE(few));
		put_extension(&raw, "TREE", "cached", 6);
		put_checksum(&raw);
		assert_ok(patch(&raw, &t, &out));
		assert_int_equal(raw.len, out.len);
		for (size_t i = 0; i < raw.len - SHA1_BYTES; i++)
			changed += raw.data[i] != out.data[i];
		assert_in_range(changed, ARRAY_SIZE(few) * 9,
				ARRAY_SIZE(few) * 36);
		t.keep = true;
		assert_ok(patch(&out, &t, &again));
		assert_same(&out, &again);
		for (size_t i = 0; i < t.n; i++) {
			assert_int_equal(t.e[i].mode, few[i].mode);
			assert_int_equal(t.e[i].st.ctime_sec, 1);
			assert_int_equal(t.e[i].st.mtime_nsec, 4);
			assert_int_equal(t.e[i].st.dev, 5);
			assert_int_equal(t.e[i].st.size, 9);
		}
	}
}

TEST(flags_of_version_3_are_told)
{
	for (uint32_t version = 3; version <= 4; version++) {
		_cleanup_buf_ struct buf raw = {0}, out = {0};
		struct told t = {.keep = true};

		put_entries(&raw, version, flagged, ARRAY_SIZE(flagged));
		put_checksum(&raw);
		assert_ok(patch(&raw, &t, &out));
		assert_true(t.e[0].intent_to_add && !t.e[0].skip_worktree);
		assert_true(!t.e[1].intent_to_add && !t.e[1].skip_worktree);
		assert_true(!t.e[2].intent_to_add && t.e[2].skip_worktree);
		assert_same(&raw, &out);
	}
}

TEST(flags_of_version_3_are_damage_in_version_2)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, flagged, ARRAY_SIZE(flagged));
	put_checksum(&raw);
	assert_int_equal(patch(&raw, &t, &out), -EFSCORRUPTED);
	assert_int_equal(out.len, 0);
}

static int count(void *ctx, const struct gitindex_entry *e,
		 struct gitindex_stat *ret_st)
{
	*(size_t *)ctx += e->path_len;
	*ret_st = e->st;
	return 0;
}

TEST(a_name_longer_than_its_field_is_read)
{
	char path[6000];
	const struct item one = {path, 0100644, 0, 0};

	memset(path, 'p', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	for (uint32_t version = 2; version <= 4; version++) {
		_cleanup_buf_ struct buf raw = {0}, out = {0};
		size_t seen = 0;

		put_entries(&raw, version, &one, 1);
		put_checksum(&raw);
		assert_ok(gitindex_patch(raw.data, raw.len, count, &seen, NULL,
					 &out));
		assert_int_equal(seen, sizeof path - 1);
		assert_same(&raw, &out);
	}
}

TEST(what_belongs_to_one_work_tree_is_dropped)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0}, want = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	put_entries(&want, 2, few, ARRAY_SIZE(few));
	put_extension(&raw, "TREE", "cached", 6);
	put_extension(&want, "TREE", "cached", 6);
	put_extension(&raw, "UNTR", "/home/x", 7);
	put_extension(&raw, "FSMN", "token", 5);
	put_extension(&raw, "REUC", "", 0);
	put_extension(&want, "REUC", "", 0);
	put_extension(&raw, "XYZW", "may be ignored", 14);
	put_extension(&want, "XYZW", "may be ignored", 14);
	put_checksum(&raw);
	put_checksum(&want);
	assert_ok(patch(&raw, &t, &out));
	assert_same(&want, &out);
}

/* The end-of-entries extension: an offset, and the hash of the headers. */
static void put_end(struct buf *b, uint32_t offset, const char *headers,
		    size_t len)
{
	uint8_t data[4 + SHA1_BYTES];
	struct sha1 s;

	offset = __builtin_bswap32(offset);
	memcpy(data, &offset, 4);
	sha1_init(&s);
	sha1_add(&s, headers, len);
	sha1_end(&s, data + 4);
	put_extension(b, "EOIE", data, sizeof data);
}

TEST(the_hash_of_the_extensions_is_made_anew)
{
	static const char both[] = "TREE\0\0\0\6UNTR\0\0\0\7";
	_cleanup_buf_ struct buf raw = {0}, out = {0}, want = {0};
	struct told t = {.keep = true};
	uint32_t end;

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	put_entries(&want, 2, few, ARRAY_SIZE(few));
	end = (uint32_t)raw.len;
	put_extension(&raw, "TREE", "cached", 6);
	put_extension(&want, "TREE", "cached", 6);
	put_extension(&raw, "UNTR", "/home/x", 7);
	put_end(&raw, end, both, 16);
	put_end(&want, end, both, 8);
	put_checksum(&raw);
	put_checksum(&want);
	assert_ok(patch(&raw, &t, &out));
	assert_same(&want, &out);
}

static int patch_with(const char *signature, const void *data, size_t len)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	put_extension(&raw, signature, data, len);
	put_checksum(&raw);
	return patch(&raw, &t, &out);
}

TEST(what_must_be_known_is_refused)
{
	static const uint8_t none[SHA1_BYTES], some[SHA1_BYTES] = {1};

	assert_int_equal(patch_with("link", some, SHA1_BYTES), -EOPNOTSUPP);
	assert_ok(patch_with("link", none, SHA1_BYTES));
	assert_int_equal(patch_with("abcd", "", 0), -EOPNOTSUPP);
	assert_ok(patch_with("sdir", "", 0));
}

TEST(an_entry_without_a_name_is_of_a_split_index)
{
	static const struct item none[] = {{"", 0100644, 0, 0}};
	static const uint8_t some[SHA1_BYTES] = {1};
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, none, 1);
	put_extension(&raw, "link", some, sizeof some);
	put_checksum(&raw);
	assert_int_equal(patch(&raw, &t, &out), -EOPNOTSUPP);
	buf_clear(&raw);
	put_entries(&raw, 2, none, 1);
	put_checksum(&raw);
	assert_int_equal(patch(&raw, &t, &out), -EFSCORRUPTED);
	assert_int_equal(t.n, 0);
}

TEST(other_versions_are_refused)
{
	static const uint32_t versions[] = {0, 1, 5, 0x02000000};

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_buf_ struct buf raw = {0}, out = {0};
		struct told t = {.keep = true};

		put_entries(&raw, versions[i], few, 0);
		put_checksum(&raw);
		assert_int_equal(patch(&raw, &t, &out), -EOPNOTSUPP);
	}
}

TEST(a_checksum_of_zeros_stays)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	assert_ok(buf_resize(&raw, raw.len + SHA1_BYTES));
	assert_ok(patch(&raw, &t, &out));
	assert_same(&raw, &out);
}

TEST(a_changed_bit_is_found)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.keep = true};

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	put_checksum(&raw);
	for (size_t i = 0; i < raw.len; i++) {
		raw.data[i] ^= 1;
		assert_int_equal(patch(&raw, &t, &out), -EFSBADCRC);
		raw.data[i] ^= 1;
	}
}

TEST(a_cut_index_is_refused)
{
	for (uint32_t version = 2; version <= 4; version++) {
		_cleanup_buf_ struct buf raw = {0}, cut = {0}, out = {0};
		struct told t = {.keep = true};
		size_t entries;

		put_entries(&raw, version, few, ARRAY_SIZE(few));
		entries = raw.len;
		put_extension(&raw, "TREE", "cached", 6);
		for (size_t n = 0; n <= raw.len; n++) {
			const bool whole = n == entries || n == raw.len;
			int r;

			buf_clear(&cut);
			buf_put(&cut, raw.data, n);
			put_checksum(&cut);
			r = patch(&cut, &t, &out);
			assert_int_equal(r, whole ? 0 : -EFSCORRUPTED);
			assert_int_equal(out.len, whole ? cut.len : 0);
		}
	}
}

TEST(an_error_of_the_callback_ends_it)
{
	_cleanup_buf_ struct buf raw = {0}, out = {0};
	struct told t = {.result = -EIO};

	put_entries(&raw, 2, few, ARRAY_SIZE(few));
	put_checksum(&raw);
	assert_int_equal(patch(&raw, &t, &out), -EIO);
	assert_int_equal(t.n, 1);
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUN(sha1_is_that_of_the_standard),
		RUN(a_blob_has_the_name_that_git_gives_it),
		RUN(entries_are_told_with_their_paths),
		RUN(stat_data_change_and_nothing_else),
		RUN(flags_of_version_3_are_told),
		RUN(flags_of_version_3_are_damage_in_version_2),
		RUN(a_name_longer_than_its_field_is_read),
		RUN(what_belongs_to_one_work_tree_is_dropped),
		RUN(the_hash_of_the_extensions_is_made_anew),
		RUN(what_must_be_known_is_refused),
		RUN(an_entry_without_a_name_is_of_a_split_index),
		RUN(other_versions_are_refused),
		RUN(a_checksum_of_zeros_stays),
		RUN(a_changed_bit_is_found),
		RUN(a_cut_index_is_refused),
		RUN(an_error_of_the_callback_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
