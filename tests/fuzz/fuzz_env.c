/* SPDX-License-Identifier: MIT */
/*
 * The file `env` of an environment, with its checksum set right when the first
 * byte says so. Both of its readers must agree whether it is sound; what is
 * accepted is written and read again.
 */
#include "fuzz_store.h"

#include "env/env.h"
#include "store/gc_int.h"

#include <errno.h>

static int count(void *ctx, const char *ref, const struct oid *id)
{
	struct oid *ret = ctx;

	*ret = *id;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct env_info info, again;
	struct store *s = fuzz_store();
	_cleanup_buf_ struct buf b = {0};
	static bool made;
	struct oid id;

	if (!made) {
		info.snapshot = fuzz_store_snapshot();
		info.created_sec = 1;
		FUZZ_CHECK(env_create(s, "e", &info) == 0);
		made = true;
	}
	if (size == 0)
		return 0;
	buf_put(&b, data + 1, size - 1);
	if (data[0] & 1)
		buf_put_u64(&b, oid_checksum(b.data, b.len, 0));
	FUZZ_CHECK(buf_error(&b) == 0);
	fuzz_write(s->fd, "envs/e/env", b.data, b.len);
	if (env_read_info(s, "e", &info) < 0)
		return 0;
	FUZZ_CHECK(store_envs_int(s, count, &id, NULL) == 0);
	FUZZ_CHECK(oid_equal(&id, &info.snapshot));
	/* Synced: for some only. */
	if (info.created_sec % 64)
		return 0;
	FUZZ_CHECK(env_write_info(s, "e", &info) == 0);
	FUZZ_CHECK(env_read_info(s, "e", &again) == 0);
	FUZZ_CHECK(oid_equal(&info.snapshot, &again.snapshot));
	FUZZ_CHECK(strcmp(info.source, again.source) == 0);
	FUZZ_CHECK(strcmp(info.at, again.at) == 0);
	FUZZ_CHECK(strcmp(info.ref, again.ref) == 0);
	FUZZ_CHECK(info.created_sec == again.created_sec);
	return 0;
}
