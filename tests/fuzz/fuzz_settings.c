/* SPDX-License-Identifier: MIT */
/*
 * The two texts with a checksum line: `settings` and `format`. The first byte
 * says which, and whether the line is set right. Settings that are accepted
 * are written and read again.
 */
#include "fuzz_store.h"

#include "store/settings.h"

#include <errno.h>

static void check_settings(struct store *s)
{
	struct settings a, b;

	if (settings_read(s, NULL, &a) < 0)
		return;
	FUZZ_CHECK(a.grace_days <= SETTINGS_MAX_GRACE_DAYS);
	/* Written and synced: for some only. */
	if (a.max_store % 64 || a.grace_days % 64)
		return;
	FUZZ_CHECK(settings_write(s, &a) == 0);
	FUZZ_CHECK(settings_read(s, NULL, &b) == 0);
	FUZZ_CHECK(a.grace_days == b.grace_days && a.max_store == b.max_store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store *s = fuzz_store();
	_cleanup_buf_ struct buf text = {0};
	const char *name;

	if (size == 0)
		return 0;
	name = data[0] & 1 ? "settings" : "format";
	buf_put(&text, data + 1, size - 1);
	if (data[0] & 2)
		store_seal_int(&text);
	FUZZ_CHECK(buf_error(&text) == 0);
	fuzz_write(s->fd, name, text.data, text.len);
	if (data[0] & 1)
		check_settings(s);
	else
		(void)!store_check_format_int(s->fd, s->path, NULL);
	return 0;
}
