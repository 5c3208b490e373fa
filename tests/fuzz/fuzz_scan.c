/* SPDX-License-Identifier: MIT */
/*
 * What an import remembers: the input takes the place of the scan that an
 * import of a small tree has made, with the checksum set right when the first
 * byte says so, and with the right head when it says that. The next import may
 * believe it, and must end well.
 */
#include "fuzz_store.h"

#include "exchange/import_dir.h"
#include "object/format.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 32 };

static char tree[400];
static char name[300]; /* of the scan; "": none is kept here */
static uint8_t head[HEAD];

static struct oid import(void)
{
	static const struct import_options options;
	struct import_result result = {0};

	FUZZ_CHECK(import_dir(fuzz_store(), tree, "t:latest", &options, NULL,
			      NULL, &result) == 0);
	return result.id;
}

static void find_scan(int fd)
{
	const int scans = openat(fd, "scans", O_RDONLY | O_DIRECTORY);
	DIR *d = scans < 0 ? NULL : fdopendir(scans);
	const struct dirent *e;
	int file;

	if (!d) /* on a file system whose times are not trusted */
		return;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			(void)snprintf(name, sizeof name, "%s", e->d_name);
	file = openat(scans, name, O_RDONLY | O_CLOEXEC);
	FUZZ_CHECK(file >= 0 && read(file, head, HEAD) == HEAD);
	(void)close(file);
	(void)closedir(d);
}

static void setup(void)
{
	const struct timespec pause = {.tv_nsec = 500000000};
	struct store *s = fuzz_store();
	int fd;

	(void)snprintf(tree, sizeof tree, "%s/../tree", fuzz_store_path());
	FUZZ_CHECK(mkdir(tree, 0700) == 0);
	fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	fuzz_write(fd, "a", "aaaa", 4);
	fuzz_write(fd, "b", "bbbbbb", 6);
	(void)close(fd);
	/* Younger files are not remembered. */
	(void)nanosleep(&pause, NULL);
	(void)import();
	find_scan(s->fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf b = {0};
	char path[400];

	if (!tree[0])
		setup();
	if (!name[0] || size == 0)
		return 0;
	if (data[0] & 2)
		buf_put(&b, head, sizeof head);
	buf_put(&b, data + 1, size - 1);
	if (data[0] & 1)
		buf_put_u64(&b, oid_checksum(b.data, b.len, FORMAT_SCAN_MAGIC));
	FUZZ_CHECK(buf_error(&b) == 0);
	(void)snprintf(path, sizeof path, "scans/%s", name);
	fuzz_write(fuzz_store()->fd, path, b.data, b.len);
	(void)import();
	return 0;
}
