/* SPDX-License-Identifier: MIT */
/*
 * import_memo.c - what became of the last tree whose indexes were adapted.
 *
 * Adapting git's indexes (import_index.c) is a function of the tree before it:
 * an import that found the same tree again takes the tree that came of it. Its
 * objects were committed then, and are there as long as the store's epoch is
 * the same. It lies beside the scan of the source and, like that, may be gone
 * at any time. Nothing is remembered when there was something to tell.
 */
#include "exchange/import_int.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

struct memo {
	uint32_t magic;
	uint32_t version;
	uint64_t epoch;
	struct oid key;
	struct oid made;
	uint64_t checksum;
};

_Static_assert(sizeof(struct memo) == 72, "no padding on disk");

static bool memo_name(const struct importer *imp, char *ret, uint64_t *epoch)
{
	const char *scan = import_scan_name(imp, epoch);

	if (!scan)
		return false;
	(void)snprintf(ret, STORE_SCAN_NAME_MAX, "%.*s.git", OID_HEX, scan);
	return true;
}

static uint64_t memo_checksum(const struct memo *m)
{
	return oid_checksum(m, offsetof(struct memo, checksum),
			    FORMAT_MEMO_MAGIC);
}

bool import_memo_get(struct importer *imp, const struct oid *key,
		     struct oid *ret_made)
{
	_cleanup_buf_ struct buf bytes = {0};
	char name[STORE_SCAN_NAME_MAX];
	uint64_t epoch;
	struct memo m;

	if (imp->options->rescan || !memo_name(imp, name, &epoch) ||
	    store_scan_read(imp->store, name, sizeof m, &bytes) < 0 ||
	    bytes.len != sizeof m)
		return false;
	memcpy(&m, bytes.data, sizeof m);
	if (m.magic != FORMAT_MEMO_MAGIC || m.version != FORMAT_MEMO_VERSION ||
	    m.epoch != epoch || m.checksum != memo_checksum(&m) ||
	    !oid_equal(&m.key, key) || oid_kind(&m.made) != OID_TREE ||
	    batch_has(imp->batch, &m.made) != 1)
		return false;
	*ret_made = m.made;
	return true;
}

void import_memo_set(struct importer *imp, const struct oid *key,
		     const struct oid *made)
{
	imp->memo_key = *key;
	imp->memo_made = *made;
}

void import_memo_save(struct importer *imp)
{
	struct memo m = {.magic = FORMAT_MEMO_MAGIC,
			 .version = FORMAT_MEMO_VERSION,
			 .key = imp->memo_key,
			 .made = imp->memo_made};
	char name[STORE_SCAN_NAME_MAX];

	if (oid_is_null(&m.key) || !memo_name(imp, name, &m.epoch))
		return;
	m.checksum = memo_checksum(&m);
	/* That it cannot be kept costs the next import time. */
	_unused_ const int ignored =
		store_scan_replace(imp->store, name, &m, sizeof m);
}
