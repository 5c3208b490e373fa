/* SPDX-License-Identifier: MIT */
/*
 * Replay of arbitrary items: an error or a state that can be read and closed,
 * in memory that follows from the input's size. The environment has a tiny
 * snapshot; its folder is made once, below TMPDIR.
 */
#include "fuzz_store.h"

#include "base/io.h"
#include "env/delta.h"
#include "env/env.h"
#include "object/format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct buf journal; /* its header, then one frame */
static int journal_fd = -1;

static void setup(void)
{
	struct env_info info = {.created_sec = 1,
				.snapshot = fuzz_store_snapshot()};

	FUZZ_CHECK(env_create(fuzz_store(), "e", &info) == 0);
	buf_put_u32(&journal, FORMAT_JOURNAL_MAGIC);
	buf_put_u32(&journal, FORMAT_VERSION);
	buf_put(&journal, info.snapshot.b, OID_BYTES);
	buf_put_u64(&journal, 0); /* salt */
	buf_put_u64(&journal, oid_checksum(journal.data, journal.len, 0));
	journal_fd = openat(store_fd(fuzz_store()), "envs/e/journal",
			    O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_CHECK(journal_fd >= 0);
}

/* Writes a journal of one frame, whole by its checksum. */
static void give(const uint8_t *items, size_t size)
{
	enum { HEADER = 48 };
	struct buf *b = &journal;

	FUZZ_CHECK(buf_resize(b, HEADER) == 0);
	buf_put_u32(b, FORMAT_JOURNAL_MAGIC);
	buf_put_u32(b, (uint32_t)size);
	buf_put_u64(b, 0);
	buf_put_u64(b, oid_checksum(items, size, size));
	buf_put(b, items, size);
	FUZZ_CHECK(buf_error(b) == 0);
	FUZZ_CHECK(io_pwrite(journal_fd, b->data, b->len, 0) == 0);
	FUZZ_CHECK(ftruncate(journal_fd, (off_t)b->len) == 0);
}

/* What a listing finds must have attributes, and its bytes be readable. */
static bool look(void *ctx, const char *name, size_t len,
		 const struct env_attr *attr, uint64_t next)
{
	uint64_t *last = ctx;

	FUZZ_CHECK(len > 0 && next > *last);
	*last = next;
	return true;
}

static void look_at(struct env *e, uint64_t ino)
{
	char data[64];
	uint64_t at = 0;
	struct env_attr a;

	if (env_getattr(e, ino, &a) < 0)
		return;
	FUZZ_CHECK(a.ino == ino);
	if (S_ISREG(a.mode)) {
		(void)!env_read(e, ino, data, sizeof data, 0);
		(void)!env_read(e, ino, data, sizeof data, a.size / 2);
		(void)!env_seek(e, ino, 0, SEEK_DATA, &at);
	}
	if (S_ISDIR(a.mode))
		(void)!env_readdir(e, ino, 0, look, &at);
	(void)!env_listxattr(e, ino, NULL, 0);
}

static int no_row(void *ctx, const struct delta_row *row)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct env *e;

	if (journal_fd < 0)
		setup();
	give(data, size);
	if (env_open(fuzz_store(), "e", ENV_READ_ONLY, NULL, &e) < 0)
		return 0;
	for (uint64_t ino = ENV_ROOT; ino < 12; ino++)
		look_at(e, ino);
	(void)!delta_walk(e, 0, no_row, NULL);
	env_close(e);
	return 0;
}
