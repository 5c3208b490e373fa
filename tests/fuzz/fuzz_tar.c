/* SPDX-License-Identifier: MIT */
/*
 * Archives: an import may refuse what it is given, with a line that says why,
 * and must end well. What it takes can be exported, and that comes in again
 * with the same id; so what one archive claims, the tree can hold.
 *
 * An edit would nearly always be found out by the checksum of the header that
 * it is in, so these are set right first, unless the last byte says not to.
 */
#include "fuzz_store.h"

#include "base/io.h"
#include "exchange/export_tar.h"
#include "exchange/import_tar.h"
#include "store/gc.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
	BLOCK = 512,
	AT_SUM = 148,
	AT_MAGIC = 257,
	MAX_BYTES = 16 << 20,
	MAX_FILES = 64,
	COLLECT_AFTER = 64, /* snapshots */
};

static void set_sums(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
		uint8_t *h = data + at;
		char text[8];
		unsigned sum = 0;

		if (memcmp(h + AT_MAGIC, "ustar", 5) != 0)
			continue;
		memset(h + AT_SUM, ' ', 8);
		for (int i = 0; i < BLOCK; i++)
			sum += h[i];
		(void)snprintf(text, sizeof text, "%06o", sum);
		memcpy(h + AT_SUM, text, 7);
	}
}

static int import(int fd, struct diag *diag, struct oid *ret_id)
{
	static const struct import_options options;
	const struct import_tar_source source = {.fd = fd,
						 .path = "",
						 .max_bytes = MAX_BYTES,
						 .max_files = MAX_FILES};
	struct import_result res;
	int r;

	FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
	r = import_tar(fuzz_store(), &source, &options, NULL, diag, &res);
	if (r < 0)
		return r;
	FUZZ_CHECK(res.bytes <= MAX_BYTES && res.inodes <= MAX_FILES);
	*ret_id = res.id;
	return 0;
}

/* Nothing of what came before is kept. */
static void forget(const struct oid *id)
{
	static const struct gc_options options = {.grace_days = 0};
	static unsigned count;
	struct gc_result res;

	FUZZ_CHECK(store_snapshot_forget(fuzz_store(), id) == 0);
	if (++count % COLLECT_AFTER == 0)
		FUZZ_CHECK(store_gc(fuzz_store(), &options, NULL, NULL, &res) ==
			   0);
}

static void round_trip(const struct oid *id)
{
	const int fd = memfd_create("again", MFD_CLOEXEC);
	struct export_result res;
	struct oid again;

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(export_tar(fuzz_store(), id, fd, NULL, &res) == 0);
	FUZZ_CHECK(import(fd, NULL, &again) == 0);
	FUZZ_CHECK(oid_equal(id, &again));
	(void)close(fd);
	forget(id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int fd = memfd_create("archive", MFD_CLOEXEC);
	/* waiting for a disk would be nearly all that it does */
	const int shm = access("/dev/shm", W_OK | X_OK) == 0
				? setenv("TMPDIR", "/dev/shm", 1)
				: 0;
	_cleanup_free_ uint8_t *copy = malloc(size + 1);
	_cleanup_diag_ struct diag diag = {0};
	struct oid id;

	FUZZ_CHECK(fd >= 0 && copy && shm == 0);
	if (size)
		memcpy(copy, data, size);
	if (size && !data[size - 1])
		set_sums(copy, size);
	FUZZ_CHECK(io_write(fd, copy, size) == 0);
	if (import(fd, &diag, &id) == 0)
		round_trip(&id);
	else
		FUZZ_CHECK(diag_line(&diag, 0));
	(void)close(fd);
	return 0;
}
