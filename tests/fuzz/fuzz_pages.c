/* SPDX-License-Identifier: MIT */
/*
 * The index's file: the input is a list of edits (offset of three bytes, what
 * is to be written there: a byte of length 1 to 8, then the bytes) of one that
 * LMDB has made. What the check of pages lets pass LMDB must read to the end,
 * by list and by key: that is what the check is for.
 */
#include "fuzz_store.h"

#include "base/bytes.h"
#include "base/io.h"
#include "store/pages_int.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, EDIT_HEAD = 4, REFS = 60 };

static struct buf image;
static char dir[400];

/* Rows enough for pages of all kinds: a tree of two levels, a value that needs
 * pages of its own, free pages. */
static void setup(void)
{
	struct store *s = fuzz_store();
	const struct oid id = fuzz_store_snapshot();
	char name[80], from[400];

	for (int i = 0; i < REFS; i++) {
		(void)snprintf(name, sizeof name, "%040d:t%d", i, i);
		FUZZ_CHECK(store_ref_set(s, name, &id) == 0);
	}
	(void)snprintf(from, sizeof from, "%s/index/data.mdb",
		       fuzz_store_path());
	FUZZ_CHECK(io_read_file(AT_FDCWD, from, FILE_MAX, &image) == 0);
	(void)snprintf(dir, sizeof dir, "%s/fuzzed", fuzz_store_path());
	FUZZ_CHECK(mkdir(dir, 0700) == 0);
}

static void edit(struct buf *b, const uint8_t *data, size_t size)
{
	while (size > EDIT_HEAD) {
		const size_t at = (bytes_load_u32(data) & 0xffffff) % b->len;
		size_t n = data[3] % 8 + 1U;

		data += EDIT_HEAD;
		size -= EDIT_HEAD;
		n = MIN(n, MIN(size, b->len - at));
		memcpy(b->data + at, data, n);
		data += n;
		size -= n;
	}
}

static void read_all(struct index *x)
{
	for (int i = 0; i < INDEX_TABLES_FIRST; i++) {
		_cleanup_index_txn_ struct index_txn t = {0};
		_cleanup_buf_ struct buf rows = {0};
		static uint8_t value[INDEX_MAX_VALUE];
		struct bytes in;

		FUZZ_CHECK(index_txn_begin(x, false, &t) == 0);
		FUZZ_CHECK(index_list(&t, i, index_key_of(NULL, 0), &rows) ==
			   0);
		in = bytes_of(rows.data, rows.len);
		while (in.left > 0) {
			struct index_key key, want;

			key.data = bytes_block(&in, INDEX_MAX_VALUE, &key.len);
			want.data =
				bytes_block(&in, INDEX_MAX_VALUE, &want.len);
			FUZZ_CHECK(!in.bad);
			FUZZ_CHECK(index_get(&t, i, key, value,
					     sizeof value) == (int)want.len);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf b = {0};
	struct index *x = NULL;
	int fd, r;

	if (!image.len)
		setup();
	buf_put(&b, image.data, image.len);
	FUZZ_CHECK(buf_error(&b) == 0);
	edit(&b, data, size);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	fuzz_write(fd, "data.mdb", b.data, b.len);
	r = pages_check(fd, NULL, NULL);
	(void)close(fd);
	FUZZ_CHECK(r >= 0);
	FUZZ_CHECK(size > EDIT_HEAD || r == 0);
	if (r > 0)
		return 0;
	FUZZ_CHECK(index_open(dir, INDEX_LOOK, &x) == 0);
	read_all(x);
	index_close(x);
	return 0;
}
